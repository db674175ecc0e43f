"""Ids: sortable by the time they were made, short, and not to be guessed."""

import secrets
from collections.abc import Callable

from holdfast.core.ports import Clock

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's: nothing that looks like another
_TIME_LETTERS = 11  # 55 bits of microseconds: a thousand years
_RANDOM_LETTERS = 11  # 55 bits that nobody can know


class Ids:
    """Makes ids for one process; each sorts after those it made before.

    An instance is a `core.ports.NewId`: `ids("t")` gives `t_` and 22 letters and digits.
    """

    def __init__(self, *, clock: Clock, randbits: Callable[[int], int] = secrets.randbits) -> None:
        self._clock = clock
        self._randbits = randbits
        self._last = 0

    def __call__(self, prefix: str) -> str:
        # A clock that stands still or steps back must not undo the order.
        self._last = max(int(self._clock.now() * 1_000_000), self._last + 1)
        chance = self._randbits(5 * _RANDOM_LETTERS)
        return f"{prefix}_{_letters(self._last, _TIME_LETTERS)}{_letters(chance, _RANDOM_LETTERS)}"


def _letters(number: int, count: int) -> str:
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(5 * count - 5, -1, -5))
