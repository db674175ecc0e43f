"""Changing a few keys of one table in a TOML file, and nothing else in it."""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence

from holdfast.core.errors import HoldfastError

_HEADER = re.compile(r"\s*\[")
_STRING = r"\"(?:[^\"\\]|\\.)*\"|'[^']*'"
_LIST = rf"\[(?:{_STRING}|[^#\"'\[\]{{}}])*\]"  # on one line, and of no tables or lists
_ENTRY = re.compile(
    rf"(\s*)([A-Za-z0-9_-]+)(\s*=\s*)({_STRING}|{_LIST}|[^#\"'\[{{]*?)(\s*(?:#.*)?)$"
)

Value = str | bool | int | float | Sequence[str]


class CannotPatch(HoldfastError):
    """The file is written in a way that this cannot change safely."""


def patch_table(text: str, table: str, values: Mapping[str, Value | None]) -> str:
    """The text with these keys of `[table]` set, or taken out where the value is None.

    Comments, order and every other key stay as they are. What comes out is parsed, and must say
    exactly what was asked for: else `CannotPatch` is raised and the file is for a person to edit.
    """
    lines = text.removesuffix("\n").split("\n") if text else []
    start, end = _section(lines, table)
    if start < 0:
        lines += ([""] if lines and lines[-1].strip() else []) + [f"[{table}]"]
        start = end = len(lines)
    body, left = _changed(lines[start:end], dict(values))
    place = _last_entry(body)
    body[place:place] = [
        f"{key} = {_written(value)}" for key, value in left.items() if value is not None
    ]
    patched = "\n".join([*lines[:start], *body, *lines[end:]]) + "\n"
    _verify(text, patched, table, values)
    return patched


def _section(lines: list[str], table: str) -> tuple[int, int]:
    """The lines between the table's header and the next one; (-1, -1): there is none."""
    header = re.compile(rf"\s*\[\s*{re.escape(table)}\s*\]\s*(#.*)?")
    for number, line in enumerate(lines):
        if header.fullmatch(line):
            following = range(number + 1, len(lines))
            end = next((at for at in following if _HEADER.match(lines[at])), len(lines))
            return number + 1, end
    return -1, -1


def _changed(
    body: list[str], values: dict[str, Value | None]
) -> tuple[list[str], dict[str, Value | None]]:
    """The table's lines with the keys changed that are there; and the values that are not."""
    changed = []
    for line in body:
        entry = _ENTRY.fullmatch(line)
        if entry is None or entry[2] not in values:
            changed.append(line)
            continue
        value = values.pop(entry[2])
        if value is not None:
            changed.append(f"{entry[1]}{entry[2]}{entry[3]}{_written(value)}{entry[5]}")
    return changed, values


def _last_entry(body: list[str]) -> int:
    """Where a new key goes: after the last line that says something."""
    said = [at for at, line in enumerate(body) if line.strip()]
    return said[-1] + 1 if said else 0


def _written(value: Value) -> str:
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    return f"[{', '.join(map(_quoted, value))}]"


def _quoted(value: str) -> str:
    """A basic string; what JSON escapes, TOML escapes alike, and one character more."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _verify(before: str, after: str, table: str, values: Mapping[str, Value | None]) -> None:
    try:
        wanted = tomllib.loads(before)
        *outer, name = table.split(".")
        around = wanted
        for each in outer:
            around = around.setdefault(each, {})
        section = {**around.get(name, {}), **values}
        around[name] = {key: value for key, value in section.items() if value is not None}
        right = tomllib.loads(after) == wanted
    except (tomllib.TOMLDecodeError, TypeError, ValueError, AttributeError):
        right = False
    if not right:
        raise CannotPatch(f"[{table}] is written in a way that cannot be changed safely")
