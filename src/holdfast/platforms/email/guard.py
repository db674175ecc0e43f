"""The guard against loops: how much mail of one person is answered within an hour."""

from collections import deque

_HOUR = 3600.0
_MAX_SENDERS = 10_000  # that are counted; the longest silent one makes way


class LoopLimiter:
    """Owns when mail arrived that was taken, by who wrote it. Lost with the process: a loop that a
    restart lets go on is found again."""

    def __init__(self, *, hourly_limit: int) -> None:
        self._hourly_limit = hourly_limit
        self._arrivals: dict[str, deque[float]] = {}

    def is_over_limit(self, address: str, *, at: float) -> bool:
        """Whether one that has arrived at that time is too much. By when they arrived: what waits
        for a gateway that was down has come over days, and is taken in a minute."""
        taken = self._arrivals.get(address, deque())
        while taken and not 0 <= at - taken[0] < _HOUR:
            taken.popleft()
        return len(taken) >= self._hourly_limit

    def record(self, address: str, *, at: float) -> None:
        times = self._arrivals.pop(address, deque())
        times.append(at)
        self._arrivals[address] = times  # at the end: the first are the longest silent
        if len(self._arrivals) > _MAX_SENDERS:
            del self._arrivals[next(iter(self._arrivals))]
