"""Writing the files of a home: whole or not at all, and secrets for their owner alone."""

import os
import re
import tempfile
from pathlib import Path

from holdfast.config.dotenv import read_dotenv
from holdfast.core.errors import HoldfastError


def write_whole(path: Path, text: str, *, mode: int) -> None:
    """Put the text there in one step. A link is kept, and what it points to is written."""
    place = path.resolve()
    try:
        fd, draft = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
        try:
            with open(fd, "w", encoding="utf-8") as file:
                os.fchmod(fd, mode)
                file.write(text)
                file.flush()
                os.fsync(fd)
            os.replace(draft, place)
        except BaseException:
            os.unlink(draft)
            raise
    except OSError as error:
        raise HoldfastError(f"{path} cannot be written: {error.strerror}") from None


def set_variable(path: Path, name: str, value: str) -> bool:
    """Set one variable of a `.env` file, which is of mode 0600 afterwards; False: it was so."""
    known = read_dotenv(path)
    if known.values.get(name) == value:
        path.chmod(0o600)
        return False
    lines = path.read_text(encoding="utf-8-sig").splitlines() if path.exists() else []
    line = f"{name}={_quoted(value)}"
    if name in known.lines:
        lines[known.lines[name] - 1] = line
    else:
        lines.append(line)
    write_whole(path, "\n".join(lines) + "\n", mode=0o600)
    return True


def _quoted(value: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9_.:/+=-]*", value):
        return value
    escaped = re.sub(r'(["\\$])', r"\\\1", value)
    return f'"{escaped}"' if "'" in value else f"'{value}'"
