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
    """A bot's end of the vendor's stream; all of it raises `NotConnected` when it is cut."""

    account: str
    capabilities: Capabilities

    async def missed_updates(self, since: int) -> Sequence[SimulatedUpdate]:
        """What came after that update while nobody was there, where the vendor has a history."""
        ...

    async def updates(self) -> Sequence[SimulatedUpdate]:
        """What is not acknowledged; waits a while for the first of it."""
        ...

    async def ack(self, up_to: int) -> None: ...


def to_inbound(update: SimulatedUpdate) -> Inbound:
    """An edited message is another event about it: it is said once more, with its new words."""
    return Inbound(
        source=Source(
            platform=PLATFORM,
            account=update.account,
            chat_id=update.chat_id,
            chat_type=update.chat_type,
            thread_id=update.thread_id,
            user_id=update.user_id,
            user_name=update.user_name,
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
    """Takes one account's updates for as long as it runs. What it is given and cannot hand over is
    in `held`, which may be the door's own and outlive this line."""

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
        """Until cancelled. A cut line, a store that cannot write and a gateway that stops are
        waited out; what was not acknowledged meanwhile is given again, or was held here."""
        pauses = self._new_delays()
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
                pauses = self._new_delays()
            except (NotConnected, StoreError, IntakeClosed) as error:
                behind = True
                self._drop_redelivered()
                pause = next(pauses)
                log.warning(
                    "Updates are not taken: %s. The next try is in %.2f s.",
                    error,
                    pause,
                    extra={"action": "receiver_retrying"},
                )
                await self._sleep(pause)

    async def _poll(self) -> None:
        for update in await self._source.updates():
            self._buffer.add(update)
        self._intake.report_alive(PLATFORM, self._source.account)

    def _drop_redelivered(self) -> None:
        """Held on to, what is given again would come twice and out of its order."""
        if self._source.capabilities.backlog is Backlog.UNTIL_ACKED:
            self._buffer.clear()

    async def _catch_up(self) -> None:
        """Fetch what was missed since the last message that is durable here. A bot that has never
        had one begins with what is said from now on."""
        known = await self._intake.cursor(PLATFORM, self._source.account, CURSOR_NAME)
        if self._source.capabilities.backlog is not Backlog.HISTORY or known is None:
            return
        since = int(known)
        while missed := await self._source.missed_updates(since):
            for update in missed:
                await self._handle(update)
                await self._acknowledge(update)
            since = missed[-1].id

    async def _handle(self, update: SimulatedUpdate) -> None:
        """What was deleted is nothing to answer; what was answered before stays answered."""
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
            # Acknowledged all the same: kept, it would come back for ever and hold up the rest.
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
