"""Signals as something to wait for beside other things: each that comes can be read."""

import signal
import socket
from collections.abc import Sequence
from types import FrameType
from typing import Any, Self


class HeardSignals:
    """Owns what these signals do while its context is open, and restores what it found."""

    def __init__(self, heard: Sequence[signal.Signals]) -> None:
        self._heard = heard
        self._before: dict[signal.Signals, Any] = {}
        self._reads, self._writes = socket.socketpair()
        self._wakes = -1

    def __enter__(self) -> Self:
        for end in (self._reads, self._writes):
            end.setblocking(False)
        self._wakes = signal.set_wakeup_fd(self._writes.fileno(), warn_on_full_buffer=False)
        for each in self._heard:
            self._before[each] = signal.signal(each, _noted)
        return self

    def __exit__(self, *exc: object) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)
        signal.set_wakeup_fd(self._wakes)
        self._reads.close()
        self._writes.close()

    def fileno(self) -> int:
        """Readable when one has come."""
        return self._reads.fileno()

    def taken(self) -> list[int]:
        """Those that have come since the last look, in order."""
        try:
            return list(self._reads.recv(4096))
        except BlockingIOError:
            return []


def _noted(number: int, frame: FrameType | None) -> None:
    """Python writes its number for us to read; a handler must be there for it to do so."""
