"""A secret: a value that is never shown by accident."""

import hmac
from typing import final


@final
class Secret:
    """Holds a value that `repr`, `str` and logs do not show; `reveal` is the only way to it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def matches(self, given: str) -> bool:
        """Whether that is the value; how long this takes tells nothing about it."""
        # What came over the wire may hold bytes that are no text; they match nothing.
        value = given.encode("utf-8", "surrogateescape")
        return hmac.compare_digest(value, self._value.encode())

    def __repr__(self) -> str:
        return "Secret(***)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)
