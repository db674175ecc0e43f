"""Secret values that are never shown by accident, and passwords inside URLs."""

import hmac
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
