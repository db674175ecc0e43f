"""The rate: how many posts of one hook are taken in a minute."""

from collections import deque

from holdfast.core.ports.protocols import Clock

_MINUTE = 60.0


class HookRateLimiter:
    """Owns when posts were taken within the last minute; lost with the process."""

    def __init__(self, per_minute: int, *, clock: Clock) -> None:
        self._per_minute = per_minute  # 0: any number
        self._clock = clock
        self._accepted_at: deque[float] = deque()

    def acquire(self) -> float:
        """Seconds until another one may be taken; 0: it is counted, and may be now."""
        if not self._per_minute:
            return 0.0
        now = self._clock.monotonic()
        while self._accepted_at and now - self._accepted_at[0] >= _MINUTE:
            self._accepted_at.popleft()
        if len(self._accepted_at) >= self._per_minute:
            return _MINUTE - (now - self._accepted_at[0])
        self._accepted_at.append(now)
        return 0.0
