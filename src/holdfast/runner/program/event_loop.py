"""The event loop of a single-threaded program: descriptors, timers, and exited children."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable
from functools import partial

Callback = Callable[[], None]


class Timer:
    """One call in the future; `cancel` makes it never happen."""

    def __init__(self, action: Callback) -> None:
        self.action: Callback | None = action

    def cancel(self) -> None:
        self.action = None


class EventLoop:
    """Owns the selector, the timers and the duty to reap: as pid 1 every orphan comes here."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._children: dict[int, Callable[[int], None]] = {}
        self._running = True
        self._wakeup_reader, self._wakeup_writer = socket.socketpair()
        for end in (self._wakeup_reader, self._wakeup_writer):
            end.setblocking(False)
        signal.set_wakeup_fd(self._wakeup_writer.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.watch_reading(self._wakeup_reader.fileno(), self._reap)

    def watch_reading(self, fd: int, action: Callback) -> None:
        self._selector.register(fd, selectors.EVENT_READ, (action, None))

    def watch_read_write(self, fd: int, reading: Callback, writing: Callback | None) -> None:
        """Change what a watched descriptor waits for; without `writing`, only for reading."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if writing else 0)
        self._selector.modify(fd, events, (reading, writing))

    def watch(self, fd: int, reading: Callback | None, writing: Callback | None) -> None:
        """Wait for what has an action from now on; without one, the descriptor is not watched."""
        events = (selectors.EVENT_READ if reading else 0) | (
            selectors.EVENT_WRITE if writing else 0
        )
        known = fd in self._selector.get_map()
        if events and known:
            self._selector.modify(fd, events, (reading, writing))
        elif events:
            self._selector.register(fd, events, (reading, writing))
        elif known:
            self._selector.unregister(fd)

    def unwatch(self, fd: int) -> None:
        self._selector.unregister(fd)

    def after(self, seconds: float, action: Callback) -> Timer:
        timer = Timer(action)
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._order), timer))
        return timer

    def on_exit(self, pid: int, action: Callable[[int], None]) -> None:
        """`action` gets the exit code, 128 + n for signal n. Call it right after the fork."""
        self._children[pid] = action

    def stop(self) -> None:
        self._running = False

    def run(self) -> None:
        while self._running:
            for key, events in self._selector.select(self._until_next_timer()):
                reading, writing = key.data
                if events & selectors.EVENT_READ:
                    _call_logged(reading)
                if events & selectors.EVENT_WRITE and key.fd in self._selector.get_map():
                    _call_logged(writing)
            self._fire_timers()

    def _until_next_timer(self) -> float | None:
        while self._timers and self._timers[0][2].action is None:
            heapq.heappop(self._timers)
        return max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else None

    def _fire_timers(self) -> None:
        while self._timers and self._timers[0][0] <= time.monotonic():
            action = heapq.heappop(self._timers)[2].action
            if action:
                _call_logged(action)

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._wakeup_reader.recv(4096)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            code = os.waitstatus_to_exitcode(status)
            action = self._children.pop(pid, None)
            if action:
                _call_logged(partial(action, code if code >= 0 else 128 - code))


def _call_logged(action: Callback) -> None:
    """An `OSError` (a full disk or process table) concerns only this callback. It is logged,
    because the end of this program would end all its commands."""
    try:
        action()
    except OSError as error:
        print(f"a callback of the runner failed: {error!r}", file=sys.stderr, flush=True)
