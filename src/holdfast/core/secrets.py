"""Secret values that are never shown by accident, and passwords inside URLs."""

import hmac
import math
import re
from collections.abc import Iterator
from typing import final


@final
class Secret:
    """Holds a value that `repr`, `str` and logs do not show; only `reveal` returns it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def matches(self, given: str) -> bool:
        """Whether that is the value. The comparison takes the same time in either case."""
        # Input from the network may contain bytes that are not text; they match nothing.
        value = given.encode("utf-8", "surrogateescape")
        return hmac.compare_digest(value, self._value.encode())

    def __repr__(self) -> str:
        return "Secret(***)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)


MIN_SECRET_BITS = 128
_CHARACTER_CLASSES = (
    ("0123456789", 10),
    ("abcdefghijklmnopqrstuvwxyz", 26),
    ("ABCDEFGHIJKLMNOPQRSTUVWXYZ", 26),
)
_HEX = frozenset("0123456789abcdef")
_MAX_REPEATS = 4  # how often a character counts; a random secret repeats few of them as often


def max_entropy_bits(value: str) -> float:
    """The most entropy that such a value can have, from its length and its kinds of characters. A
    sentence has less; what is below a limit here certainly is."""
    characters = set(value)
    if characters <= _HEX and not value.isdecimal():
        size = len(_HEX)
    else:
        sizes = [size for known, size in _CHARACTER_CLASSES if characters & set(known)]
        plain = set("".join(known for known, _ in _CHARACTER_CLASSES))
        size = sum(sizes) + (33 if characters - plain else 0)
    return min(len(value), _MAX_REPEATS * len(characters)) * math.log2(max(size, 2))


PASSWORD_MASK = "***"
# The lookbehind prevents that a long word without a URL is tried at each letter.
_URL_WITH_PASSWORD = re.compile(
    r"""(?<![\w+.-])(?P<user>[A-Za-z][\w+.-]*://[^\s/?#@:"']*):(?P<password>[^\s/?#"']+)@"""
)


def mask_passwords(text: str) -> str:
    """The text with the password of each URL in it masked."""
    if "://" not in text:
        return text
    return _URL_WITH_PASSWORD.sub(rf"\g<user>:{PASSWORD_MASK}@", text)


def find_passwords(text: str) -> Iterator[str]:
    """The passwords as they are written in the text. A mask is no password."""
    for found in _URL_WITH_PASSWORD.finditer(text):
        if found["password"] != PASSWORD_MASK:
            yield found["password"]


def has_masked_password(text: str) -> bool:
    """Whether the text contains a URL that was copied with its password masked."""
    return any(found["password"] == PASSWORD_MASK for found in _URL_WITH_PASSWORD.finditer(text))
