"""Patience: what cannot be done for the moment is tried again, while the line holds."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from holdfast.core.errors import IntakeClosed, NotConnected, StoreError, Throttled
from holdfast.platforms.matrix.api import MatrixBadToken, MatrixClient
from holdfast.platforms.pauses import backoff_delays

log = logging.getLogger(__name__)

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]


class RetryLoop:
    """Keeps nothing."""

    def __init__(self, client: MatrixClient, *, sleep: Sleep = asyncio.sleep) -> None:
        self._client = client
        self._sleep = sleep

    async def run(self, job: Callable[[], Awaitable[T]]) -> T:
        """Once it is. Raises a `NotConnected` where the line itself is gone: while something is
        tried again, nothing else is asked of the homeserver that would show it."""
        pauses = backoff_delays()
        while True:
            try:
                return await job()
            except MatrixBadToken:
                raise
            except Throttled as error:
                await self._sleep(error.retry_after)
            except (StoreError, IntakeClosed, NotConnected) as error:
                pause = next(pauses)
                log.warning(
                    "Messages of Matrix are not taken: %s. The next try is in %.1f s.",
                    error,
                    pause,
                    extra={"action": "receiver_retrying"},
                )
                await self._sleep(pause)
                await self._check_connection()

    async def _check_connection(self) -> None:
        try:
            await self._client.whoami()
        except Throttled:
            return  # an answer, too
