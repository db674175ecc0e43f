"""An event loop in virtual time: time advances only when there is nothing else to do, so tests do
not wait, and the same steps give the same run."""

import asyncio
import selectors
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


class DeadlockError(AssertionError):
    """The loop waits, and nothing is scheduled that could wake it."""


class _VirtualSelector(selectors.SelectSelector):
    """Waits for no file and no thread: where the loop would sleep, its clock is advanced."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise DeadlockError("the loop has neither work nor a timer")
        self.now += max(timeout, 0.0)
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop that owns its virtual time and records unhandled errors."""

    def __init__(self) -> None:
        self._selector = _VirtualSelector()
        super().__init__(self._selector)
        self.errors: list[str] = []
        self.set_exception_handler(self._report)

    def time(self) -> float:
        return self._selector.now

    def tick(self, ticks: int) -> None:
        """Run what is ready, this many times; no time passes."""
        self.run_until_complete(_ticks(ticks))

    def wait(self, seconds: float) -> None:
        self.run_until_complete(asyncio.sleep(seconds))

    def run_with_timeout(self, work: Awaitable[T], *, timeout: float) -> T:
        """The result of work that must end within this many seconds."""
        return self.run_until_complete(asyncio.wait_for(work, timeout))

    def _report(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.errors.append(f"{context['message']}: {context.get('exception')!r}")


async def _ticks(ticks: int) -> None:
    for _ in range(ticks):
        await asyncio.sleep(0)


class VirtualClock:
    """A `Clock` and `WallClockTimer` on the time of a virtual loop. A change of the wall clock is
    noticed at once; the monotonic clock cannot be set."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        self._loop = loop
        self._offset = 0.0
        self._changed = asyncio.Event()

    def now(self) -> float:
        return 1_700_000_000.0 + self._loop.time() + self._offset

    def monotonic(self) -> float:
        return self._loop.time()

    def shift(self, seconds: float) -> None:
        """Set the wall clock forward or back."""
        self._offset += seconds
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_until(self, at: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(max(at - self.now(), 0.0)):
                await self._changed.wait()
