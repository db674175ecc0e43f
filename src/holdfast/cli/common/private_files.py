"""The `.env` file of a home, written for its owner alone."""

import re
from pathlib import Path

from holdfast.config.dotenv import read_dotenv
from holdfast.config.whole_file import write_atomically


def set_env_variable(path: Path, name: str, value: str) -> bool:
    """Set one variable of a `.env` file, which is of mode 0600 afterwards; False: it was so."""
    known = read_dotenv(path)
    if known.values.get(name) == value:
        path.chmod(0o600)
        return False
    lines = path.read_text(encoding="utf-8-sig").splitlines() if path.exists() else []
    line = f"{name}={_quote_value(value)}"
    if name in known.lines:
        lines[known.lines[name] - 1] = line
    else:
        lines.append(line)
    write_atomically(path, "\n".join(lines) + "\n", mode=0o600)
    return True


def _quote_value(value: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9_.:/+=-]*", value):
        return value
    escaped = re.sub(r'(["\\$])', r"\\\1", value)
    return f'"{escaped}"' if "'" in value else f"'{value}'"
