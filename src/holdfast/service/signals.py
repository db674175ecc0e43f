"""Signal handling: of the gateway process, and of the container's first process."""

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, Self

from holdfast.system import exit_codes

# MERGED holdfast.service.signals: Signals: how the process is asked to stop, restart or reload, from its first line to its last.
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_HANDLED = (*_STOP_SIGNALS, signal.SIGUSR1, signal.SIGHUP)
_STANDARD = (0, 1, 2)  # the descriptors of whoever started the process
_FORCE_EXIT_COUNT = 3  # the signal that waits for nothing more
_FORCE_EXIT_TEXT = b"holdfast: a third signal; ended at once. What was accepted is in the store.\n"

SignalCallback = Callable[[signal.Signals], None]


class SignalHandlers:
    """Owns what SIGTERM, SIGINT, SIGUSR1 and SIGHUP do while its context is open, and restores
    what it found. What comes before anybody listens is kept and told then.

    The third that asks for an end ends the process, also where its event loop stands still: so
    these are handlers of Python's, which run between any two instructions of the main thread,
    and not the event loop's.
    """

    def __init__(self) -> None:
        self._previous_handlers: dict[signal.Signals, Any] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._callback: SignalCallback = self._queue
        self._pending: list[signal.Signals] = []
        self._stop_count = 0
        self._ignoring = False
        self._terminals: list[int] = []

    def __enter__(self) -> Self:
        self._terminals = [fd for fd in _STANDARD if os.isatty(fd)]
        for each in _HANDLED:
            self._previous_handlers[each] = signal.signal(each, self._handle)
        return self

    def __exit__(self, *exc: object) -> None:
        for each, handler in self._previous_handlers.items():
            signal.signal(each, handler)

    def listen(self, loop: asyncio.AbstractEventLoop, callback: SignalCallback) -> None:
        """`tell` is called by the loop for each signal, also for those that came before."""
        self._loop, self._callback = loop, callback
        for each in self._pending:
            loop.call_soon(callback, each)

    @property
    def hung_up(self) -> bool:
        """Whether the terminal that this process was started at is gone, and whoever started it
        wants it to go with that (`nohup` says otherwise): what SIGHUP means then, and only then."""
        if self._previous_handlers.get(signal.SIGHUP) is signal.SIG_IGN:
            return False
        return not all(os.isatty(fd) for fd in self._terminals)

    def ignore(self) -> None:
        """None counts any more. Not SIG_IGN, which a program that is started would inherit."""
        self._ignoring = True

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._ignoring:
            return
        if number in _STOP_SIGNALS:
            self._stop_count += 1
            if self._stop_count == _FORCE_EXIT_COUNT:
                os.write(2, _FORCE_EXIT_TEXT)
                os._exit(exit_codes.FAILED)
        if self._loop is None:
            self._queue(signal.Signals(number))
        else:
            self._loop.call_soon_threadsafe(self._callback, signal.Signals(number))

    def _queue(self, which: signal.Signals) -> None:
        self._pending.append(which)


# MERGED holdfast.service.heard: Signals as something to wait for beside other things: each that comes can be read.
class SignalQueue:
    """Owns what these signals do while its context is open, and restores what it found."""

    def __init__(self, signals: Sequence[signal.Signals]) -> None:
        self._signals = signals
        self._previous_handlers: dict[signal.Signals, Any] = {}
        self._read_end, self._write_end = socket.socketpair()
        self._previous_wakeup_fd = -1

    def __enter__(self) -> Self:
        for end in (self._read_end, self._write_end):
            end.setblocking(False)
        self._previous_wakeup_fd = signal.set_wakeup_fd(
            self._write_end.fileno(), warn_on_full_buffer=False
        )
        for each in self._signals:
            self._previous_handlers[each] = signal.signal(each, _noop_handler)
        return self

    def __exit__(self, *exc: object) -> None:
        for each, handler in self._previous_handlers.items():
            signal.signal(each, handler)
        signal.set_wakeup_fd(self._previous_wakeup_fd)
        self._read_end.close()
        self._write_end.close()

    def fileno(self) -> int:
        """Readable when one has come."""
        return self._read_end.fileno()

    def read(self) -> list[int]:
        """Those that have come since the last look, in order."""
        try:
            return list(self._read_end.recv(4096))
        except BlockingIOError:
            return []


def _noop_handler(number: int, frame: FrameType | None) -> None:
    """Python writes its number for us to read; a handler must be there for it to do so."""
