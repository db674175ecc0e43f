"""Graphemes: where a text may be cut without taking apart what a reader sees as one sign."""

import unicodedata

_JOINER = "\u200d"
_EXTENDING = frozenset(("Mn", "Me", "Mc"))  # accents, vowel signs, variation selectors


def grapheme_boundary(text: str, at: int, *, after: int = 0) -> int:
    """The last place at or before `at`, and behind `after`, at which no sign is cut through.
    One that is longer than all of that is cut at `at`: somewhere it must be."""
    place = at
    while place > after and _is_one_grapheme(text, place):
        place -= 1
    return place if place > after else at


def _is_one_grapheme(text: str, at: int) -> bool:
    """Whether the characters before and behind a place are one sign: the rules of Unicode's
    Annex 29 as far as they need no table of their own."""
    if not 0 < at < len(text):
        return False
    before, behind = text[at - 1], text[at]
    if behind < "\u0300":
        return before == "\r" and behind == "\n"
    if _is_extending(behind) or (before == _JOINER and not behind.isspace()):
        return True
    if _is_flag_letter(behind):
        return _count_flag_letters(text, at) % 2 == 1
    return _is_surrogate_pair(before, behind) or _is_hangul_syllable(ord(before), ord(behind))


def _is_extending(char: str) -> bool:
    code = ord(char)
    return (
        unicodedata.category(char) in _EXTENDING
        or char in (_JOINER, "\u200c")
        or 0x1F3FB <= code <= 0x1F3FF  # the colours of skin
        or 0xE0020 <= code <= 0xE007F  # the letters of a region's flag
    )


def _is_flag_letter(char: str) -> bool:
    return 0x1F1E6 <= ord(char) <= 0x1F1FF


def _count_flag_letters(text: str, at: int) -> int:
    """Two letters are a flag, so it matters how many stand before."""
    count = 0
    while at > 0 and _is_flag_letter(text[at - 1]):
        count, at = count + 1, at - 1
    return count


def _is_surrogate_pair(before: str, behind: str) -> bool:
    """Half a character each, as a broken stream may bring them."""
    return "\ud800" <= before <= "\udbff" and "\udc00" <= behind <= "\udfff"


def _is_hangul_syllable(before: int, behind: int) -> bool:
    """Hangul that is spelt in letters: first, vowel, last."""
    vowel = 0x1160 <= behind <= 0x11A7
    last = 0x11A8 <= behind <= 0x11FF
    if 0x1100 <= before <= 0x115F:
        return vowel or 0x1100 <= behind <= 0x115F or 0xAC00 <= behind <= 0xD7A3
    if 0xAC00 <= before <= 0xD7A3:
        open_ended = (before - 0xAC00) % 28 == 0
        return last or (vowel and open_ended)
    if 0x1160 <= before <= 0x11A7:
        return vowel or last
    return last and 0x11A8 <= before <= 0x11FF
