"""The quota: how much the session may keep on disk, looked after while something runs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

from .job import Job
from .loop import Loop

PAUSE = 0.25  # seconds between two looks; one look is one statvfs as a rule
RECOUNT = 30.0  # somebody else's deletions could hide our growth from statvfs
NOTEWORTHY = 1024 * 1024


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
            if facts.st_nlink == 1 or facts.st_ino not in linked:
                total += facts.st_blocks * 512
            linked.add(facts.st_ino)
    return total


class Quota:
    """Owns the last count. Between counts it knows a bound: the whole disk's growth since."""

    def __init__(
        self, limit: int, *, folders: Sequence[str], loop: Loop, jobs: Callable[[], list[Job]]
    ) -> None:
        self._limit, self._folders, self._loop, self._jobs = limit, folders, loop, jobs
        self._counted = 0
        self._disk_then = 0
        self._stale_at = 0.0
        self._pause = PAUSE
        self._watching = False

    def watch(self) -> None:
        """Look again and again until no job is left."""
        if not self._watching:
            self._watching = True
            self._loop.after(self._pause, self._look)

    def room(self) -> int:
        """At least so many bytes may still be written; negative: there is too much already."""
        grown = self._disk_used() - self._disk_then
        if self._counted + grown >= self._limit or time.monotonic() >= self._stale_at:
            self._count()
            grown = 0
        return self._limit - self._counted - max(0, grown)

    def _look(self) -> None:
        jobs = self._jobs()
        self._watching = False
        if not jobs:
            return
        if self.room() < 0:
            writers = [(job.written_since(), job) for job in jobs]
            most, offender = max(writers, key=lambda pair: pair[0])
            if most >= NOTEWORTHY:
                offender.kill("quota")
        self.watch()

    def _count(self) -> None:
        began = time.monotonic()
        self._disk_then = self._disk_used()
        self._counted = sum(folder_size(folder) for folder in self._folders)
        took = time.monotonic() - began
        self._stale_at = began + max(RECOUNT, 50 * took)
        self._pause = max(PAUSE, 10 * took)  # a huge workspace is counted less often

    def _disk_used(self) -> int:
        facts = os.statvfs(self._folders[0])
        return (facts.f_blocks - facts.f_bfree) * facts.f_frsize
