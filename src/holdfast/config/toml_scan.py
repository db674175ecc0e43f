"""Where things stand in a TOML text: each table header and each key, with the span of its value."""

import re
import tomllib
from collections.abc import Iterator
from typing import NamedTuple

TomlPath = tuple[str, ...]

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_PART = re.compile(
    r"""[ \t]*(?:(?P<bare>[A-Za-z0-9_-]+)|(?P<quoted>"(?:[^"\\\n]|\\.)*"|'[^'\n]*'))[ \t]*"""
)
# A string is one token whatever is in it: what looks like a bracket or a comment there is none.
_TOKEN = re.compile(
    r'''"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*\''''
    r"|#[^\n]*|(?P<opens>[\[{])|(?P<closes>[\]}])|[^\[\]{}\"'#]+",
    re.DOTALL,
)
_SCALAR = re.compile(r"[^#\n]*")


class TomlHeader(NamedTuple):
    """`[path]`, or `[[path]]`, from the beginning of its line to the beginning of the next."""

    path: TomlPath
    start: int
    end: int
    array: bool


class TomlEntry(NamedTuple):
    """`key = value`: its whole path, the table it stands in, its lines, and its value's place."""

    path: TomlPath
    table: TomlPath
    start: int
    end: int
    value: slice


def scan_toml(text: str) -> list[TomlHeader | TomlEntry]:
    """In the order in which they stand there. To be called with what is TOML."""
    return list(_scan_items(text))


def _scan_items(text: str) -> Iterator[TomlHeader | TomlEntry]:
    table: TomlPath = ()
    at = _skip_blank(text, 0)
    while at < len(text):
        start = text.rfind("\n", 0, at) + 1
        if text[at] == "[":
            array = text[at + 1] == "["
            table, at = read_path(text, at + 1 + array)
            end = _line_end(text, at)
            yield TomlHeader(table, start, end, array)
        else:
            path, at = read_path(text, at)
            value = _value_span(text, at + 1)
            end = _line_end(text, value.stop)
            yield TomlEntry((*table, *path), table, start, end, value)
        at = _skip_blank(text, end)


def read_path(text: str, at: int) -> tuple[TomlPath, int]:
    """The parts of a dotted key, and what comes after it. Raises `ValueError` for none."""
    parts: list[str] = []
    while part := _PART.match(text, at):
        parts.append(part["bare"] or tomllib.loads(f"k = {part['quoted']}")["k"])
        at = part.end()
        if text[at : at + 1] != ".":
            return tuple(parts), at
        at += 1
    raise ValueError(f"no key begins with {text[at : at + 20]!r}")


def _value_span(text: str, at: int) -> slice:
    at += len(text[at:]) - len(text[at:].lstrip(" \t"))
    if text[at] in "[{":
        return slice(at, _closing_bracket(text, at))
    if text[at] in "\"'":
        string = _TOKEN.match(text, at)
        assert string is not None, "a string of TOML ends"
        return slice(at, string.end())
    scalar = _SCALAR.match(text, at)
    assert scalar is not None, "it matches nothing, too"
    return slice(at, at + len(scalar[0].rstrip()))


def _closing_bracket(text: str, at: int) -> int:
    """Where the brackets that open there are closed."""
    depth = 0
    for token in _TOKEN.finditer(text, at):
        depth += bool(token["opens"]) - bool(token["closes"])
        if depth == 0:
            return token.end()
    raise ValueError("a bracket is not closed")


def _skip_blank(text: str, at: int) -> int:
    blank = _BLANK.match(text, at)
    assert blank is not None, "it matches nothing, too"
    return blank.end()


def _line_end(text: str, at: int) -> int:
    newline = text.find("\n", at)
    return len(text) if newline < 0 else newline + 1
