"""The heartbeat: how an event loop proves, to another thread, that it still turns."""

import asyncio
from collections import deque
from typing import Self

from holdfast.core.ops.facts import LoopFacts
from holdfast.core.ports.protocols import Clock

TICK = 1.0
_MINUTE = 60.0


class Heartbeat:
    """Owns the tick on one loop while its context is open.

    `age`, `lag` and `facts` may be read from any thread: each attribute is written whole.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, clock: Clock, tick: float = TICK
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._tick = tick
        self._beat = clock.monotonic()
        self._timer: asyncio.TimerHandle | None = None
        self._lately: deque[float] = deque(maxlen=max(1, round(_MINUTE / tick)))
        self.lag = 0.0  # how late the last tick came
        self.worst_lag = 0.0

    def __enter__(self) -> Self:
        self._beat = self._clock.monotonic()
        self._timer = self._loop.call_later(self._tick, self._turn)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    @property
    def age(self) -> float:
        """Seconds since the loop was last seen turning."""
        return max(0.0, self._clock.monotonic() - self._beat)

    @property
    def facts(self) -> LoopFacts:
        """A tick that is overdue counts as late already: a loop that hangs makes none."""
        age = self.age
        overdue = max(0.0, age - self._tick)
        return LoopFacts(
            age=age,
            lag=max(self.lag, overdue),
            worst_minute=max(overdue, *self._lately.copy(), self.lag),
            worst=max(self.worst_lag, overdue),
        )

    def _turn(self) -> None:
        now = self._clock.monotonic()
        self.lag = max(0.0, now - self._beat - self._tick)
        self.worst_lag = max(self.worst_lag, self.lag)
        self._lately.append(self.lag)
        self._beat = now
        self._timer = self._loop.call_later(self._tick, self._turn)
