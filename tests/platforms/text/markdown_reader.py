"""Reads Markdown: returns the characters that are visible when it is shown as HTML.

It uses the HTML of the parser's own renderer, not the tree of the code under test.
What the platforms add (numbers, addresses, bullets) is added here by the rules of `docs/text.md`.
"""

import re
from html.parser import HTMLParser

from markdown_it import MarkdownIt

from holdfast.platforms.text.autolinks import add_autolinks

# What renderers draw with, and what keeps marks apart; no text of a test says anything by them.
_DRAWN = re.compile("[\\s•◦▪☐☑│─┼>\u200b]")
_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
add_autolinks(_PARSER)


def visible_characters(text: str) -> str:
    """A text without space and without what renderers draw."""
    return _DRAWN.sub("", text)


def visible_text(markdown: str, *, addresses: bool, mailboxes: bool = False) -> str:
    """The visible characters, in order. `addresses`: also where links go; `mailboxes`: only
    those to a mailbox."""
    if not markdown.strip():
        return "…"
    reader = _Reader(addresses=addresses, mailboxes=mailboxes)
    page = _PARSER.render(markdown)
    reader.feed(page)
    reader.close()
    found = "".join(reader.found)
    drawn = re.search("<hr|<li", page)
    # What would be nothing is shown as it was written.
    return visible_characters(found if found.strip() or drawn else markdown)


class _Reader(HTMLParser):
    def __init__(self, *, addresses: bool, mailboxes: bool) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []
        self._addresses = addresses
        self._mailboxes = mailboxes
        self._numbers: list[int | None] = []
        self._link: tuple[str, int] | None = None
        self._inner = 0
        self._code = False
        self._item = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag in ("ul", "ol"):
            self._numbers.append(int(given.get("start") or 1) if tag == "ol" else None)
        elif tag == "li":
            self._begin_item()
        elif tag == "a" and self._link is not None:
            self._inner += 1  # a link within a link is its words
        elif tag == "a":
            self._link = given["href"], len(self.found)
        elif tag == "img":
            self._picture(given["alt"], given["src"])
        elif tag in ("code", "h1", "h2", "h3", "h4", "h5", "h6"):
            self._code = tag == "code"
            self._item = False

    def _begin_item(self) -> None:
        self._item = True
        if (number := self._numbers[-1]) is not None:
            self.found.append(f"{number}.")
            self._numbers[-1] = number + 1

    def handle_endtag(self, tag: str) -> None:
        if tag in ("ul", "ol"):
            self._numbers.pop()
        elif tag == "code":
            self._code = False
        elif tag == "a" and self._inner:
            self._inner -= 1
        elif tag == "a" and self._link is not None:
            (href, start), self._link = self._link, None
            self._linked("".join(self.found[start:]).strip(), href)

    def handle_data(self, data: str) -> None:
        if not self._code:
            data = re.sub(r"(?i)<br\s*/?>", "\n", data)
        if self._item and data.strip():
            data = re.sub(r"^\[[ xX]\](?:\s|$)", "", data)
            self._item = False
        self.found.append(data)

    def _picture(self, alt: str, source: str) -> None:
        self._item = False
        self.found.append(alt if alt.strip() else source)
        if self._link is None and alt.strip():
            self._linked(alt, source)

    def _linked(self, words: str, href: str) -> None:
        if not words:
            self.found.append(href)
            return
        box = re.sub("(?i)^mailto:", "", href)
        if href and words not in (href, box) and self._written(href):
            self.found.append(f"({box if re.match('(?i)mailto:.', href) else href})")

    def _written(self, href: str) -> bool:
        """A target that cannot be followed is written out."""
        if re.match("(?i)mailto:.", href):
            return self._addresses or self._mailboxes
        return self._addresses or not re.match("(?i)https?://.", href)
