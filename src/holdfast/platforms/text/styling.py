"""Styling: the spans of a line as runs that marks can be set around."""

from collections.abc import Iterator, Sequence

import msgspec

from holdfast.platforms.text.flow import Span
from holdfast.platforms.text.tree import Style


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """Words of one style. The space around them stays outside of their marks: no dialect reads a
    mark that has space on its inner side."""

    span: Span
    ahead: str
    text: str
    behind: str


def runs(spans: Sequence[Span], *, bold: bool = False) -> Iterator[Run]:
    """Neighbours of the same style are one run. `bold`: all of them are."""
    for span in _merged(_bold(span) if bold else span for span in spans):
        text = span.text.strip()
        if not text:
            yield Run(span=Span(text=""), ahead=span.text, text="", behind="")
            continue
        at = span.text.index(text)
        yield Run(span=span, ahead=span.text[:at], text=text, behind=span.text[at + len(text) :])


def _bold(span: Span) -> Span:
    return msgspec.structs.replace(span, styles=span.styles | {Style.BOLD})


def _merged(spans: Iterator[Span]) -> Iterator[Span]:
    last: Span | None = None
    for span in spans:
        if last is not None and _alike(last, span):
            both = last.styles & span.styles  # a link is one run, whatever its words look like
            last = msgspec.structs.replace(
                last, text=last.text + span.text, styles=both, code=last.code and span.code
            )
            continue
        if last is not None:
            yield last
        last = span
    if last is not None:
        yield last


def _alike(one: Span, other: Span) -> bool:
    if one.href or other.href:
        return one.href == other.href
    return one.styles == other.styles and not one.code and not other.code
