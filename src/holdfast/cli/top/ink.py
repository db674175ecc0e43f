"""Ink: lines of a screen in pieces, each with what it is meant to say by its colour."""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from holdfast.cli.common.columns import display_width, truncate


class TerminalStyle(StrEnum):
    """What a piece is; the value is what a terminal is told (SGR)."""

    PLAIN = ""
    DIM = "2"
    BOLD = "1"
    GOOD = "32"
    WARNING = "33"
    BAD = "31"
    SELECTED = "7"


class TerminalSpan(NamedTuple):
    text: str
    style: TerminalStyle = TerminalStyle.PLAIN


TerminalLine = tuple[TerminalSpan, ...]

EMPTY_LINE: TerminalLine = ()


def terminal_line(text: str, style: TerminalStyle = TerminalStyle.PLAIN) -> TerminalLine:
    return (TerminalSpan(text, style),)


def line_width(line: Iterable[TerminalSpan]) -> int:
    return sum(display_width(piece.text) for piece in line)


def truncate_line(line: TerminalLine, columns: int) -> TerminalLine:
    """As much of a line as there is room for; what was cut ends in a mark."""
    if line_width(line) <= columns:
        return line
    kept: list[TerminalSpan] = []
    for piece in line:
        left = columns - line_width(kept)
        if display_width(piece.text) > left:
            kept.append(TerminalSpan(truncate(piece.text, left), piece.style))
            break
        kept.append(piece)
    return tuple(kept)


def justify(left: TerminalLine, right: TerminalLine, columns: int) -> TerminalLine:
    """One at each end of a line; where there is no room for both, the right one stays whole."""
    left = truncate_line(left, max(0, columns - line_width(right) - 1))
    return (
        *left,
        TerminalSpan(" " * max(1, columns - line_width(left) - line_width(right))),
        *right,
    )


def to_ansi(line: TerminalLine, *, coloured: bool) -> str:
    """What is written for a line. One that is chosen is shown so without colours too: else nobody
    would see where they are."""
    return "".join(_text_to_ansi(piece, coloured=coloured) for piece in line)


def _text_to_ansi(piece: TerminalSpan, *, coloured: bool) -> str:
    if not piece.style or not (coloured or piece.style is TerminalStyle.SELECTED):
        return piece.text
    return f"\x1b[{piece.style}m{piece.text}\x1b[0m"
