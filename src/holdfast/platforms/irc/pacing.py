"""Pacing: how many lines a server is sent, so that it never takes us for a flood.

RFC 1459, 8.10: a client may be some lines ahead, and is granted one more every two seconds. Who is
further ahead is thrown out.
"""

import asyncio
from collections.abc import Awaitable, Callable

Sleep = Callable[[float], Awaitable[None]]


class Pace:
    """Owns what is left of the budget of one connection."""

    def __init__(
        self,
        *,
        burst: int,
        seconds: float,
        monotonic: Callable[[], float],
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._burst = burst
        self._seconds = seconds
        self._monotonic = monotonic
        self._sleep = sleep
        self._free_at = monotonic()  # when the whole budget is there again
        self._turn = asyncio.Lock()

    @property
    def ahead(self) -> float:
        """Lines by which we are ahead of what is granted."""
        if not self._seconds:
            return 0.0
        return max(0.0, self._free_at - self._monotonic()) / self._seconds

    @property
    def spare(self) -> bool:
        """Whether a line that nobody would miss may be sent."""
        return self.ahead < self._burst / 2

    async def take(self) -> None:
        """Returns when one more line may be sent, in the order of asking."""
        async with self._turn:
            while (over := self.ahead - (self._burst - 1)) > 0:
                await self._sleep(over * self._seconds)
            self._free_at = max(self._free_at, self._monotonic()) + self._seconds
