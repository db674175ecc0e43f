"""The system clock, and ids that sort by the time they were made."""

import os
import time
from collections.abc import Callable

from holdfast.core.ports.runtime import Clock

_RANDOM_DIGITS = 14  # 56 unpredictable bits
_BATCH = 4096  # random bytes drawn at once: a system call for each id costs more than the id


class SystemClock:
    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)


class IdGenerator:
    """Makes ids for one process; each sorts after those it made before.

    Implements `IdFactory`: `ids("t")` gives `t_` and 27 hexadecimal digits, of which the first 13
    are the time in microseconds, enough until the year 2112.
    """

    def __init__(self, *, clock: Clock, urandom: Callable[[int], bytes] = os.urandom) -> None:
        self._clock = clock
        self._urandom = urandom
        self._last = 0
        self._random_digits = ""
        self._used = 0

    def __call__(self, prefix: str) -> str:
        # A clock that stops or is set back must not change the order.
        last = self._last = max(int(self._clock.now() * 1_000_000), self._last + 1)
        begin = self._used
        end = self._used = begin + _RANDOM_DIGITS
        if end > len(self._random_digits):
            self._random_digits = self._urandom(_BATCH).hex()
            begin, end = 0, _RANDOM_DIGITS
            self._used = end
        return f"{prefix}_{last:013x}{self._random_digits[begin:end]}"
