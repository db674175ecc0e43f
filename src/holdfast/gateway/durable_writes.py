"""Waiting for writes to the store: without cancelling them, and retried until they are durable."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from holdfast.core.errors import StoreError

log = logging.getLogger(__name__)


# MERGED holdfast.gateway.unbroken: Waiting for a write that goes on whoever waits for it.
T = TypeVar("T")


async def wait_uncancelled(future: asyncio.Future[T]) -> T:
    """What the future gives. To cancel this ends the wait, and nothing of what is waited for.

    `asyncio.shield` promises the same, by way of a callback more, which every message would pay
    for three times. Whoever uses this has a callback of its own at the future, so that no error
    of it is ever lost.
    """
    if not future.done():
        waiter: asyncio.Future[None] = future.get_loop().create_future()

        def wake(_: asyncio.Future[T]) -> None:
            if not waiter.done():  # else nobody waits any more
                waiter.set_result(None)

        future.add_done_callback(wake)
        await waiter
    return future.result()


# MERGED holdfast.gateway.closing_write: A closing write: the end of a turn, or of what stood for one, tried until the store takes it.
FIRST_WAIT, MAX_WAIT = 0.5, 30.0  # seconds before a store that failed is asked again


class RetriedWrite:
    """Owns the tries of one write. A store that fails delays an end; it takes none back.

    A gateway that stops has no time for the waits between: it asks for one more try.
    """

    def __init__(self, write: Callable[[], Awaitable[None]]) -> None:
        self._write = write
        self._sleeping: asyncio.Future[None] | None = None  # between two tries, until it is woken
        self._waiter: asyncio.Future[None] | None = None  # of who waits for one more

    async def until_durable(self) -> None:
        wait = FIRST_WAIT
        while not await self._try():
            self._sleeping = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._sleeping], timeout=wait)
            wait = min(wait * 2, MAX_WAIT)

    def try_now(self) -> asyncio.Future[None]:
        """Done when the write is durable, or when the try that is under way or made now fails."""
        self._waiter = self._waiter or asyncio.get_running_loop().create_future()
        if self._sleeping is not None and not self._sleeping.done():
            self._sleeping.set_result(None)
        return self._waiter

    async def _try(self) -> bool:
        try:
            await self._write()
        except StoreError as error:
            log.error(
                "The end of a turn waits: %s", error, extra={"action": "turn_end_waiting_for_store"}
            )
            return False
        finally:
            self._notify_waiter()
        return True

    def _notify_waiter(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
