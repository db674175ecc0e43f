"""Polling: updates are asked for, taken, and confirmed by the next question."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import msgspec

from holdfast.core.errors import IntakeClosed, NotConnected, OutcomeUnknown, StoreError, Throttled
from holdfast.platforms.pauses import backoff_delays
from holdfast.platforms.telegram.client import TelegramClient
from holdfast.platforms.telegram.taking import TelegramReceiver
from holdfast.platforms.telegram.wire import ALLOWED_UPDATES

log = logging.getLogger(__name__)

POLL_GRACE = 10.0  # seconds that an answer may take beyond the time for which a poll is held


class TelegramPoller:
    """Owns how far the stream of updates is confirmed. Runs until it is cancelled, or until the
    line breaks: that is raised, for whoever mends lines."""

    def __init__(
        self,
        client: TelegramClient,
        receiver: TelegramReceiver,
        *,
        poll_seconds: int,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._receiver = receiver
        self._poll_seconds = (
            poll_seconds  # seconds for which the vendor holds a poll that has nothing to tell
        )
        self._sleep = sleep

    async def run(self, cursor: str | None) -> None:
        """`cursor` is the last update that is durable here: those behind it are asked for.

        Assigned, never the greater of two: after a week without updates the vendor numbers them
        anew, and an offset beyond them all would confirm none.
        """
        offset = None if cursor is None else int(cursor) + 1
        pauses = backoff_delays()
        while True:
            updates = await self._get_updates(offset)
            try:
                for raw in updates:
                    offset = await self._receiver.handle_update(raw, with_cursor=True) + 1
                pauses = backoff_delays()
            except (StoreError, IntakeClosed, NotConnected) as error:
                pause = next(pauses)
                log.warning(
                    "Updates of Telegram are not taken: %s. The next try is in %.1f s.",
                    error,
                    pause,
                    extra={"action": "receiver_retrying"},
                )
                await self._sleep(pause)

    async def _get_updates(self, offset: int | None) -> list[msgspec.Raw]:
        """Raises `NotConnected` for every kind of broken line: asking again does no harm."""
        while True:
            try:
                return await self._client.call(
                    "getUpdates",
                    list[msgspec.Raw],
                    timeout_seconds=self._poll_seconds + POLL_GRACE,
                    offset=offset,
                    timeout=self._poll_seconds,
                    allowed_updates=ALLOWED_UPDATES,
                )
            except Throttled as error:
                await self._sleep(error.retry_after)
            except OutcomeUnknown as error:
                raise NotConnected(str(error)) from error
