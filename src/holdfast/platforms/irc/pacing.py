"""Pacing: how many lines a server is sent, so that it never takes us for a flood.

RFC 1459, 8.10: a client may be some lines ahead, and is granted one more every two seconds. Who is
further ahead is thrown out.
"""

import asyncio
from collections.abc import Awaitable, Callable

Sleep = Callable[[float], Awaitable[None]]


class FloodLimiter:
    """Owns what is left of the budget of one connection."""

    def __init__(
        self,
        *,
        burst: int,
        seconds_per_line: float,
        monotonic: Callable[[], float],
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._burst = burst
        self._seconds_per_line = seconds_per_line
        self._monotonic = monotonic
        self._sleep = sleep
        self._free_at = monotonic()  # when the whole budget is there again
        self._lock = asyncio.Lock()

    @property
    def lines_ahead(self) -> float:
        """Lines by which we are ahead of what is granted."""
        if not self._seconds_per_line:
            return 0.0
        return max(0.0, self._free_at - self._monotonic()) / self._seconds_per_line

    @property
    def has_spare(self) -> bool:
        """Whether a line that nobody would miss may be sent."""
        return self.lines_ahead < self._burst / 2

    async def acquire(self) -> None:
        """Returns when one more line may be sent, in the order of asking."""
        async with self._lock:
            while (over := self.lines_ahead - (self._burst - 1)) > 0:
                await self._sleep(over * self._seconds_per_line)
            self._free_at = max(self._free_at, self._monotonic()) + self._seconds_per_line
