"""A closing write: the end of a turn, or of what stood for one, tried until the store takes it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from holdfast.core.errors import StoreError

log = logging.getLogger(__name__)

FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0  # seconds before a store that failed is asked again


class ClosingWrite:
    """Owns the tries of one write. A store that fails delays an end; it takes none back.

    A gateway that stops has no time for the waits between: it asks for one more try.
    """

    def __init__(self, write: Callable[[], Awaitable[None]]) -> None:
        self._write = write
        self._resting: asyncio.Future[None] | None = None  # between two tries, until it is woken
        self._last: asyncio.Future[None] | None = None  # of who waits for one more

    async def until_durable(self) -> None:
        wait = FIRST_WAIT
        while not await self._try():
            self._resting = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._resting], timeout=wait)
            wait = min(wait * 2, LONGEST_WAIT)

    def at_once(self) -> asyncio.Future[None]:
        """Done when the write is durable, or when the try that is under way or made now fails."""
        self._last = self._last or asyncio.get_running_loop().create_future()
        if self._resting is not None and not self._resting.done():
            self._resting.set_result(None)
        return self._last

    async def _try(self) -> bool:
        try:
            await self._write()
        except StoreError as error:
            log.error("The end of a turn waits: %s", error, extra={"action": "end_waits"})
            return False
        finally:
            self._over()
        return True

    def _over(self) -> None:
        if self._last is not None and not self._last.done():
            self._last.set_result(None)
