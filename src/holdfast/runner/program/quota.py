"""The disk quota of a session, checked while something runs."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from . import process_tree
from .command_process import CommandProcess
from .event_loop import EventLoop

MIN_PAUSE = 0.25  # seconds between two looks at the least; a look is one statvfs as a rule
MAX_PAUSE = 5.0
FASTEST_DISK = 1 << 30  # bytes a second
RECOUNT_SECONDS = 30.0  # deletions by other programs could hide our growth from statvfs
MIN_OFFENCE = 1024 * 1024
FASTEST_FILES = 100_000  # new ones a second
MIN_COMPUTING = 0.02  # seconds of CPU


class DiskUse(NamedTuple):
    """Bytes and inodes, which a file system can run out of, too."""

    size: int
    files: int


def folder_use(folder: str) -> DiskUse:
    """What is below `folder`; what vanishes meanwhile counts nothing."""
    total, files, left, linked = 0, 0, [folder], set()
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
            files += 1
    return DiskUse(total, files)


class DiskQuota:
    """Owns the last count. Between counts it knows a bound: the whole disk's growth since."""

    def __init__(
        self,
        limit: DiskUse,
        *,
        folders: Sequence[str],
        loop: EventLoop,
        processes: Callable[[], list[CommandProcess]],
    ) -> None:
        self._limit, self._folders, self._loop, self._processes = limit, folders, loop, processes
        self._counted = self._disk_used_at_count = DiskUse(0, 0)
        self._stale_at = 0.0
        self._min_interval = 0.0
        self._watching = False

    def watch(self) -> None:
        """Look again and again until nothing runs any more."""
        if not self._watching:
            self._watch_again(MIN_PAUSE)

    def free(self) -> DiskUse:
        """At least so much may still be written; negative: there is too much already."""
        left = self._least_free()
        if min(left) <= 0 or time.monotonic() >= self._stale_at:
            self._count()
            left = self._least_free()
        return left

    def _least_free(self) -> DiskUse:
        used, before = self._disk_used(), self._disk_used_at_count
        return DiskUse(
            self._limit.size - self._counted.size - max(0, used.size - before.size),
            self._limit.files - self._counted.files - max(0, used.files - before.files),
        )

    def _check(self) -> None:
        jobs = self._processes()
        self._watching = False
        orphans = [] if jobs else process_tree.living_descendants(os.getpid())
        if not jobs and not orphans:
            return
        room = self.free()
        if min(room) < 0:
            self._kill_offender(jobs, by_files=room.files < 0)
        # No sooner than the room could be filled: a server left running costs next to nothing.
        pause = min(room.size / FASTEST_DISK, room.files / FASTEST_FILES)
        self._watch_again(min(MAX_PAUSE, max(MIN_PAUSE, pause)))

    def _watch_again(self, pause: float) -> None:
        self._watching = True
        self._loop.after(max(pause, self._min_interval), self._check)

    def _kill_offender(self, processes: list[CommandProcess], *, by_files: bool) -> None:
        """The job that wrote the most since the last look; else what commands left behind. Nothing
        counts the files that a job creates: where those are too many, the one that computed most
        since then."""
        least = MIN_COMPUTING if by_files else MIN_OFFENCE
        writers: list[tuple[float, CommandProcess]] = [
            (job.computed_since() if by_files else job.written_since(), job) for job in processes
        ]
        most, offender = max(writers, key=lambda pair: pair[0], default=(0, None))
        if offender is not None and most >= least:
            return offender.kill("quota")
        known_pids = {job.pid for job in processes}
        for stray in process_tree.living_children(os.getpid()):
            if stray not in known_pids:
                process_tree.kill_descendants(stray)
                process_tree.signal_all([stray], signal.SIGKILL)

    def _count(self) -> None:
        began = time.monotonic()
        self._disk_used_at_count = self._disk_used()
        counted = [folder_use(folder) for folder in self._folders]
        self._counted = DiskUse(sum(use.size for use in counted), sum(use.files for use in counted))
        took = time.monotonic() - began
        self._stale_at = began + max(RECOUNT_SECONDS, 50 * took)
        self._min_interval = 10 * took  # a huge workspace is counted less often

    def _disk_used(self) -> DiskUse:
        """Of the whole disk. Where a file system (btrfs) counts no inodes, a recount does."""
        facts = os.statvfs(self._folders[0])
        size = (facts.f_blocks - facts.f_bfree) * facts.f_frsize
        return DiskUse(size, facts.f_files - facts.f_ffree)
