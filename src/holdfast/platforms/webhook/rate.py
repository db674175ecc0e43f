"""The rate: how many posts of one hook are taken in a minute."""

from collections import deque

from holdfast.core.ports.protocols import Clock

_MINUTE = 60.0


class Rate:
    """Owns when posts were taken within the last minute; lost with the process."""

    def __init__(self, most: int, *, clock: Clock) -> None:
        self._most = most  # 0: any number
        self._clock = clock
        self._taken: deque[float] = deque()

    def wait(self) -> float:
        """Seconds until another one may be taken; 0: it is counted, and may be now."""
        if not self._most:
            return 0.0
        now = self._clock.monotonic()
        while self._taken and now - self._taken[0] >= _MINUTE:
            self._taken.popleft()
        if len(self._taken) >= self._most:
            return _MINUTE - (now - self._taken[0])
        self._taken.append(now)
        return 0.0
