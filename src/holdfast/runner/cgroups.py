"""A cgroup for each runner, which limits the memory, processes and CPU of a session as a whole.

Memory that processes share (memfd, shared mappings, tmpfs) counts for none of them, so no limit of
a process holds it; a cgroup counts whoever touched it. Both versions are supported: version 2 where
this process may create cgroups with controllers in its own, version 1 where its hierarchies are
mounted and writable. Under systemd each runner has a scope of its own, with the same limits.
"""

import contextlib
import hashlib
import os
import select
import signal
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from holdfast.core.config.settings import RunnerSettings
from holdfast.core.ids import SessionId

CONTROLLERS = ("memory", "pids", "cpu")
PREFIX = "holdfast-"
PROCESS_RESERVE = 64  # the runner, bubblewrap, and a supervisor for each command
MB = 1 << 20
_CPU_PERIOD = 100_000  # microseconds
_PASSES, _PASS_SECONDS = 50, 0.2
# Moves itself into the cgroups named before `--`, then becomes the program after it.
_ENTER_SCRIPT = (
    'while [ "$1" != -- ]; do echo 0 >"$1/cgroup.procs" || exit 1; shift; done; shift; exec "$@"'
)


class Hierarchy(msgspec.Struct, frozen=True):
    """The folder of this process in one hierarchy, and which of our controllers work in it."""

    folder: str
    controllers: tuple[str, ...]
    version: int


class Cgroups(msgspec.Struct, frozen=True):
    """Where cgroups can be created on this machine; determined once, by trying."""

    hierarchies: tuple[Hierarchy, ...] = ()

    @property
    def controllers(self) -> frozenset[str]:
        return frozenset(name for each in self.hierarchies for name in each.controllers)

    def create(self, name: str, settings: RunnerSettings) -> tuple[str, ...]:
        """New cgroups with the limits of a session, one in each hierarchy. Raises OSError."""
        made: list[str] = []
        try:
            for each in self.hierarchies:
                folder = os.path.join(each.folder, name)
                os.mkdir(folder, 0o755)
                made.append(folder)
                for file, value in _limits(each, settings):
                    _write(os.path.join(folder, file), value)
        except OSError:
            remove_cgroups(made)
            raise
        return tuple(made)


def runner_cgroup(home: Path, session_id: SessionId, *, moment: float) -> str:
    """The name of a runner's cgroups: each runner has its own, since the last one of a session may
    still be ending."""
    digests = (hashlib.sha256(os.fsencode(home)), hashlib.sha256(session_id.encode()))
    return f"{PREFIX}{'-'.join(each.hexdigest()[:12] for each in digests)}-{moment * 1000:.0f}"


def enter_command(folders: Sequence[str]) -> list[str]:
    """The words before a command that put it into these cgroups."""
    return ["/bin/sh", "-c", _ENTER_SCRIPT, "sh", *folders, "--"] if folders else []


def scope_properties(settings: RunnerSettings) -> list[str]:
    """The same limits for `systemd-run --scope`. systemd ignores what its kernel or user manager
    has no controller for."""
    limits = [
        f"MemoryMax={settings.memory_mb}M",
        "MemorySwapMax=0",
        f"TasksMax={settings.processes + PROCESS_RESERVE}",
    ]
    if settings.cpus:
        limits.append(f"CPUQuota={settings.cpus * 100:.0f}%")
    return [f"--property={limit}" for limit in limits]


def find_cgroups(proc: Path = Path("/proc/self")) -> Cgroups:
    """Blocks for milliseconds: it creates a cgroup in each hierarchy and starts a process in it."""
    try:
        mounts = (proc / "mountinfo").read_text()
        own = (proc / "cgroup").read_text()
    except OSError:
        return Cgroups()
    return Cgroups(tuple(each for each in own_folders(mounts, own) if _works(each)))


