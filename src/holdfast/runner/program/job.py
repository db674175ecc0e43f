"""A job: one command with all it started, its output file, its limit and its end."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import tree
from .event_loop import EventLoop, Timer
from .keeper import GRACE_SECONDS, fork_supervisor


class CommandProcess:
    """Owns a keeper process. `on_end` is called once, when its shell has ended."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        loop: EventLoop,
        cwd: str,
        env: Mapping[str, str],
        stdin: int,
        output: int,
        limits: Mapping[str, Any],
        on_end: Callable[[CommandProcess, int], None],
    ) -> None:
        self._loop, self._on_end = loop, on_end
        self.started = time.monotonic()
        self.kill_reason = ""  # why it was killed: timed_out, cancelled, quota
        self._timers: list[Timer] = []
        self._written_bytes = 0
        self.pid = fork_supervisor(
            argv, cwd=cwd, env=env, stdin=stdin, output=output, limits=limits
        )
        loop.on_exit(self.pid, self._on_supervisor_exit)

    def set_time_limit(self, seconds: float) -> None:
        self._timers.append(self._loop.after(seconds, lambda: self.kill("timed_out")))

    def kill(self, reason: str) -> None:
        """End it with everything below it; the first reason given is the one that counts."""
        if self.kill_reason:
            return
        self.kill_reason = reason
        tree.signal_all([self.pid], 15)
        # The keeper itself runs as the user of what it keeps, who may have stopped it.
        self._timers.append(self._loop.after(GRACE_SECONDS + 2, self._kill_supervisor))

    def written_since(self) -> int:
        """Bytes its processes sent to disk since this was last asked."""
        total = sum(_written_by(pid) for pid in tree.living_descendants(self.pid))
        grown, self._written_bytes = total - self._written_bytes, total
        return max(0, grown)

    def _kill_supervisor(self) -> None:
        tree.kill_descendants(self.pid)
        tree.signal_all([self.pid], 9)

    def _on_supervisor_exit(self, code: int) -> None:
        for timer in self._timers:
            timer.cancel()
        self._on_end(self, code)


def _written_by(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/io", "rb") as file:
            fields = dict(line.split(b": ") for line in file.read().splitlines())
    except OSError:
        return 0
    return int(fields[b"write_bytes"])


def open_devnull() -> int:
    return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
