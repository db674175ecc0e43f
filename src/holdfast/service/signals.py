"""Signals: how the process is asked to stop, restart or reload, from its first line to its last."""

import asyncio
import os
import signal
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

from holdfast.system import exits

_ENDING = (signal.SIGTERM, signal.SIGINT)
_HEARD = (*_ENDING, signal.SIGUSR1, signal.SIGHUP)
_STANDARD = (0, 1, 2)  # the descriptors of whoever started the process
_AT_ONCE = 3  # the signal that waits for nothing more
_LAST_WORD = b"holdfast: a third signal; ended at once. What was accepted is in the store.\n"

Tell = Callable[[signal.Signals], None]


class Signals:
    """Owns what SIGTERM, SIGINT, SIGUSR1 and SIGHUP do while its context is open, and restores
    what it found. What comes before anybody listens is kept and told then.

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
        self._terminals: list[int] = []

    def __enter__(self) -> Self:
        self._terminals = [fd for fd in _STANDARD if os.isatty(fd)]
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

    @property
    def hung_up(self) -> bool:
        """Whether the terminal that this process was started at is gone, and whoever started it
        wants it to go with that (`nohup` says otherwise): what SIGHUP means then, and only then."""
        if self._before.get(signal.SIGHUP) is signal.SIG_IGN:
            return False
        return not all(os.isatty(fd) for fd in self._terminals)

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
