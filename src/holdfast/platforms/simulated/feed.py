"""The way in: updates are taken from the vendor, handed to intake, and then acknowledged."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Protocol

from holdfast.core.errors import IntakeClosed, NotAllowed, NotConnected, StoreError
from holdfast.core.inbox import Cursor, Inbound
from holdfast.core.ports import Intake
from holdfast.core.source import Source
from holdfast.platforms.simulated.wire import Update

log = logging.getLogger(__name__)

PLATFORM = "simulated"


class Line(Protocol):
    """A bot's end of the vendor's stream; both raise `NotConnected` when it is cut."""

    account: str

    async def updates(self) -> Sequence[Update]:
        """What is not acknowledged; waits a while for the first of it."""
        ...

    async def ack(self, up_to: int) -> None: ...


def to_inbound(update: Update) -> Inbound:
    return Inbound(
        source=Source(
            platform=PLATFORM,
            account=update.account,
            chat_id=update.chat_id,
            chat_type=update.chat_type,
            thread_id=update.thread_id,
            user_id=update.user_id,
            user_name=update.user_name,
        ),
        event_id=str(update.id),
        message_id=update.message_id,
        text=update.text,
        group=update.group,
        cursor=Cursor(name="updates", value=str(update.id)),
    )


def growing(first: float, most: float) -> Iterator[float]:
    """Pauses that double up to `most`, without end."""
    pause = first
    while True:
        yield pause
        pause = min(pause * 2, most)


class Feed:
    """Takes one account's updates for as long as it runs; keeps nothing between two of them."""

    def __init__(
        self,
        line: Line,
        *,
        intake: Intake,
        first_pause: float = 0.05,
        longest_pause: float = 2.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._line = line
        self._intake = intake
        self._first_pause = first_pause
        self._longest_pause = longest_pause
        self._sleep = sleep

    async def run(self) -> None:
        """Until cancelled. A cut line, a store that cannot write and a gateway that stops are
        waited out; what was not acknowledged meanwhile is given again."""
        pauses = self._fresh_pauses()
        while True:
            try:
                updates = await self._line.updates()
                self._intake.proven(PLATFORM, self._line.account)
                for update in updates:
                    await self._hand_over(update)
                pauses = self._fresh_pauses()
            except (NotConnected, StoreError, IntakeClosed) as error:
                pause = next(pauses)
                log.warning(
                    "Updates are not taken: %s. The next try is in %.2f s.",
                    error,
                    pause,
                    extra={"action": "feed_paused"},
                )
                await self._sleep(pause)

    async def _hand_over(self, update: Update) -> None:
        try:
            await self._intake.accept(to_inbound(update))
        except NotAllowed as error:
            # Acknowledged all the same: kept, it would come back for ever and hold up the rest.
            log.info(
                "Update %d of user %s was dropped: %s",
                update.id,
                update.user_id,
                error,
                extra={"action": "update_not_allowed"},
            )
        await self._line.ack(update.id)

    def _fresh_pauses(self) -> Iterator[float]:
        return growing(self._first_pause, self._longest_pause)
