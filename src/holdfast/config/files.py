"""Writes a file of the home atomically, and shows the difference between two versions of a text."""

import difflib
import os
import tempfile
from pathlib import Path

from holdfast.core.errors import HoldfastError


class FileNotWritten(HoldfastError):
    """A file could not be written. Its old content is unchanged."""


def write_atomically(path: Path, text: str, *, mode: int) -> None:
    """Replace the file in one step. A link stays, and its target is written."""
    target = path.resolve()
    try:
        fd, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with open(fd, "w", encoding="utf-8", newline="") as file:
                os.fchmod(fd, mode)
                file.write(text)
                file.flush()
                os.fsync(fd)
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise FileNotWritten(
            "Could not write {file}: {error}. Check its owner, its mode and the free space.",
            file=path,
            error=error.strerror,
        ) from None


def mode_of(path: Path) -> int:
    """The mode of a file; 0600 where it does not exist yet."""
    return path.stat().st_mode & 0o777 if path.exists() else 0o600


def diff_lines(before: str, after: str, *, around: int = 1) -> list[str]:
    """The removed (`-`) and added (`+`) lines, with context; empty: the texts are equal."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=around)
    return [*lines][2:]
