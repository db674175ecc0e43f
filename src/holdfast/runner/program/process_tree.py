"""Process trees as /proc shows them: descendants, killing all of them, and their CPU time and
memory."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from typing import NamedTuple

# A fork bomb forks while it is being killed; as it is stopped first, few passes are enough.
MAX_KILL_PASSES = 50
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")


class ResourceUsage(NamedTuple):
    cpu: float  # seconds, also of processes that have ended
    memory: int  # resident bytes


def stat_fields(pid: int) -> list[str]:
    """The fields of /proc/<pid>/stat after the command's name, which may contain anything."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].decode().split()


def start_time(pid: int) -> int | None:
    """Clock ticks from boot to the start of the process; None: there is no such process."""
    try:
        fields = stat_fields(pid)
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(fields[19]) if fields[0] not in "ZX" else None


def _all_stat_fields() -> list[tuple[int, list[str]]]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                found.append((int(name), stat_fields(int(name))))
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has just ended
    return found


def _scan_processes() -> tuple[dict[int, list[int]], set[int]]:
    """Children by parent, and the zombies among all processes."""
    children: dict[int, list[int]] = {}
    zombies = set()
    for pid, fields in _all_stat_fields():
        children.setdefault(int(fields[1]), []).append(pid)
        if fields[0] in "ZX":
            zombies.add(pid)
    return children, zombies


def _descendants(root: int, children: dict[int, list[int]]) -> list[int]:
    """Parents before their children."""
    found = list(children.get(root, ()))
    for pid in found:
        found.extend(children.get(pid, ()))
    return found


def living_children(parent: int) -> list[int]:
    children, zombies = _scan_processes()
    return [pid for pid in children.get(parent, ()) if pid not in zombies]


def living_descendants(root: int) -> list[int]:
    """All living processes below `root`, parents before their children."""
    children, zombies = _scan_processes()
    return [pid for pid in _descendants(root, children) if pid not in zombies]


def signal_all(pids: list[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def kill_descendants(root: int) -> None:
    """SIGKILL every process below `root`, also those that fork meanwhile."""
    for _ in range(MAX_KILL_PASSES):
        pids = living_descendants(root)
        if not pids:
            return
        signal_all(pids, signal.SIGSTOP)
        signal_all(pids, signal.SIGKILL)


def resource_usage(supervisors: Sequence[int]) -> dict[int, ResourceUsage]:
    """The usage of the processes below each supervisor. Its own is not counted, but that of the
    children it has reaped, which the kernel adds there."""
    fields = dict(_all_stat_fields()) if supervisors else {}
    children: dict[int, list[int]] = {}
    for pid, each in fields.items():
        children.setdefault(int(each[1]), []).append(pid)
    return {pid: _usage_below(pid, fields, children) for pid in supervisors}


def _usage_below(
    supervisor: int, fields: dict[int, list[str]], children: dict[int, list[int]]
) -> ResourceUsage:
    found = _descendants(supervisor, children)
    ticks = sum(map(int, fields[supervisor][13:15])) if supervisor in fields else 0
    ticks += sum(sum(map(int, fields[pid][11:15])) for pid in found)
    return ResourceUsage(
        cpu=ticks / _TICKS_PER_SECOND,
        memory=sum(int(fields[pid][21]) for pid in found) * _PAGE_SIZE,
    )
