"""Polling: updates are asked for, taken, and confirmed by the next question."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import msgspec

from holdfast.core.errors import IntakeClosed, NotConnected, OutcomeUnknown, StoreError, Throttled
from holdfast.platforms.pauses import growing
from holdfast.platforms.telegram.client import BotApi
from holdfast.platforms.telegram.taking import Taking
from holdfast.platforms.telegram.wire import WANTED

log = logging.getLogger(__name__)

GRACE = 10.0  # seconds that an answer may take beyond the time for which a poll is held


class Polling:
    """Owns how far the stream of updates is confirmed. Runs until it is cancelled, or until the
    line breaks: that is raised, for whoever mends lines."""

    def __init__(
        self,
        api: BotApi,
        taking: Taking,
        *,
        hold: int,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._api = api
        self._taking = taking
        self._hold = hold  # seconds for which the vendor holds a poll that has nothing to tell
        self._sleep = sleep

    async def run(self, cursor: str | None) -> None:
        """`cursor` is the last update that is durable here: those behind it are asked for.

        Assigned, never the greater of two: after a week without updates the vendor numbers them
        anew, and an offset beyond them all would confirm none.
        """
        offset = None if cursor is None else int(cursor) + 1
        pauses = growing()
        while True:
            updates = await self._ask(offset)
            try:
                for raw in updates:
                    offset = await self._taking.take(raw, kept=True) + 1
                pauses = growing()
            except (StoreError, IntakeClosed, NotConnected) as error:
                pause = next(pauses)
                log.warning(
                    "Updates of Telegram are not taken: %s. The next try is in %.1f s.",
                    error,
                    pause,
                    extra={"action": "feed_paused"},
                )
                await self._sleep(pause)

    async def _ask(self, offset: int | None) -> list[msgspec.Raw]:
        """Raises `NotConnected` for every kind of broken line: asking again does no harm."""
        while True:
            try:
                return await self._api.call(
                    "getUpdates",
                    list[msgspec.Raw],
                    limit=self._hold + GRACE,
                    offset=offset,
                    timeout=self._hold,
                    allowed_updates=WANTED,
                )
            except Throttled as error:
                await self._sleep(error.retry_after)
            except OutcomeUnknown as error:
                raise NotConnected(str(error)) from error
