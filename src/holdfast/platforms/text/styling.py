"""Styling: the spans of a line as runs that marks can be set around."""

from collections.abc import Iterator, Sequence

import msgspec

from holdfast.platforms.text.flow import TextSpan
from holdfast.platforms.text.tree import Emphasis


class StyledRun(msgspec.Struct, frozen=True, kw_only=True):
    """Words of one style. The space around them stays outside of their marks: no dialect reads a
    mark that has space on its inner side."""

    span: TextSpan
    space_before: str
    text: str
    space_after: str


def styled_runs(spans: Sequence[TextSpan], *, bold: bool = False) -> Iterator[StyledRun]:
    """Neighbours of the same style are one run. `bold`: all of them are."""
    for span in _merge_spans(_as_bold(span) if bold else span for span in spans):
        text = span.text.strip()
        if not text:
            yield StyledRun(span=TextSpan(text=""), space_before=span.text, text="", space_after="")
            continue
        at = span.text.index(text)
        yield StyledRun(
            span=span,
            space_before=span.text[:at],
            text=text,
            space_after=span.text[at + len(text) :],
        )


def _as_bold(span: TextSpan) -> TextSpan:
    return msgspec.structs.replace(span, styles=span.styles | {Emphasis.BOLD})


def _merge_spans(spans: Iterator[TextSpan]) -> Iterator[TextSpan]:
    last: TextSpan | None = None
    for span in spans:
        if last is not None and _same_style(last, span):
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


def _same_style(one: TextSpan, other: TextSpan) -> bool:
    if one.href or other.href:
        return one.href == other.href
    return one.styles == other.styles and not one.code and not other.code
