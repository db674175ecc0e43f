"""Markdown by its lines: which fence, table, list or quote is open where a line begins."""

import re
from collections.abc import Iterator

import msgspec

_FENCE = re.compile(r"(?P<lead>(?:[ >]|(?:[-*+]|\d{1,9}[.)])(?= ))*+)(?P<marks>`{3,}|~{3,})(.*)")
_ITEM = re.compile(r" *(?:[-*+]|\d{1,9}[.)])(?: +|$)")
_QUOTE = re.compile(r" {0,3}(?:> ?)+")
_RULE_OF_TABLE = re.compile(r"\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*")
_LANGUAGE = re.compile(r"[^\s`{]{1,32}")


class Open(msgspec.Struct, frozen=True, kw_only=True):
    """What a text that is cut before a line must close, and what the rest must begin with."""

    close: str = ""  # the line that ends an open fence
    again: str = ""  # the lines that open the fence or the table anew
    indent: int = 0  # columns that the line stands to the right because of the list it is in
    fence: bool = False


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A line: where it begins, what it says, and what is open before it."""

    at: int
    text: str
    open: Open
    fresh: bool  # a block begins here: a reader would pause before it


def rows(text: str) -> Iterator[Row]:
    at, lines = 0, _Lines()
    for line in text.splitlines(keepends=True):
        yield lines.take(at, line.rstrip("\r\n"))
        at += len(line)


def quote_of(line: str) -> str:
    """The marks of the quote that a line stands in."""
    found = _QUOTE.match(line)
    return found[0] if found else ""


class _Lines:
    """Owns what is open while a text is read downwards."""

    def __init__(self) -> None:
        self._fence: Open | None = None
        self._marks = ""
        self._table = ""
        self._before = ""
        self._indents: list[int] = []

    def take(self, at: int, line: str) -> Row:
        opening = None if self._fence else _FENCE.fullmatch(line)
        fresh = self._fence is None and (not self._before.strip() or opening is not None)
        row = Row(at=at, text=line, open=self._open(line), fresh=fresh)
        if self._fence is not None:
            self._in_fence(line)
        elif opening and not (opening["marks"][0] == "`" and "`" in opening[3]):
            self._fenced(opening)
        else:
            self._plain(line)
        self._before = line
        return row

    def _open(self, line: str) -> Open:
        if self._fence is not None:
            return self._fence
        indent = _indent(line)
        in_list = bool(self._indents) and indent >= self._indents[0]
        return Open(again=self._table, indent=indent if in_list else 0)

    def _fenced(self, opening: re.Match[str]) -> None:
        lead, self._marks, self._table = opening["lead"], opening["marks"], ""
        quote = quote_of(lead)
        indent = 0 if quote else len(lead)
        language = _LANGUAGE.match(opening[3].strip())
        self._fence = Open(
            close=quote + " " * indent + self._marks,
            again=quote + self._marks + (language[0] if language else "") + "\n",
            indent=indent,
            fence=True,
        )

    def _in_fence(self, line: str) -> None:
        rest = line.lstrip(" >")
        if rest.startswith(self._marks) and not rest.strip().strip(self._marks[0]):
            self._fence = None

    def _plain(self, line: str) -> None:
        if not line.strip():
            self._table = ""
            return
        if "|" in line and "|" in self._before and _RULE_OF_TABLE.fullmatch(line):
            self._table = f"{self._before}\n{line}\n"
        while self._indents and _indent(line) < self._indents[-1]:
            self._indents.pop()
        if item := _ITEM.match(line):
            self._indents.append(item.end())


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
