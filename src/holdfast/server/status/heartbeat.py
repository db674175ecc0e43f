"""The heartbeat: how an event loop proves, to another thread, that it still turns."""

import asyncio
from collections import deque
from typing import Self

from holdfast.core.ops.facts import EventLoopStatus
from holdfast.core.ports.protocols import Clock

TICK_SECONDS = 1.0
_RECENT_SECONDS = 60.0


class Heartbeat:
    """Owns the tick on one loop while its context is open.

    `age`, `lag` and `facts` may be read from any thread: each attribute is written whole.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, clock: Clock, tick: float = TICK_SECONDS
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._tick = tick
        self._last_tick = clock.monotonic()
        self._timer: asyncio.TimerHandle | None = None
        self._recent_lags: deque[float] = deque(maxlen=max(1, round(_RECENT_SECONDS / tick)))
        self.lag = 0.0  # how late the last tick came
        self.worst_lag = 0.0

    def __enter__(self) -> Self:
        self._last_tick = self._clock.monotonic()
        self._timer = self._loop.call_later(self._tick, self._on_tick)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    @property
    def age(self) -> float:
        """Seconds since the loop was last seen turning."""
        return max(0.0, self._clock.monotonic() - self._last_tick)

    @property
    def status(self) -> EventLoopStatus:
        """A tick that is overdue counts as late already: a loop that hangs makes none."""
        age = self.age
        overdue = max(0.0, age - self._tick)
        return EventLoopStatus(
            age=age,
            lag=max(self.lag, overdue),
            worst_minute=max(overdue, *self._recent_lags.copy(), self.lag),
            worst=max(self.worst_lag, overdue),
        )

    def _on_tick(self) -> None:
        now = self._clock.monotonic()
        self.lag = max(0.0, now - self._last_tick - self._tick)
        self.worst_lag = max(self.worst_lag, self.lag)
        self._recent_lags.append(self.lag)
        self._last_tick = now
        self._timer = self._loop.call_later(self._tick, self._on_tick)
