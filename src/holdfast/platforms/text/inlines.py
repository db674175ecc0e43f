"""Inlines: what the tokens within a paragraph mean."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from holdfast.platforms.text.marks import cleaned
from holdfast.platforms.text.tree import (
    Break,
    Code,
    Inline,
    Link,
    Style,
    Styled,
    Words,
    words_of,
)

if TYPE_CHECKING:
    from markdown_it.token import Token

_HTML_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_REACHED = re.compile(r"(?:https?://|mailto:)[^\s]+", re.IGNORECASE)
_STYLES = {"strong": Style.BOLD, "em": Style.ITALIC, "s": Style.STRIKE}


def inlines_of(token: "Token") -> tuple[Inline, ...]:
    """What a paragraph, a heading or a cell says."""
    return _Inlines(token.children or []).all()


class _Inlines:
    """Owns how far the tokens of one paragraph have been read, and whether that is in a link."""

    def __init__(self, tokens: list["Token"]) -> None:
        self._tokens = tokens
        self._at = 0
        self._in_link = False

    def all(self, until: str = "") -> tuple[Inline, ...]:
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
                yield from _words(token.content)
            case "softbreak" | "hardbreak":
                yield Break()
            case "code_inline":
                yield from _code_span(token.content)
            case "image":
                yield from self._image(token)
            case "link_open":
                yield from self._link(token)
            case _ if token.tag in _STYLES:
                children = self.all(f"{token.type.removesuffix('_open')}_close")
                if children:
                    yield Styled(style=_STYLES[token.tag], children=children)

    def _link(self, token: "Token") -> Iterator[Inline]:
        if self._in_link:  # an address in angle brackets: its words say where it goes
            yield from self.all("link_close")
            return
        self._in_link = True
        children = self.all("link_close")
        self._in_link = False
        yield from _linked(str(token.attrs["href"]), children, bare=token.info == "auto")

    def _image(self, token: "Token") -> Iterator[Inline]:
        """Shown as a link to it: nobody can be made to load what an agent names."""
        source, words = str(token.attrs["src"]), _alt(token)
        children = (Words(words),) if words.strip() else ()
        if self._in_link:
            yield from children or (Words(source),)
        else:
            yield from _linked(source, children, bare=False)


def _alt(image: "Token") -> str:
    """The words that stand for a picture, without their marks."""
    found = []
    for token in image.children or []:
        if token.type == "image":
            found.append(_alt(token))
        elif token.type in ("text", "code_inline"):
            found.append(cleaned(token.content))
        elif token.type in ("softbreak", "hardbreak"):
            found.append(" ")
    return "".join(found)


def _linked(href: str, children: tuple[Inline, ...], *, bare: bool) -> Iterator[Inline]:
    words = words_of(children).strip()
    if not words:
        children, words, bare = (Words(href),), href, True
    if not href:
        yield from children
    elif _REACHED.fullmatch(href):
        bare = bare or words in (href, href.removeprefix("mailto:"))
        yield Link(href=href, children=children, bare=bare)
    else:  # a file, a heading of the same page: no chat can go there, but it says which
        yield from children
        if words != href:
            yield Words(f" ({href})")


def _code_span(text: str) -> Iterator[Inline]:
    yield Code(text) if text.strip() else Words(text)


def _words(text: str) -> Iterator[Inline]:
    """Line ends are often written as HTML where Markdown has no room for them: in tables. What
    was written by its number (`&#13;`) is a sign only now, and no better than any other."""
    for number, piece in enumerate(_HTML_BREAK.split(cleaned(text))):
        if number:
            yield Break()
        if piece:
            yield Words(piece)
