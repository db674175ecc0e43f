"""Markdown within a paragraph: the spans that a cut should not, or must not, go through."""

import re
from collections.abc import Iterator

import msgspec

# What comes first wins: nothing is a mark within code, and a link's address holds no emphasis.
_TOKEN = re.compile(
    r"\\."
    r"|(?P<ticks>`+)"
    r"|(?P<solid>!?\[[^\[\]]*\]\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*+\)|<[^<>\s]+>|https?://\S+)"
    r"|(?P<marks>\*+|_+|~~)",
    re.DOTALL,
)
_TICKS = re.compile("`+")


class MarkdownSpan(msgspec.Struct, frozen=True, kw_only=True):
    """From where to where it goes; `marks` closes and opens it again, "" where nothing can."""

    start: int
    end: int
    marks: str


def scan_spans(paragraph: str, *, offset: int = 0) -> list[MarkdownSpan]:
    """Every span, an outer one before those within it. Nearly what a Markdown parser finds: where
    the two differ, a mark is seen that was meant as none, and no word is lost. The time it takes
    grows with the text and no faster: whoever writes it may mean harm."""
    found = list(_SpanScanner(paragraph).scan(offset))
    return sorted(found, key=lambda span: (span.start, -span.end))


class _Opener(msgspec.Struct, frozen=True, kw_only=True):
    at: int
    marks: str


class _SpanScanner:
    """Owns the marks that are open while a paragraph is read."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._open: list[_Opener] = []
        self._ticks: dict[int, list[int]] = {}  # where runs of so many begin, the last first
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
        """Behind the next run of as many ticks."""
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

    def _closes(self, sign: str, most: int) -> bool:
        """Whether the innermost that is open can be closed with so many of that sign."""
        marks = self._open[-1].marks if self._open else ""
        return marks[:1] == sign and len(marks) <= most


def _shifted_span(start: int, end: int, marks: str, offset: int) -> MarkdownSpan:
    return MarkdownSpan(start=start + offset, end=end + offset, marks=marks)
