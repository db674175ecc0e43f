"""Addresses: where one that stands in a text without marks begins and ends."""

import re
from collections.abc import Iterator

URL_SCHEME = re.compile(r"(?:^|(?<=[^a-zA-Z0-9]))https?$", re.IGNORECASE)
URL_REST = re.compile(r"://[^\s<>\"`\\^{}|\[\]]+")
_URL = re.compile(rf"(?<![a-zA-Z0-9])https?{URL_REST.pattern}", re.IGNORECASE)
_TRAILING_PUNCTUATION = "*_~.,;:!?'"  # these end the sentence or the emphasis around an address


def trim_url(url: str) -> str:
    """Without the marks behind it, and without a bracket that was opened before it."""
    while True:
        shorter = url.rstrip(_TRAILING_PUNCTUATION)
        if shorter.endswith(")") and shorter.count("(") < shorter.count(")"):
            shorter = shorter[:-1]
        if shorter == url:
            return url
        url = shorter


def find_urls(text: str) -> Iterator[tuple[int, int]]:
    """From where to where each of them goes."""
    for found in _URL.finditer(text):
        address = trim_url(found[0])
        if not address.endswith("/") or address.count("/") > 2:
            yield found.start(), found.start() + len(address)
