"""An event loop whose time passes only when there is nothing else to do: no test waits for it, and
every run of the same steps is the same run."""

import asyncio
import selectors
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


class NothingLeft(AssertionError):
    """Somebody waits for what nobody is going to do."""


class _NoFiles(selectors.SelectSelector):
    """Waits for no file and no thread: where the loop would sleep, its clock is put forward."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise NothingLeft("the loop has neither work nor a timer")
        self.now += max(timeout, 0.0)
        return []


class HeldLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._files = _NoFiles()
        super().__init__(self._files)
        self.errors: list[str] = []  # what nobody caught
        self.set_exception_handler(self._report)

    def time(self) -> float:
        return self._files.now

    def tick(self, ticks: int) -> None:
        """Let whatever is ready run, so many times over; no time passes."""
        self.run_until_complete(_ticks(ticks))

    def wait(self, seconds: float) -> None:
        self.run_until_complete(asyncio.sleep(seconds))

    def bring(self, what: Awaitable[T], *, within: float) -> T:
        """The result of what must not take longer than so many seconds."""
        return self.run_until_complete(asyncio.wait_for(what, within))

    def _report(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.errors.append(f"{context['message']}: {context.get('exception')!r}")


async def _ticks(ticks: int) -> None:
    for _ in range(ticks):
        await asyncio.sleep(0)


class HeldClock:
    """A `Clock` and `WallClockTimer` on the time of a held loop. A change of the wall clock is
    noticed at once; the monotonic clock cannot be set."""

    def __init__(self, loop: HeldLoop) -> None:
        self._loop = loop
        self._ahead = 0.0
        self._was_set = asyncio.Event()

    def now(self) -> float:
        return 1_700_000_000.0 + self._loop.time() + self._ahead

    def monotonic(self) -> float:
        return self._loop.time()

    def put(self, seconds: float) -> None:
        """Forward, or back."""
        self._ahead += seconds
        self._was_set.set()
        self._was_set = asyncio.Event()

    async def wait_until(self, at: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(max(at - self.now(), 0.0)):
                await self._was_set.wait()
