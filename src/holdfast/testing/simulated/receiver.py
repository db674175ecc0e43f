"""Receives updates from the simulated vendor, passes them to intake, and then acknowledges them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Protocol

from holdfast.core.errors import IntakeClosed, NotAddressed, NotAllowed, NotConnected, StoreError
from holdfast.core.messages.inbox import Cursor, Inbound
from holdfast.core.messages.source import Quote, Source
from holdfast.core.ports.capabilities import Backlog, Capabilities
from holdfast.core.ports.platform import Intake
from holdfast.platforms.inbound import EventBuffer, backoff_delays
from holdfast.testing.simulated.events import RepliedMessage, SimulatedUpdate, UpdateKind

log = logging.getLogger(__name__)

PLATFORM = "simulated"
CURSOR_NAME = "updates"


class UpdateSource(Protocol):
    """The updates of one bot; every method raises `NotConnected` when the connection is cut."""

    account: str
    capabilities: Capabilities

    async def missed_updates(self, since: int) -> Sequence[SimulatedUpdate]:
        """The updates after that one, where the vendor has a history."""
        ...

    async def updates(self) -> Sequence[SimulatedUpdate]:
        """The updates that are not acknowledged; waits a while for the first."""
        ...

    async def ack(self, up_to: int) -> None: ...


def to_inbound(update: SimulatedUpdate) -> Inbound:
    """An edit is a further event about the same message, with its new text."""
    return Inbound(
        source=Source(
            platform=PLATFORM,
            account=update.account,
            chat_id=update.chat_id,
            chat_type=update.chat_type,
            thread_id=update.thread_id,
            user_id=update.user_id,
            user_name=update.user_name,
            language=update.language,
            author=update.author,
        ),
        event_id=str(update.id),
        message_id=update.message_id,
        text=update.text,
        mentioned=update.mentions,
        quoted=None if update.reply_to is None else to_quote(update.reply_to),
        group=update.group,
        cursor=Cursor(name=CURSOR_NAME, value=str(update.id)),
    )


def to_quote(replied: RepliedMessage) -> Quote:
    return Quote(
        text=replied.text,
        user_id=replied.user_id or None,
        user_name=replied.user_name,
        message_id=replied.message_id,
        ours=not replied.user_id,
    )


class SimulatedReceiver:
    """Passes the updates of one account to intake. Updates that cannot be stored yet are in
    `buffer`, which may belong to the platform and outlive this connection."""

    def __init__(
        self,
        source: UpdateSource,
        *,
        intake: Intake,
        buffer: EventBuffer[SimulatedUpdate] | None = None,
        first_delay: float = 0.05,
        longest_delay: float = 2.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._source = source
        self._intake = intake
        self._buffer = EventBuffer[SimulatedUpdate]() if buffer is None else buffer
        self._first_delay = first_delay
        self._longest_delay = longest_delay
        self._sleep = sleep

    async def run(self) -> None:
        """Runs until cancelled. A cut connection, a store that cannot write and a closed intake are
        retried; updates not acknowledged meanwhile are given again, or are in the buffer."""
        delays = self._new_delays()
        behind = True
        self._drop_redelivered()
        while True:
            try:
                await self._buffer.drain(self._handle, self._acknowledge)
                if behind:
                    await self._catch_up()
                    behind = False
                await self._poll()
                await self._buffer.drain(self._handle, self._acknowledge)
                delays = self._new_delays()
            except (NotConnected, StoreError, IntakeClosed) as error:
                behind = True
                self._drop_redelivered()
                delay = next(delays)
                log.warning(
                    "Could not accept updates: %s. Retrying in %.2f s.",
                    error,
                    delay,
                    extra={"action": "receiver_retrying"},
                )
                await self._sleep(delay)

    async def _poll(self) -> None:
        for update in await self._source.updates():
            self._buffer.add(update)
        self._intake.report_alive(PLATFORM, self._source.account)

    def _drop_redelivered(self) -> None:
        """Updates that the vendor gives again must not stay in the buffer: they would come twice
        and out of order."""
        if self._source.capabilities.backlog is Backlog.UNTIL_ACKED:
            self._buffer.clear()

    async def _catch_up(self) -> None:
        """Fetches the updates after the last durable one. Without a cursor, a bot starts with new
        messages."""
        cursor = await self._intake.cursor(PLATFORM, self._source.account, CURSOR_NAME)
        if self._source.capabilities.backlog is not Backlog.HISTORY or cursor is None:
            return
        since = int(cursor)
        while missed := await self._source.missed_updates(since):
            for update in missed:
                await self._handle(update)
                await self._acknowledge(update)
            since = missed[-1].id

    async def _handle(self, update: SimulatedUpdate) -> None:
        """A deletion is not answered; an earlier answer stays."""
        if update.kind is UpdateKind.DELETED:
            log.info("%s was deleted.", update.message_id, extra={"action": "update_deleted"})
        else:
            await self._accept(update)

    async def _accept(self, update: SimulatedUpdate) -> None:
        try:
            await self._intake.accept(to_inbound(update))
        except NotAddressed as error:
            log.debug("%s: %s", update.id, error, extra={"action": "update_ignored"})
        except NotAllowed as error:
            # Acknowledged too: otherwise it would come back forever and block the rest.
            log.info(
                "Update %d of user %s was dropped: %s",
                update.id,
                update.user_id,
                error,
                extra={"action": "update_not_allowed"},
            )

    async def _acknowledge(self, update: SimulatedUpdate) -> None:
        await self._source.ack(update.id)

    def _new_delays(self) -> Iterator[float]:
        return backoff_delays(self._first_delay, self._longest_delay)
