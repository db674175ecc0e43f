"""Markdown within a paragraph: the spans that a cut should not, or must not, go through."""

import re
from collections.abc import Iterator

import msgspec

# What comes first wins: nothing is a mark within code, and a link's address holds no emphasis.
_SPAN = re.compile(
    r"\\."
    r"|(?P<ticks>`+)(?!`)(?:.+?)(?<!`)(?P=ticks)(?!`)"
    r"|(?P<solid>!?\[[^\[\]]*\]\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*\)|<[^<>\s]+>|https?://\S+)"
    r"|(?P<marks>\*\*\*|\*\*|__|~~|\*|_)(?=\S)(?P<inner>.+?)(?<=\S)(?P=marks)(?![*_~]|(?<=_)\w)",
    re.DOTALL,
)


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """From where to where it goes; `marks` closes and opens it again, "" where nothing can."""

    start: int
    end: int
    marks: str


def spans(paragraph: str, *, offset: int = 0) -> Iterator[Span]:
    """Every span, an outer one before those within it. Nearly what a Markdown parser finds: where
    the two differ, a mark is seen that was meant as none, and no word is lost."""
    for found in _SPAN.finditer(paragraph):
        if found["inner"] is not None:
            yield _span(found, found["marks"], offset)
            yield from spans(found["inner"], offset=offset + found.start("inner"))
        elif found["ticks"] is not None:
            yield _span(found, found["ticks"], offset)
        elif found["solid"] is not None:
            yield _span(found, "", offset)


def _span(found: re.Match[str], marks: str, offset: int) -> Span:
    return Span(start=found.start() + offset, end=found.end() + offset, marks=marks)
