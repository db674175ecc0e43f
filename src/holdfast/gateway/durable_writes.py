"""Waiting for writes to the store: without cancelling them, and with retries until durable."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from holdfast.core.errors import StoreError
from holdfast.core.retry import LANE_RETRY

T = TypeVar("T")

log = logging.getLogger(__name__)


class RetriedWrite:
    """Retries the write that ends a turn until the store takes it: a store failure delays an end,
    but does not undo it.

    A gateway that stops has no time for the waits in between: it asks for one more try.
    """

    def __init__(self, write: Callable[[], Awaitable[None]]) -> None:
        self._write = write
        self._sleeping: asyncio.Future[None] | None = None  # between two tries
        self._waiter: asyncio.Future[None] | None = None  # of the caller of `try_now`

    async def until_durable(self) -> None:
        failures = 0
        while True:
            try:
                await self._write()
                return
            except StoreError as error:
                log.error(
                    "Could not write the end of a turn: %s; retrying",
                    error,
                    extra={"action": "turn_end_waiting_for_store"},
                )
            finally:
                if self._waiter is not None and not self._waiter.done():
                    self._waiter.set_result(None)
            self._sleeping = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._sleeping], timeout=LANE_RETRY.wait(failures))
            failures += 1

    def try_now(self) -> asyncio.Future[None]:
        """Done when the write is durable, or when the try that is under way or made now fails."""
        self._waiter = self._waiter or asyncio.get_running_loop().create_future()
        if self._sleeping is not None and not self._sleeping.done():
            self._sleeping.set_result(None)
        return self._waiter
