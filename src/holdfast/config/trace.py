"""The trace of a configuration: what tells, without reading them, that its files have changed."""

from collections.abc import Iterable
from pathlib import Path

from holdfast.core.config.home_files import CONFIG_FILE, ENV_FILE

Trace = tuple[tuple[int, int, int], ...]


def files_of(home: Path) -> tuple[Path, ...]:
    return home / CONFIG_FILE, home / ENV_FILE


def trace_of(files: Iterable[Path]) -> Trace:
    """What is another as soon as one of the files is."""
    return tuple(_trace(file) for file in files)


def _trace(file: Path) -> tuple[int, int, int]:
    try:
        found = file.stat()
    except OSError:
        return 0, 0, 0
    return found.st_ino, found.st_size, found.st_mtime_ns
