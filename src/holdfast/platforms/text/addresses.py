"""Addresses: where one that stands in a text without marks begins and ends."""

import re
from collections.abc import Iterator

SCHEME = re.compile(r"(?:^|(?<=[^a-zA-Z0-9]))https?$", re.IGNORECASE)
REST = re.compile(r"://[^\s<>\"`\\^{}|\[\]]+")
_WHOLE = re.compile(rf"(?<![a-zA-Z0-9])https?{REST.pattern}", re.IGNORECASE)
_NOT_LAST = "*_~.,;:!?'"  # these end the sentence or the emphasis around an address


def ended(address: str) -> str:
    """Without the marks behind it, and without a bracket that was opened before it."""
    while True:
        shorter = address.rstrip(_NOT_LAST)
        if shorter.endswith(")") and shorter.count("(") < shorter.count(")"):
            shorter = shorter[:-1]
        if shorter == address:
            return address
        address = shorter


def addresses(text: str) -> Iterator[tuple[int, int]]:
    """From where to where each of them goes."""
    for found in _WHOLE.finditer(text):
        address = ended(found[0])
        if not address.endswith("/") or address.count("/") > 2:
            yield found.start(), found.start() + len(address)
