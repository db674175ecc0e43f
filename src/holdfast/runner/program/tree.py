"""Process trees as /proc shows them: who descends from whom, and ending all of them."""

from __future__ import annotations

import os
import signal

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
