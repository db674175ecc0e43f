"""Inlines: what the tokens within a paragraph mean."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from holdfast.platforms.text.marks import sanitize
from holdfast.platforms.text.tree import (
    Emphasis,
    Hyperlink,
    Inline,
    InlineCode,
    LineBreak,
    PlainText,
    StyledInline,
    visible_text,
)

if TYPE_CHECKING:
    from markdown_it.token import Token

_HTML_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_LINKABLE = re.compile(r"(?:https?://|mailto:)[^\s]+", re.IGNORECASE)
_TAG_STYLES = {"strong": Emphasis.BOLD, "em": Emphasis.ITALIC, "s": Emphasis.STRIKE}


def parse_inlines(token: "Token") -> tuple[Inline, ...]:
    """What a paragraph, a heading or a cell says."""
    return _InlineParser(token.children or []).parse_all()


class _InlineParser:
    """Owns how far the tokens of one paragraph have been read, and whether that is in a link."""

    def __init__(self, tokens: list["Token"]) -> None:
        self._tokens = tokens
        self._at = 0
        self._in_link = False

    def parse_all(self, until: str = "") -> tuple[Inline, ...]:
        found: list[Inline] = []
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            self._at += 1
            if token.type == until:
                break
            found.extend(self._inline(token))
        return tuple(found)

    def _inline(self, token: "Token") -> Iterator[Inline]:
        match token.type:
            case "text":
                yield from _text_and_breaks(token.content)
            case "softbreak" | "hardbreak":
                yield LineBreak()
            case "code_inline":
                yield from _code_span(token.content)
            case "image":
                yield from self._image(token)
            case "link_open":
                yield from self._link(token)
            case _ if token.tag in _TAG_STYLES:
                children = self.parse_all(f"{token.type.removesuffix('_open')}_close")
                if children:
                    yield StyledInline(style=_TAG_STYLES[token.tag], children=children)

    def _link(self, token: "Token") -> Iterator[Inline]:
        if self._in_link:  # an address in angle brackets: its words say where it goes
            yield from self.parse_all("link_close")
            return
        self._in_link = True
        children = self.parse_all("link_close")
        self._in_link = False
        yield from _make_link(str(token.attrs["href"]), children, shows_url=token.info == "auto")

    def _image(self, token: "Token") -> Iterator[Inline]:
        """Shown as a link to it: nobody can be made to load what an agent names."""
        source, words = str(token.attrs["src"]), _alt_text(token)
        children = (PlainText(words),) if words.strip() else ()
        if self._in_link:
            yield from children or (PlainText(source),)
        else:
            yield from _make_link(source, children, shows_url=False)


def _alt_text(image: "Token") -> str:
    """The words that stand for a picture, without their marks."""
    found = []
    for token in image.children or []:
        if token.type == "image":
            found.append(_alt_text(token))
        elif token.type in ("text", "code_inline"):
            found.append(sanitize(token.content))
        elif token.type in ("softbreak", "hardbreak"):
            found.append(" ")
    return "".join(found)


def _make_link(href: str, children: tuple[Inline, ...], *, shows_url: bool) -> Iterator[Inline]:
    words = visible_text(children).strip()
    if not words:
        children, words, shows_url = (PlainText(href),), href, True
    if not href:
        yield from children
    elif _LINKABLE.fullmatch(href):
        shows_url = shows_url or words in (href, href.removeprefix("mailto:"))
        yield Hyperlink(href=href, children=children, shows_url=shows_url)
    else:  # a file, a heading of the same page: no chat can go there, but it says which
        yield from children
        if words != href:
            yield PlainText(f" ({href})")


def _code_span(text: str) -> Iterator[Inline]:
    yield InlineCode(text) if text.strip() else PlainText(text)


def _text_and_breaks(text: str) -> Iterator[Inline]:
    """Line ends are often written as HTML where Markdown has no room for them: in tables. What
    was written by its number (`&#13;`) is a sign only now, and no better than any other."""
    for number, piece in enumerate(_HTML_BREAK.split(sanitize(text))):
        if number:
            yield LineBreak()
        if piece:
            yield PlainText(piece)
