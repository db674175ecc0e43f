"""The guard against loops: how much mail of one person is answered within an hour."""

from collections import deque

_HOUR = 3600.0
_MOST_PEOPLE = 10_000  # that are counted; the longest silent one makes way


class Guard:
    """Owns when mail of whom was taken. Lost with the process: a loop that a restart lets go on
    is found again."""

    def __init__(self, *, hourly: int) -> None:
        self._hourly = hourly
        self._taken: dict[str, deque[float]] = {}

    def is_enough(self, address: str, *, now: float) -> bool:
        taken = self._taken.get(address, deque())
        while taken and not 0 <= now - taken[0] < _HOUR:
            taken.popleft()
        return len(taken) >= self._hourly

    def taken(self, address: str, *, now: float) -> None:
        times = self._taken.pop(address, deque())
        times.append(now)
        self._taken[address] = times  # at the end: the first are the longest silent
        if len(self._taken) > _MOST_PEOPLE:
            del self._taken[next(iter(self._taken))]
