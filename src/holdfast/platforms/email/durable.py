"""A small file that is replaced as a whole: after a crash it is the old one or the new one."""

import os
from pathlib import Path

from holdfast.core.errors import StoreFailing


def write(path: Path, content: bytes) -> None:
    """In a thread: it waits for the disk. Raises `StoreFailing`."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")
        with fresh.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # else a crash of the machine could take the new name away
        finally:
            os.close(folder)
    except OSError as error:
        raise StoreFailing(f"{path} cannot be written: {error}") from error


def read(path: Path) -> bytes | None:
    """None: there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
