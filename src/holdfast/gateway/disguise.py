"""Disguise: the signs of a text as a reader sees them, once Markdown has taken its marks off."""

import re
from html import unescape

import msgspec

# Marks that vanish when they are read, and signs without width. `sk\_live\_…` and `sk**live**…`
# show the same letters as the secret, and are not the same text.
_MARKUP = re.compile("[\\\\*_~`\u00ad\u200b-\u200f\u2060-\u2064\ufeff]+")
_CHARACTER = re.compile(
    r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});|.", re.DOTALL
)
_OPEN_ENTITY = re.compile(r"&[#0-9a-zA-Z]{0,32}\Z")


def may_hide_text(text: str) -> bool:
    """Whether it may be read as another text than it is."""
    return "&" in text or _MARKUP.search(text) is not None


def visible_text(text: str) -> str:
    """The signs alone."""
    return _MARKUP.sub("", unescape(text) if "&" in text else text)


def open_entity_length(text: str) -> int:
    """How much at its end may be the beginning of an entity, whose sign nobody knows yet."""
    found = _OPEN_ENTITY.search(text)
    return len(text) - found.start() if found else 0


class VisibleText(msgspec.Struct, frozen=True, kw_only=True):
    """The signs, and from where to where each of them stood."""

    text: str
    spans: list[tuple[int, int]]


def map_visible_text(text: str) -> VisibleText:
    signs: list[str] = []
    places: list[tuple[int, int]] = []
    for found in _CHARACTER.finditer(text):
        for sign in unescape(found[0]) if len(found[0]) > 1 else found[0]:
            if not _MARKUP.match(sign):
                signs.append(sign)
                places.append(found.span())
    return VisibleText(text="".join(signs), spans=places)
