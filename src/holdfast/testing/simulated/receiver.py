"""The way in: updates are taken from the vendor, handed to intake, and then acknowledged."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Protocol

from holdfast.core.errors import IntakeClosed, NotAllowed, NotConnected, NotMeant, StoreError
from holdfast.core.messages.inbox import Cursor, Inbound
from holdfast.core.messages.quote import Quote
from holdfast.core.messages.source import Source
from holdfast.core.ports.capabilities import Backlog, Capabilities
from holdfast.core.ports.protocols import Intake
from holdfast.platforms.held import Held
from holdfast.platforms.pauses import growing
from holdfast.testing.simulated.events import Replied, Update, UpdateKind

log = logging.getLogger(__name__)

PLATFORM = "simulated"
CURSOR = "updates"


class Line(Protocol):
    """A bot's end of the vendor's stream; all of it raises `NotConnected` when it is cut."""

    account: str
    capabilities: Capabilities

    async def missed(self, since: int) -> Sequence[Update]:
        """What came after that update while nobody was there, where the vendor has a history."""
        ...

    async def updates(self) -> Sequence[Update]:
        """What is not acknowledged; waits a while for the first of it."""
        ...

    async def ack(self, up_to: int) -> None: ...


def to_inbound(update: Update) -> Inbound:
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
        cursor=Cursor(name=CURSOR, value=str(update.id)),
    )


def to_quote(replied: Replied) -> Quote:
    return Quote(
        text=replied.text,
        user_id=replied.user_id or None,
        user_name=replied.user_name,
        message_id=replied.message_id,
        ours=not replied.user_id,
    )


class Feed:
    """Takes one account's updates for as long as it runs. What it is given and cannot hand over is
    in `held`, which may be the door's own and outlive this line."""

    def __init__(
        self,
        line: Line,
        *,
        intake: Intake,
        held: Held[Update] | None = None,
        first_pause: float = 0.05,
        longest_pause: float = 2.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._line = line
        self._intake = intake
        self._held = Held[Update]() if held is None else held
        self._first_pause = first_pause
        self._longest_pause = longest_pause
        self._sleep = sleep

    async def run(self) -> None:
        """Until cancelled. A cut line, a store that cannot write and a gateway that stops are
        waited out; what was not acknowledged meanwhile is given again, or was held here."""
        pauses = self._fresh_pauses()
        behind = True
        self._let_go()
        while True:
            try:
                await self._held.hand_over(self._take, self._acknowledge)
                if behind:
                    await self._catch_up()
                    behind = False
                await self._hear()
                await self._held.hand_over(self._take, self._acknowledge)
                pauses = self._fresh_pauses()
            except (NotConnected, StoreError, IntakeClosed) as error:
                behind = True
                self._let_go()
                pause = next(pauses)
                log.warning(
                    "Updates are not taken: %s. The next try is in %.2f s.",
                    error,
                    pause,
                    extra={"action": "feed_paused"},
                )
                await self._sleep(pause)

    async def _hear(self) -> None:
        for update in await self._line.updates():
            self._held.add(update)
        self._intake.proven(PLATFORM, self._line.account)

    def _let_go(self) -> None:
        """Held on to, what is given again would come twice and out of its order."""
        if self._line.capabilities.backlog is Backlog.UNTIL_ACKED:
            self._held.forget()

    async def _catch_up(self) -> None:
        """Fetch what was missed since the last message that is durable here. A bot that has never
        had one begins with what is said from now on."""
        known = await self._intake.cursor(PLATFORM, self._line.account, CURSOR)
        if self._line.capabilities.backlog is not Backlog.HISTORY or known is None:
            return
        since = int(known)
        while missed := await self._line.missed(since):
            for update in missed:
                await self._take(update)
                await self._acknowledge(update)
            since = missed[-1].id

    async def _take(self, update: Update) -> None:
        """What was deleted is nothing to answer; what was answered before stays answered."""
        if update.kind is UpdateKind.DELETED:
            log.info("%s was deleted.", update.message_id, extra={"action": "update_deleted"})
        else:
            await self._hand_over(update)

    async def _hand_over(self, update: Update) -> None:
        try:
            await self._intake.accept(to_inbound(update))
        except NotMeant as error:
            log.debug("%s: %s", update.id, error, extra={"action": "update_not_meant"})
        except NotAllowed as error:
            # Acknowledged all the same: kept, it would come back for ever and hold up the rest.
            log.info(
                "Update %d of user %s was dropped: %s",
                update.id,
                update.user_id,
                error,
                extra={"action": "update_not_allowed"},
            )

    async def _acknowledge(self, update: Update) -> None:
        await self._line.ack(update.id)

    def _fresh_pauses(self) -> Iterator[float]:
        return growing(self._first_pause, self._longest_pause)
