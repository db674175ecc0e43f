"""The machine as this process finds it: disk, memory and files, read when they are asked for."""

import os
import resource
from collections.abc import Callable, Sequence
from pathlib import Path

from holdfast.core.ops.facts import MachineStatus
from holdfast.system.paths import Paths

ReadUnitDrift = Callable[[], Sequence[str]]

_STATM, _FD_DIRECTORY = "/proc/self/statm", "/proc/self/fd"


class HostProbe:
    """Keeps nothing but where to look. Never to be asked by the event loop: a disk may be slow."""

    def __init__(self, paths: Paths, *, unit_drift: ReadUnitDrift) -> None:
        """`drift` reads where an installed unit disagrees with the configuration."""
        self._paths = paths
        self._unit_drift = unit_drift

    def read(self) -> MachineStatus:
        free, size = self._disk()
        db = self._paths.db
        return MachineStatus(
            disk_free=free,
            disk_size=size,
            database=_file_size(db),
            wal=_file_size(db.with_name(db.name + "-wal")),
            search=_file_size(self._paths.search_db),
            memory=resident_memory(),
            files=_open_files(),
            max_files=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            unit_drift=tuple(self._unit_drift()),
        )

    def _disk(self) -> tuple[int, int] | tuple[None, None]:
        try:
            found = os.statvfs(self._paths.home)
        except OSError:
            return None, None
        return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize


def _file_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def resident_memory() -> int | None:
    """Bytes of this process. The kernel has them at hand: no disk is asked."""
    try:
        file = os.open(_STATM, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return int(os.read(file, 200).split()[1]) * resource.getpagesize()
    finally:
        os.close(file)


def _open_files() -> int | None:
    """Counted by the kernel. To list them would ask it once for each, and wait each time for
    whoever has the interpreter; an older kernel says 0 here, and that is taken for no answer."""
    try:
        return os.stat(_FD_DIRECTORY).st_size or None
    except OSError:
        return None
