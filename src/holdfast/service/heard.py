"""Signals as something to wait for beside other things: each that comes can be read."""

import signal
import socket
from collections.abc import Sequence
from types import FrameType
from typing import Any, Self


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
