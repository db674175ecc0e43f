"""The `.env` file in the home: variables that are read, and exported to nobody."""

import re
from pathlib import Path

import msgspec

from holdfast.config.document import read_text
from holdfast.config.errors import ConfigError, config_error

_ASSIGNMENT = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "$": "$"}


class DotEnv(msgspec.Struct, frozen=True, kw_only=True):
    """What the file says: each variable, and the line it stands on."""

    path: Path
    values: dict[str, str] = msgspec.field(default_factory=dict)
    lines: dict[str, int] = msgspec.field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def read_dotenv(path: Path) -> DotEnv:
    text = read_text(path)
    if text is None:
        return DotEnv(path=path)
    env = DotEnv(path=path, warnings=tuple(mode_warnings(path, "holds secrets")))
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        match = _ASSIGNMENT.fullmatch(stripped)
        if match is None:
            raise _line_error(path, number, "this line is not NAME=value")
        env.values[match[1]] = _parse_dotenv_value(match[2], path, number)
        env.lines[match[1]] = number
    return env


def mode_warnings(path: Path, what: str) -> list[str]:
    try:
        mode = path.stat().st_mode & 0o777
    except OSError:  # it was taken away just now: there is nothing to warn of
        return []
    if mode & 0o077:
        return [f"{path} {what} and is open to other users (mode {mode:04o}): chmod 600 {path}"]
    return []


def _parse_dotenv_value(raw: str, path: Path, number: int) -> str:
    if raw[:1] not in ("'", '"'):
        return re.split(r"\s+#", raw, maxsplit=1)[0].strip()
    pattern = r"'([^']*)'" if raw[0] == "'" else r'"((?:[^"\\]|\\.)*)"'
    match = re.match(pattern + r"\s*(?:#.*)?$", raw)
    if match is None:
        raise _line_error(path, number, "its quotes do not end where the value does")
    if raw[0] == "'":
        return match[1]
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[0]), match[1])


def _line_error(path: Path, number: int, problem: str) -> ConfigError:
    # The line itself is not shown: it may hold a secret.
    return config_error(
        f"{path}, line {number}",
        problem,
        allowed="NAME=value, NAME='value', NAME=\"value\", export NAME=value, # a comment",
    )