def own_folders(mounts: str, own: str) -> list[Hierarchy]:
    """Where this process is in each hierarchy that has one of our controllers."""
    paths = {}
    for line in own.splitlines():
        _, controllers, path = line.split(":", 2)
        paths.update(dict.fromkeys(controllers.split(","), path))  # "": version 2
    found: dict[str, Hierarchy] = {}
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        root, mounted_at = before.split()[3:5]
        kind, _, options = after.split()[:3]
        version = {"cgroup": 1, "cgroup2": 2}.get(kind)
        names = [name for name in CONTROLLERS if name in options.split(",")]
        ours = paths.get("" if version == 2 else names[0] if names else "-")
        if version is None or ours is None or os.path.relpath(ours, root).startswith(".."):
            continue
        folder = os.path.normpath(os.path.join(mounted_at, os.path.relpath(ours, root)))
        if version == 2:
            names = _enabled_controllers(folder)
        if names:
            found.setdefault(folder, Hierarchy(folder, tuple(names), version))
    return list(found.values())


def _enabled_controllers(folder: str) -> list[str]:
    """Those that children of this cgroup of version 2 have, or can be given: that is refused for a
    cgroup that has processes itself, unless it is the machine's root."""
    control = Path(folder, "cgroup.subtree_control")
    try:
        available = Path(folder, "cgroup.controllers").read_text().split()
        for name in (name for name in CONTROLLERS if name in available):
            if name not in control.read_text().split():
                _write(str(control), f"+{name}")
        enabled = control.read_text().split()
    except OSError:
        return []
    return [name for name in CONTROLLERS if name in enabled]


def _works(hierarchy: Hierarchy) -> bool:
    name = f"{PREFIX}probe-{os.getpid()}"
    try:
        made = Cgroups((hierarchy,)).create(name, RunnerSettings())
    except OSError:
        return False
    try:
        trial = subprocess.run(
            [*enter_command(made), "/bin/true"], env={}, capture_output=True, check=False
        )
        return trial.returncode == 0
    finally:
        remove_cgroups(made)


def _limits(hierarchy: Hierarchy, settings: RunnerSettings) -> Iterable[tuple[str, str]]:
    memory = str(settings.memory_mb * MB)
    quota = int(settings.cpus * _CPU_PERIOD)
    if "memory" in hierarchy.controllers and hierarchy.version == 2:
        yield from (("memory.max", memory), ("memory.swap.max", "0"))
    elif "memory" in hierarchy.controllers:
        # Memory and swap together, which may be no less than memory alone.
        yield from (("memory.limit_in_bytes", memory), ("memory.memsw.limit_in_bytes", memory))
    if "pids" in hierarchy.controllers:
        yield "pids.max", str(settings.processes + PROCESS_RESERVE)
    if "cpu" in hierarchy.controllers and quota and hierarchy.version == 2:
        yield "cpu.max", f"{quota} {_CPU_PERIOD}"
    elif "cpu" in hierarchy.controllers and quota:
        yield from (("cpu.cfs_period_us", str(_CPU_PERIOD)), ("cpu.cfs_quota_us", str(quota)))


def _write(path: str, value: str) -> None:
    # Kernels without accounting of swap lack these two.
    if path.endswith((".memsw.limit_in_bytes", ".swap.max")) and not os.path.exists(path):
        return
    with open(path, "w", encoding="ascii") as file:
        file.write(value)


def remove_cgroups(folders: Iterable[str]) -> None:
    """End what is left in these cgroups of a runner, and remove them. Blocks until that is done."""
    for folder in folders:
        if os.path.basename(folder).startswith(PREFIX):
            _remove(folder)


def _remove(folder: str) -> None:
    for _ in range(_PASSES):
        try:
            os.rmdir(folder)
        except FileNotFoundError:
            return
        except OSError:
            _end_processes(folder)
        else:
            return


def _end_processes(folder: str) -> None:
    """Kill them, and wait for their ends. One that is a zombie already leaves the cgroup when its
    parent collects it, which the next pass finds out."""
    try:
        pids = [int(pid) for pid in Path(folder, "cgroup.procs").read_text().split()]
    except OSError:
        return
    poll, opened = select.poll(), []
    for pid in pids:
        with contextlib.suppress(OSError):
            fd = os.pidfd_open(pid)
            opened.append(fd)
            signal.pidfd_send_signal(fd, signal.SIGKILL)
            poll.register(fd, select.POLLIN)
    try:
        waiting = set(opened)
        while waiting:
            ended = {fd for fd, _ in poll.poll(_PASS_SECONDS * 1000)}
            if not ended:
                return
            for fd in ended & waiting:
                poll.unregister(fd)
            waiting -= ended
    finally:
        for fd in opened:
            os.close(fd)
