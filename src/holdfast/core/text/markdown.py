"""A small Markdown scanner: the blocks open at each line, and the spans in a paragraph."""

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
    reopen: str = ""  # the lines that reopen the fence or the table
    indent: int = 0  # columns by which the line is indented because of its list
    fence: bool = False


class MarkdownLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line: its position, its text, and the blocks that are open before it."""

    at: int
    text: str
    open: OpenBlock
    starts_block: bool  # a block begins here


def scan_lines(text: str) -> Iterator[MarkdownLine]:
    at, lines = 0, _LineScanner()
    for line in text.splitlines(keepends=True):
        yield lines.scan(at, line.rstrip("\r\n"))
        at += len(line)


def quote_prefix(line: str) -> str:
    """The quote marks at the beginning of a line."""
    found = _QUOTE.match(line)
    return found[0] if found else ""


class _LineScanner:
    """Owns the open blocks while a text is read line by line."""

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


# The first match wins: nothing is a mark within code, and a link's address contains no emphasis.
_TOKEN = re.compile(
    r"\\."
    r"|(?P<ticks>`+)"
    r"|(?P<solid>!?\[[^\[\]]*\]\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*+\)|<[^<>\s]+>|https?://\S+)"
    r"|(?P<marks>\*+|_+|~~)",
    re.DOTALL,
)
_TICKS = re.compile("`+")


class MarkdownSpan(msgspec.Struct, frozen=True, kw_only=True):
    """The start and end of a span; `marks` closes and reopens it, "" if it cannot be split."""

    start: int
    end: int
    marks: str


def scan_spans(paragraph: str, *, offset: int = 0) -> list[MarkdownSpan]:
    """Every span, an outer one before those within it. Nearly what a Markdown parser finds: where
    the two differ, plain text is taken for a mark, and no word is lost. The time grows linearly
    with the text, even if the text is written to slow it down."""
    found = list(_SpanScanner(paragraph).scan(offset))
    return sorted(found, key=lambda span: (span.start, -span.end))


class _Opener(msgspec.Struct, frozen=True, kw_only=True):
    at: int
    marks: str


class _SpanScanner:
    """Owns the open marks while a paragraph is read."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._open: list[_Opener] = []
        self._ticks: dict[int, list[int]] = {}  # where runs of that length begin, last first
        for run in reversed(list(_TICKS.finditer(text))):
            self._ticks.setdefault(len(run[0]), []).append(run.start())

    def scan(self, offset: int) -> Iterator[MarkdownSpan]:
        at = 0
        while (token := _TOKEN.search(self._text, at)) is not None:
            at = token.end()
            if token["ticks"] is not None:
                at = self._code_end(token) or at
                if at > token.end():
                    yield _shifted_span(token.start(), at, token["ticks"], offset)
            elif token["solid"] is not None:
                yield _shifted_span(token.start(), at, "", offset)
            elif token["marks"] is not None:
                yield from self._emphasis(token, offset)

    def _code_end(self, token: re.Match[str]) -> int | None:
        """The end of the next run with the same number of ticks."""
        runs = self._ticks.get(len(token[0]), [])  # an escaped tick makes a run shorter
        while runs and runs[-1] < token.end():
            runs.pop()
        return runs[-1] + len(token[0]) if runs else None

    def _emphasis(self, token: re.Match[str], offset: int) -> Iterator[MarkdownSpan]:
        start, end = token.span()
        before, behind = self._text[start - 1 : start] or " ", self._text[end : end + 1] or " "
        within_word = token[0][0] == "_" and before.isalnum() and behind.isalnum()
        if within_word or end - start > 3:
            return
        while not before.isspace() and start < end and self._closes(token[0][0], end - start):
            opener = self._open.pop()
            start += len(opener.marks)
            yield _shifted_span(opener.at, start, opener.marks, offset)
        if start < end and not behind.isspace():
            self._open.append(_Opener(at=start, marks=self._text[start:end]))

    def _closes(self, mark: str, most: int) -> bool:
        """Whether the innermost open mark can be closed by that many of its character."""
        marks = self._open[-1].marks if self._open else ""
        return marks[:1] == mark and len(marks) <= most


def _shifted_span(start: int, end: int, marks: str, offset: int) -> MarkdownSpan:
    return MarkdownSpan(start=start + offset, end=end + offset, marks=marks)
