"""Signal handling: of the gateway process, and of the container's first process."""

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, Self

from holdfast.system import exit_codes

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_HANDLED = (*_STOP_SIGNALS, signal.SIGUSR1, signal.SIGHUP)
_STANDARD = (0, 1, 2)  # stdin, stdout and stderr
_FORCE_EXIT_COUNT = 3  # the stop signal that ends the process at once
_FORCE_EXIT_TEXT = b"holdfast: third signal, exiting at once. Accepted messages are in the store.\n"

SignalCallback = Callable[[signal.Signals], None]


class SignalHandlers:
    """Owns the handlers of SIGTERM, SIGINT, SIGUSR1 and SIGHUP while its context is open, and
    restores the previous ones. Signals that arrive before `listen` are queued for it.

    The third stop signal ends the process even if its event loop is blocked. So these are Python's
    signal handlers, which run between any two instructions of the main thread, and not handlers of
    the event loop.
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
        """The loop calls `callback` for each signal, also for those that arrived before."""
        self._loop, self._callback = loop, callback
        for each in self._pending:
            loop.call_soon(callback, each)

    @property
    def hung_up(self) -> bool:
        """Whether the terminal of this process has closed and the process should end with it (not
        under `nohup`). Only then does SIGHUP mean a stop."""
        if self._previous_handlers.get(signal.SIGHUP) is signal.SIG_IGN:
            return False
        return not all(os.isatty(fd) for fd in self._terminals)

    def ignore(self) -> None:
        """Ignore all signals from now on. Not by SIG_IGN, which child processes would inherit."""
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


class SignalQueue:
    """Signals as a readable file descriptor, to wait for beside other ones. Owns the handlers of
    these signals while its context is open, and restores the previous ones."""

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
        """Readable when a signal has arrived."""
        return self._read_end.fileno()

    def read(self) -> list[int]:
        """The signals that have arrived since the last call, in order."""
        try:
            return list(self._read_end.recv(4096))
        except BlockingIOError:
            return []


def _noop_handler(number: int, frame: FrameType | None) -> None:
    """Python writes the number to the wakeup descriptor, but only for signals with a handler."""
