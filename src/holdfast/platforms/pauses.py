"""Pauses: how long a door waits before it hands over again what could not be kept."""

from collections.abc import Iterator

_FIRST, _LONGEST = 0.2, 5.0


def growing(first: float = _FIRST, longest: float = _LONGEST) -> Iterator[float]:
    """Seconds that double up to `longest`, without end."""
    pause = first
    while True:
        yield pause
        pause = min(pause * 2, longest)
