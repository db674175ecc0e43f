"""A page of HTML as the text that a reader of it would see."""

import re
from html.parser import HTMLParser

from holdfast.core.markup import close_html_tags

_HIDDEN_TAGS = frozenset({"head", "script", "style", "title", "template", "noscript"})
_LINE_TAGS = frozenset({"br", "div", "tr", "li", "dt", "dd", "hr", "table", "section", "article"})
_PARAGRAPH_TAGS = frozenset(
    {"p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "pre", "blockquote"}
)
_VOID_TAGS = frozenset({"br", "hr", "img", "meta", "link", "input", "col", "wbr"})
_MAX_HTML_LENGTH = 500_000  # characters that are read: some times what is shown of a mail
_MAX_TAGS = 20_000  # each is some work, and nobody has written so many
_MAX_QUOTE_DEPTH = 20  # quotes in quotes that are told apart


def html_to_text(*pages: str) -> str:
    """One below the other. Never raises, whatever they are. Quotes are marked as in plain mail, by
    "> "."""
    reader = _HtmlText()
    try:
        for page in pages:
            reader.read_page(close_html_tags(page[:_MAX_HTML_LENGTH]))
    except _TooManyTags:
        return f"{reader.text()}\n\n[The page goes on: it has more than {_MAX_TAGS} tags]"
    return reader.text()


class _TooManyTags(Exception):
    """There are too many tags."""


class _HtmlText(HTMLParser):
    """Owns the lines so far, each with how deep in quotes it stands."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._lines: list[tuple[int, str]] = []
        self._line = ""
        self._quotes = 0
        self._hidden_tags: list[str] = []
        self._preformatted = 0
        self._link = ""
        self._link_start = 0
        self._tags = 0

    def read_page(self, page: str) -> None:
        """What the one before has left open is not open in this one."""
        self.feed(page)
        self.close()
        self._end_line()
        self.reset()
        self._quotes = self._preformatted = 0
        self._hidden_tags.clear()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._count()
        if tag in _HIDDEN_TAGS:
            self._hidden_tags.append(tag)
        if self._hidden_tags:
            return
        if tag in _LINE_TAGS or tag in _PARAGRAPH_TAGS:
            self._end_line(blank=tag in _PARAGRAPH_TAGS, always=tag == "br")
        self._quotes += tag == "blockquote"
        self._preformatted += tag == "pre"
        if tag == "li":
            self._line = "- "
        elif tag in ("td", "th") and self._line.strip():
            self._line += "\t"
        elif tag == "img":
            self._line += dict(attrs).get("alt") or ""
        elif tag == "a":
            self._link, self._link_start = dict(attrs).get("href") or "", len(self._line)

    def handle_endtag(self, tag: str) -> None:
        if self._hidden_tags:
            if tag in self._hidden_tags:
                del self._hidden_tags[self._hidden_tags.index(tag) :]
            return
        if tag == "a":
            self._end_link()
        if (tag in _LINE_TAGS or tag in _PARAGRAPH_TAGS) and tag not in _VOID_TAGS:
            self._end_line(blank=tag in _PARAGRAPH_TAGS)
        self._quotes = max(0, self._quotes - (tag == "blockquote"))
        self._preformatted = max(0, self._preformatted - (tag == "pre"))

    def handle_data(self, data: str) -> None:
        if self._hidden_tags:
            return
        if self._preformatted:
            first, *rest = data.split("\n")
            self._line += first
            for line in rest:
                self._end_line(always=True)
                self._line = line
            return
        said = re.sub(r"[ \t\r\n\f]+", " ", data)
        self._line += said.lstrip() if not self._line or self._line.endswith((" ", "\t")) else said

    def _count(self) -> None:
        self._tags += 1
        if self._tags > _MAX_TAGS:
            raise _TooManyTags

    def text(self) -> str:
        self._end_line()
        while self._lines and not self._lines[-1][1]:
            self._lines.pop()
        lines = [f"{_quote_prefix(depth)}{line}" for depth, line in self._lines]
        return re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in lines)).strip("\n")

    def _end_line(self, *, blank: bool = False, always: bool = False) -> None:
        """A line that has nothing on it is not one, unless somebody made it; a paragraph has a
        blank line around it."""
        line = self._line.rstrip().replace("\xa0", " ")
        if line or always:
            self._lines.append((self._quotes, line))
        if blank and self._lines and self._lines[-1][1]:
            self._lines.append((self._quotes, ""))
        self._line, self._link = "", ""

    def _end_link(self) -> None:
        """Where it leads, unless it says so itself."""
        said = self._line[self._link_start :].strip()
        link, self._link = self._link, ""
        if link.startswith(("http://", "https://")) and link.rstrip("/") not in (said, said + "/"):
            self._line += f" ({link})" if said else link


def _quote_prefix(depth: int) -> str:
    return f"{'>' * min(depth, _MAX_QUOTE_DEPTH)} " if depth else ""
