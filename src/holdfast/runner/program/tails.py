"""Tails: output files of running commands, told to whoever listens as they grow."""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable

from . import kernel, spool
from .event_loop import EventLoop

TAIL_PAUSE = 0.1  # at the most so many pieces a second, however fast a command writes
POLL_PAUSE = 0.5  # where the kernel grants no inotify
TAIL_CHUNK = 64 * 1024


class OutputTail:
    """Owns how far one file has been told."""

    def __init__(self, path: str, send: Callable[[str], None]) -> None:
        self.path, self._send = path, send
        self.watch = -1
        self._offset = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def catch_up(self) -> None:
        """Tell what is new; of a flood only the last piece, the file has it all."""
        _, size = spool.read_slice(self.path, 0, 0)
        self._offset = max(self._offset, size - TAIL_CHUNK)
        data, _ = spool.read_slice(self.path, self._offset, TAIL_CHUNK)
        if data:
            self._offset += len(data)
            self._send(self._decoder.decode(data).replace("\0", "\ufffd"))


class OutputTails:
    """Owns the inotify descriptor. Nothing is looked at unless a file grew."""

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop
        self._tails: set[OutputTail] = set()
        self._scheduled = False
        self._inotify = kernel.inotify_open()
        if self._inotify is not None:
            loop.watch_reading(self._inotify, self._on_growth)

    def add(self, tail: OutputTail) -> None:
        self._tails.add(tail)
        if self._inotify is not None:
            tail.watch = kernel.inotify_watch_writes(self._inotify, tail.path)
        self._schedule(TAIL_PAUSE if tail.watch >= 0 else POLL_PAUSE)

    def remove(self, tail: OutputTail) -> None:
        """The last piece is told first."""
        if tail in self._tails:
            tail.catch_up()
            self._tails.discard(tail)
            if self._inotify is not None:
                kernel.inotify_forget(self._inotify, tail.watch)

    def _on_growth(self) -> None:
        try:
            os.read(self._inotify or 0, 65536)
        except BlockingIOError:
            return
        self._schedule(TAIL_PAUSE)

    def _schedule(self, pause: float) -> None:
        if not self._scheduled and self._tails:
            self._scheduled = True
            self._loop.after(pause, self._catch_up)

    def _catch_up(self) -> None:
        self._scheduled = False
        for tail in list(self._tails):
            tail.catch_up()
        if any(tail.watch < 0 for tail in self._tails):
            self._schedule(POLL_PAUSE)
