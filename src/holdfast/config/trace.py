"""The trace of a configuration: what tells, without reading them, that its files have changed."""

from collections.abc import Iterable
from pathlib import Path

from holdfast.core.config.home_files import CONFIG_FILE, ENV_FILE

ConfigFingerprint = tuple[tuple[int, int, int], ...]


def config_files(home: Path) -> tuple[Path, ...]:
    return home / CONFIG_FILE, home / ENV_FILE


def fingerprint(files: Iterable[Path]) -> ConfigFingerprint:
    """What is another as soon as one of the files is."""
    return tuple(_file_fingerprint(file) for file in files)


def _file_fingerprint(file: Path) -> tuple[int, int, int]:
    try:
        found = file.stat()
    except OSError:
        return 0, 0, 0
    return found.st_ino, found.st_size, found.st_mtime_ns
