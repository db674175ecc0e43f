"""The disk quota of a session, checked while something runs."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence

from . import process_tree
from .command_process import CommandProcess
from .event_loop import EventLoop

MIN_PAUSE = 0.25  # seconds between two looks at the least; a look is one statvfs as a rule
MAX_PAUSE = 5.0
FASTEST_DISK = 1 << 30  # bytes a second
RECOUNT_SECONDS = 30.0  # deletions by other programs could hide our growth from statvfs
MIN_OFFENCE = 1024 * 1024


def folder_size(folder: str) -> int:
    """Bytes on disk below `folder`; what vanishes meanwhile counts nothing."""
    total, left, linked = 0, [folder], set()
    while left:
        try:
            entries = list(os.scandir(left.pop()))
        except OSError:
            continue
        for entry in entries:
            try:
                facts = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if entry.is_dir(follow_symlinks=False):
                left.append(entry.path)
            if facts.st_nlink > 1:
                if facts.st_ino in linked:
                    continue
                linked.add(facts.st_ino)
            total += facts.st_blocks * 512
    return total


class DiskQuota:
    """Owns the last count. Between counts it knows a bound: the whole disk's growth since."""

    def __init__(
        self,
        limit: int,
        *,
        folders: Sequence[str],
        loop: EventLoop,
        processes: Callable[[], list[CommandProcess]],
    ) -> None:
        self._limit, self._folders, self._loop, self._processes = limit, folders, loop, processes
        self._counted = 0
        self._disk_used_at_count = 0
        self._stale_at = 0.0
        self._min_interval = 0.0
        self._watching = False

    def watch(self) -> None:
        """Look again and again until nothing runs any more."""
        if not self._watching:
            self._watch_again(MIN_PAUSE)

    def free_bytes(self) -> int:
        """At least so many bytes may still be written; negative: there is too much already."""
        growth = max(0, self._disk_used() - self._disk_used_at_count)
        if self._counted + growth >= self._limit or time.monotonic() >= self._stale_at:
            self._count()
            growth = 0
        return self._limit - self._counted - growth

    def _check(self) -> None:
        jobs = self._processes()
        self._watching = False
        orphans = [] if jobs else process_tree.living_descendants(os.getpid())
        if not jobs and not orphans:
            return
        room = self.free_bytes()
        if room < 0:
            self._kill_offender(jobs)
        # No sooner than the room could be filled: a server left running costs next to nothing.
        self._watch_again(min(MAX_PAUSE, max(MIN_PAUSE, room / FASTEST_DISK)))

    def _watch_again(self, pause: float) -> None:
        self._watching = True
        self._loop.after(max(pause, self._min_interval), self._check)

    def _kill_offender(self, processes: list[CommandProcess]) -> None:
        """The job that wrote the most since the last look; else what commands left behind."""
        writers = [(job.written_since(), job) for job in processes]
        most, offender = max(writers, key=lambda pair: pair[0], default=(0, None))
        if offender is not None and most >= MIN_OFFENCE:
            return offender.kill("quota")
        known_pids = {job.pid for job in processes}
        for stray in process_tree.living_children(os.getpid()):
            if stray not in known_pids:
                process_tree.kill_descendants(stray)
                process_tree.signal_all([stray], signal.SIGKILL)

    def _count(self) -> None:
        began = time.monotonic()
        self._disk_used_at_count = self._disk_used()
        self._counted = sum(folder_size(folder) for folder in self._folders)
        took = time.monotonic() - began
        self._stale_at = began + max(RECOUNT_SECONDS, 50 * took)
        self._min_interval = 10 * took  # a huge workspace is counted less often

    def _disk_used(self) -> int:
        facts = os.statvfs(self._folders[0])
        return (facts.f_blocks - facts.f_bfree) * facts.f_frsize
