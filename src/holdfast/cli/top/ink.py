"""Ink: lines of a screen in pieces, each with what it is meant to say by its colour."""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from holdfast.cli.common.columns import clipped, width


class Ink(StrEnum):
    """What a piece is; the value is what a terminal is told (SGR)."""

    PLAIN = ""
    FAINT = "2"
    STRONG = "1"
    GOOD = "32"
    WARNING = "33"
    BAD = "31"
    CHOSEN = "7"


class Piece(NamedTuple):
    text: str
    ink: Ink = Ink.PLAIN


Line = tuple[Piece, ...]

EMPTY: Line = ()


def line(text: str, ink: Ink = Ink.PLAIN) -> Line:
    return (Piece(text, ink),)


def length(pieces: Iterable[Piece]) -> int:
    return sum(width(piece.text) for piece in pieces)


def fitted(pieces: Line, room: int) -> Line:
    """As much of a line as there is room for; what was cut ends in a mark."""
    if length(pieces) <= room:
        return pieces
    kept: list[Piece] = []
    for piece in pieces:
        left = room - length(kept)
        if width(piece.text) > left:
            kept.append(Piece(clipped(piece.text, left), piece.ink))
            break
        kept.append(piece)
    return tuple(kept)


def apart(left: Line, right: Line, room: int) -> Line:
    """One at each end of a line; where there is no room for both, the right one stays whole."""
    left = fitted(left, max(0, room - length(right) - 1))
    return (*left, Piece(" " * max(1, room - length(left) - length(right))), *right)


def painted(pieces: Line, *, coloured: bool) -> str:
    """What is written for a line. One that is chosen is shown so without colours too: else nobody
    would see where they are."""
    return "".join(_painted(piece, coloured=coloured) for piece in pieces)


def _painted(piece: Piece, *, coloured: bool) -> str:
    if not piece.ink or not (coloured or piece.ink is Ink.CHOSEN):
        return piece.text
    return f"\x1b[{piece.ink}m{piece.text}\x1b[0m"
