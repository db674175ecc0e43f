"""Markdown by its lines: which fence, table, list or quote is open where a line begins."""

import re
from collections.abc import Iterator

import msgspec

_FENCE = re.compile(r"(?P<lead>(?:[ >]|(?:[-*+]|\d{1,9}[.)])(?= ))*+)(?P<marks>`{3,}|~{3,})(.*)")
_ITEM = re.compile(r" *(?:[-*+]|\d{1,9}[.)])(?: +|$)")
_QUOTE = re.compile(r" {0,3}(?:> ?)+")
_TABLE_RULE = re.compile(r"\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*")
_LANGUAGE = re.compile(r"[^\s`{]{1,32}")


class OpenBlock(msgspec.Struct, frozen=True, kw_only=True):
    """What a text that is cut before a line must close, and what the rest must begin with."""

    close: str = ""  # the line that ends an open fence
    reopen: str = ""  # the lines that open the fence or the table anew
    indent: int = 0  # columns that the line stands to the right because of the list it is in
    fence: bool = False


class MarkdownLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line: where it begins, what it says, and what is open before it."""

    at: int
    text: str
    open: OpenBlock
    starts_block: bool  # a block begins here: a reader would pause before it


def scan_lines(text: str) -> Iterator[MarkdownLine]:
    at, lines = 0, _LineScanner()
    for line in text.splitlines(keepends=True):
        yield lines.scan(at, line.rstrip("\r\n"))
        at += len(line)


def quote_prefix(line: str) -> str:
    """The marks of the quote that a line stands in."""
    found = _QUOTE.match(line)
    return found[0] if found else ""


class _LineScanner:
    """Owns what is open while a text is read downwards."""

    def __init__(self) -> None:
        self._fence: OpenBlock | None = None
        self._marks = ""
        self._table = ""
        self._previous = ""
        self._indents: list[int] = []

    def scan(self, at: int, line: str) -> MarkdownLine:
        opening = None if self._fence else _FENCE.fullmatch(line)
        fresh = self._fence is None and (not self._previous.strip() or opening is not None)
        row = MarkdownLine(at=at, text=line, open=self._open_block(line), starts_block=fresh)
        if self._fence is not None:
            self._continue_fence(line)
        elif opening and not (opening["marks"][0] == "`" and "`" in opening[3]):
            self._start_fence(opening)
        else:
            self._continue_text(line)
        self._previous = line
        return row

    def _open_block(self, line: str) -> OpenBlock:
        if self._fence is not None:
            return self._fence
        indent = _indent(line)
        in_list = bool(self._indents) and indent >= self._indents[0]
        return OpenBlock(reopen=self._table, indent=indent if in_list else 0)

    def _start_fence(self, opening: re.Match[str]) -> None:
        lead, self._marks, self._table = opening["lead"], opening["marks"], ""
        quote = quote_prefix(lead)
        indent = 0 if quote else len(lead)
        language = _LANGUAGE.match(opening[3].strip())
        self._fence = OpenBlock(
            close=quote + " " * indent + self._marks,
            reopen=quote + self._marks + (language[0] if language else "") + "\n",
            indent=indent,
            fence=True,
        )

    def _continue_fence(self, line: str) -> None:
        rest = line.lstrip(" >")
        if rest.startswith(self._marks) and not rest.strip().strip(self._marks[0]):
            self._fence = None

    def _continue_text(self, line: str) -> None:
        if not line.strip():
            self._table = ""
            return
        if "|" in line and "|" in self._previous and _TABLE_RULE.fullmatch(line):
            self._table = f"{self._previous}\n{line}\n"
        while self._indents and _indent(line) < self._indents[-1]:
            self._indents.pop()
        if item := _ITEM.match(line):
            self._indents.append(item.end())


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
