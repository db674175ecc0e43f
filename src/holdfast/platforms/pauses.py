"""Pauses: how long a door waits before it hands over again what could not be kept."""

from collections.abc import Iterator

_FIRST_DELAY, _LONGEST_DELAY = 0.2, 5.0


def backoff_delays(first: float = _FIRST_DELAY, longest: float = _LONGEST_DELAY) -> Iterator[float]:
    """Seconds that double up to `longest`, without end."""
    pause = first
    while True:
        yield pause
        pause = min(pause * 2, longest)
