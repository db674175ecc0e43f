"""Columns: how much room a text takes on a terminal, and as much of one as there is room for."""

import unicodedata


def width(text: str) -> int:
    """How many columns a terminal gives to a text."""
    if text.isascii():
        return len(text)
    return sum(_columns(character) for character in text)


def clipped(text: str, room: int) -> str:
    """The text, or its beginning and a mark that there was more."""
    if width(text) <= room:
        return text
    kept, left = [], room - 1
    for character in text:
        left -= _columns(character)
        if left < 0:
            break
        kept.append(character)
    return "".join(kept) + "…" if room > 0 else ""


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("F", "W") else 1
