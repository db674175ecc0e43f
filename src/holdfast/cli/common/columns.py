"""Columns: how much room a text takes on a terminal, and as much of one as there is room for."""

import unicodedata


def display_width(text: str) -> int:
    """How many columns a terminal gives to a text."""
    if text.isascii():
        return len(text)
    return sum(_char_width(character) for character in text)


def truncate(text: str, columns: int) -> str:
    """The text, or its beginning and a mark that there was more."""
    if display_width(text) <= columns:
        return text
    kept, left = [], columns - 1
    for character in text:
        left -= _char_width(character)
        if left < 0:
            break
        kept.append(character)
    return "".join(kept) + "…" if columns > 0 else ""


def _char_width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("F", "W") else 1
