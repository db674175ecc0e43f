"""Tables: cells set below each other, where every sign is as wide as the next."""

import unicodedata
from collections.abc import Sequence

_WIDE_CLASSES = frozenset("WF")


def draw_table(rows: Sequence[Sequence[str]]) -> str:
    """The rows as lines, with a line under the first."""
    count = max((len(row) for row in rows), default=0)
    widths = [
        max((display_width(row[n]) for row in rows if n < len(row)), default=0)
        for n in range(count)
    ]
    lines = [_draw_row(row, widths) for row in rows]
    lines.insert(1, "─┼─".join("─" * each for each in widths))
    return "\n".join(lines)


def display_width(text: str) -> int:
    """Columns that it takes in a terminal; nearly those of a chat's code font."""
    if text.isascii():
        return len(text)
    return sum(_character_width(sign) for sign in text)


def _character_width(character: str) -> int:
    if unicodedata.combining(character) or character in "\u200b\u200c\u200d\ufe0f":
        return 0
    return 2 if unicodedata.east_asian_width(character) in _WIDE_CLASSES else 1


def _draw_row(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [
        cell + " " * (wide - display_width(cell)) for cell, wide in zip(row, widths, strict=False)
    ]
    return " │ ".join(cells).rstrip()
