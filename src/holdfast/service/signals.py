"""Signals: how the process is asked to stop or to restart, from its first line to its last."""

import asyncio
import os
import signal
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

from holdfast.service import exits

_ENDING = (signal.SIGTERM, signal.SIGINT)
_HEARD = (*_ENDING, signal.SIGUSR1)
_AT_ONCE = 3  # the signal that waits for nothing more
_LAST_WORD = b"holdfast: a third signal; ended at once. What was accepted is in the store.\n"

Tell = Callable[[signal.Signals], None]


class Signals:
    """Owns what SIGTERM, SIGINT and SIGUSR1 do while its context is open, and restores what it
    found. What comes before anybody listens is kept and told then.

    The third that asks for an end ends the process, also where its event loop stands still: so
    these are handlers of Python's, which run between any two instructions of the main thread,
    and not the event loop's.
    """

    def __init__(self) -> None:
        self._before: dict[signal.Signals, Any] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tell: Tell = self._keep
        self._kept: list[signal.Signals] = []
        self._endings = 0
        self._deaf = False

    def __enter__(self) -> Self:
        for each in _HEARD:
            self._before[each] = signal.signal(each, self._came)
        return self

    def __exit__(self, *exc: object) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)

    def listen(self, loop: asyncio.AbstractEventLoop, tell: Tell) -> None:
        """`tell` is called by the loop for each signal, also for those that came before."""
        self._loop, self._tell = loop, tell
        for each in self._kept:
            loop.call_soon(tell, each)

    def ignore(self) -> None:
        """None counts any more. Not SIG_IGN, which a program that is started would inherit."""
        self._deaf = True

    def _came(self, number: int, frame: FrameType | None) -> None:
        if self._deaf:
            return
        if number in _ENDING:
            self._endings += 1
            if self._endings == _AT_ONCE:
                os.write(2, _LAST_WORD)
                os._exit(exits.FAILED)
        if self._loop is None:
            self._keep(signal.Signals(number))
        else:
            self._loop.call_soon_threadsafe(self._tell, signal.Signals(number))

    def _keep(self, which: signal.Signals) -> None:
        self._kept.append(which)
