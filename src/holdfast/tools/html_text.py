"""The readable text of an HTML page, with its links. Imported only when a page is HTML."""

import codecs
import re
from html.parser import HTMLParser
from urllib.parse import urljoin

from holdfast.core.text.html import close_html_tags

IGNORED_TAGS = frozenset(
    {"script", "style", "noscript", "template", "svg", "head", "iframe", "select"}
)
# fmt: off
BLOCK_TAGS = frozenset({
    "p", "div", "section", "article", "header", "footer", "main", "aside", "nav", "ul", "ol", "li",
    "table", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "pre", "br", "hr", "dl", "dt",
    "dd", "figure", "figcaption", "form", "fieldset",
})
# fmt: on
HEADING_PREFIXES = {f"h{level}": "#" * level + " " for level in range(1, 7)}
VOID_TAGS = frozenset({"br", "hr", "img", "input", "meta", "link"})
CHARSET_PATTERN = re.compile(rb"<meta[^>]+charset\s*=\s*[\"']?\s*([a-zA-Z0-9_-]+)", re.IGNORECASE)

# No page is written in these, and decoding a long text with them takes forever.
_DOMAIN_CODECS = frozenset({"idna", "punycode"})


class _TextExtractor(HTMLParser):
    """Owns the text so far."""

    def __init__(self, address: str) -> None:
        super().__init__(convert_charrefs=True)
        self._address = address
        self._parts: list[str] = []
        self._ignored: list[str] = []
        self._links: list[tuple[str, int]] = []
        self._preformatted = 0
        self._in_title = False
        self.title = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in_title = tag == "title"
        if tag in IGNORED_TAGS:
            self._ignored.append(tag)
        if self._ignored:
            return
        if tag in BLOCK_TAGS:
            self._parts.append("\n" + HEADING_PREFIXES.get(tag, "- " if tag == "li" else ""))
        elif tag in ("td", "th"):
            self._parts.append(" | ")
        self._preformatted += tag == "pre"
        if tag == "a":
            target = dict(attrs).get("href") or ""
            # A link that begins ends the one before it, as browsers have it: within each other,
            # every one would repeat all that is in it.
            self._links = [(target.strip(), len(self._parts))]

    def handle_endtag(self, tag: str) -> None:
        self._in_title = False
        if self._ignored:
            if tag in self._ignored:
                del self._ignored[self._ignored.index(tag) :]
            return
        if tag == "a" and self._links:
            self._close_link()
        self._preformatted -= tag == "pre" and self._preformatted > 0
        if tag in BLOCK_TAGS and tag not in VOID_TAGS:
            self._parts.append("\n")

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data
        if not self._ignored:
            self._parts.append(data if self._preformatted else re.sub(r"\s+", " ", data))

    def _close_link(self) -> None:
        target, start = self._links.pop()
        label = "".join(self._parts[start:]).strip()
        if label and target and not target.startswith(("#", "javascript:", "data:")):
            self._parts[start:] = [f"[{label}]({urljoin(self._address, target)})"]

    def text(self) -> str:
        lines = (line.rstrip() for line in "".join(self._parts).splitlines())
        body = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
        title = " ".join(self.title.split())
        return f"{title}\n\n{body}" if title else body


def html_to_text(html: str, address: str) -> str:
    page = _TextExtractor(address)
    page.feed(close_html_tags(html))
    page.close()
    return page.text()


def decode_page(data: bytes, declared: str | None) -> str:
    """Bytes as text: the header's charset, else the page's own word for it, else UTF-8."""
    if data.startswith(b"\xef\xbb\xbf"):
        return data[3:].decode(errors="replace")
    found = CHARSET_PATTERN.search(data[:2048])
    for name in (declared, found and found[1].decode()):
        if name:
            try:
                if codecs.lookup(name).name not in _DOMAIN_CODECS:
                    # Some charsets can spell halves of characters, which nothing can keep.
                    return data.decode(name, "replace").encode("utf-8", "replace").decode()
            except (LookupError, ValueError):  # there is no such charset
                continue
    return data.decode(errors="replace")
