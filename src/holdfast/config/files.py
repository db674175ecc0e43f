"""Writes a file of the home atomically, and shows the difference between two versions of a text."""

import difflib
import os
import tempfile
from pathlib import Path

from holdfast.core.errors import HoldfastError


# MERGED holdfast.config.whole_file: Writing a file of the home: whole or not at all.
class FileNotWritten(HoldfastError):
    """A file could not be written, and is as it was."""


def write_atomically(path: Path, text: str, *, mode: int) -> None:
    """Put the text there in one step. A link is kept, and what it points to is written."""
    place = path.resolve()
    try:
        fd, draft = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
        try:
            with open(fd, "w", encoding="utf-8", newline="") as file:
                os.fchmod(fd, mode)
                file.write(text)
                file.flush()
                os.fsync(fd)
            os.replace(draft, place)
        except BaseException:
            os.unlink(draft)
            raise
    except OSError as error:
        raise FileNotWritten(f"{path} cannot be written: {error.strerror}") from None


def mode_of(path: Path) -> int:
    """That a file is to keep; one that is not there yet is for its owner alone."""
    return path.stat().st_mode & 0o777 if path.exists() else 0o600


# MERGED holdfast.config.difference: The lines in which two texts of a file differ, as people read them.
def diff_lines(before: str, after: str, *, around: int = 1) -> list[str]:
    """Those that go (`-`) and come (`+`), with some around them; none: they are equal."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=around)
    return [*lines][2:]
