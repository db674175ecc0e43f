"""Process trees as /proc shows them: descendants, killing all of them, and their CPU time and
memory."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from typing import NamedTuple

MAX_KILL_PASSES = (
    50  # a bomb forks while it is being killed; stopping it first makes few passes enough
)


def stat_fields(pid: int) -> list[str]:
    """The fields of /proc/<pid>/stat after the command's name, which may hold anything."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].decode().split()


def start_time(pid: int) -> int | None:
    """Clock ticks since boot at which the process began; None: there is no such process."""
    try:
        fields = stat_fields(pid)
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(fields[19]) if fields[0] not in "ZX" else None


def _scan_processes() -> tuple[dict[int, list[int]], set[int]]:
    """Children by parent, and who of all is dead and only waits to be reaped."""
    below: dict[int, list[int]] = {}
    zombies = set()
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            fields = stat_fields(int(name))
        except (FileNotFoundError, ProcessLookupError):
            continue
        below.setdefault(int(fields[1]), []).append(int(name))
        if fields[0] in "ZX":
            zombies.add(int(name))
    return below, zombies


def living_children(parent: int) -> list[int]:
    below, zombies = _scan_processes()
    return [pid for pid in below.get(parent, ()) if pid not in zombies]


def living_descendants(root: int) -> list[int]:
    """All that live below `root`, parents before their children."""
    below, zombies = _scan_processes()
    found = list(below.get(root, ()))
    for pid in found:
        found.extend(below.get(pid, ()))
    return [pid for pid in found if pid not in zombies]


def signal_all(pids: list[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def kill_descendants(root: int) -> None:
    """SIGKILL everything below `root`, also what forks meanwhile."""
    for _ in range(MAX_KILL_PASSES):
        pids = living_descendants(root)
        if not pids:
            return
        signal_all(pids, signal.SIGSTOP)
        signal_all(pids, signal.SIGKILL)


_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")


class ResourceUsage(NamedTuple):
    cpu: float  # seconds, of those that have ended too
    memory: int  # bytes that are resident


def resource_usage(keepers: Sequence[int]) -> dict[int, ResourceUsage]:
    """For each keeper, what is below it. The keeper itself is ours, and not reckoned: but it has
    reaped what ended, and the kernel counts that there."""
    fields = dict(_all_stat_fields()) if keepers else {}
    below: dict[int, list[int]] = {}
    for pid, each in fields.items():
        below.setdefault(int(each[1]), []).append(pid)
    return {keeper: _usage_below(keeper, fields, below) for keeper in keepers}


def _usage_below(
    keeper: int, fields: dict[int, list[str]], below: dict[int, list[int]]
) -> ResourceUsage:
    found = list(below.get(keeper, ()))
    for pid in found:
        found.extend(below.get(pid, ()))
    ticks = sum(map(int, fields[keeper][13:15])) if keeper in fields else 0
    ticks += sum(sum(map(int, fields[pid][11:15])) for pid in found)
    return ResourceUsage(
        cpu=ticks / _TICKS_PER_SECOND,
        memory=sum(int(fields[pid][21]) for pid in found) * _PAGE_SIZE,
    )


def _all_stat_fields() -> list[tuple[int, list[str]]]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                found.append((int(name), stat_fields(int(name))))
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has just ended
    return found
