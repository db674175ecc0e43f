"""Patience: what cannot be done for the moment is tried again, while the line holds."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from holdfast.core.errors import IntakeClosed, NotConnected, StoreError, Throttled
from holdfast.platforms.matrix.api import BadToken, ClientApi
from holdfast.platforms.pauses import growing

log = logging.getLogger(__name__)

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]


class Patience:
    """Keeps nothing."""

    def __init__(self, api: ClientApi, *, sleep: Sleep = asyncio.sleep) -> None:
        self._api = api
        self._sleep = sleep

    async def done(self, job: Callable[[], Awaitable[T]]) -> T:
        """Once it is. Raises a `NotConnected` where the line itself is gone: while something is
        tried again, nothing else is asked of the homeserver that would show it."""
        pauses = growing()
        while True:
            try:
                return await job()
            except BadToken:
                raise
            except Throttled as error:
                await self._sleep(error.retry_after)
            except (StoreError, IntakeClosed, NotConnected) as error:
                pause = next(pauses)
                log.warning(
                    "Messages of Matrix are not taken: %s. The next try is in %.1f s.",
                    error,
                    pause,
                    extra={"action": "feed_paused"},
                )
                await self._sleep(pause)
                await self._look()

    async def _look(self) -> None:
        try:
            await self._api.whoami()
        except Throttled:
            return  # an answer, too
