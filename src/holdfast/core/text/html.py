"""The readable text of untrusted HTML: pages that the agent fetches, mails and documents.

Imports the standard library only: the worker that reads documents runs without site-packages.
"""

import codecs
import re
from html.parser import HTMLParser
from urllib.parse import urljoin

_IGNORED_TAGS = frozenset(
    {"script", "style", "noscript", "template", "svg", "head", "title", "iframe", "select"}
)
# fmt: off
_LINE_TAGS = frozenset({
    "div", "section", "article", "header", "footer", "main", "aside", "nav", "li", "table", "tr",
    "hr", "dt", "dd", "figure", "figcaption", "form", "fieldset", "br",
})
# fmt: on
_HEADING_MARKS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_PARAGRAPH_TAGS = frozenset({"p", "ul", "ol", "dl", "pre", "blockquote", *_HEADING_MARKS})
_BLOCK_TAGS = _LINE_TAGS | _PARAGRAPH_TAGS
_VOID_TAGS = frozenset({"br", "hr", "img", "input", "meta", "link"})
_MAX_QUOTE_DEPTH = 20  # nested quotes

# Layout marks in the extracted text, until it is divided into lines.
_LINE, _PARAGRAPH, _QUOTE, _UNQUOTE, _CELL, _SPACE = "\x01", "\x02", "\x03", "\x04", "\x05", "\x06"
_MARKS = re.compile(r"[\x01-\x06]")
_SPACES = re.compile(r"\s+")
_EDGES = re.compile(r"^[\x01-\x06\s]*|[\x01-\x06\s]*$")
_BREAKS = frozenset((_LINE, _PARAGRAPH, _QUOTE, _UNQUOTE))
_ITEM_MARKS = frozenset(("", "-"))  # of a line that has no text yet
_LAYOUT = re.compile(r"([\x01-\x04\n])")

_CHARSET = re.compile(rb"<meta[^>]+charset\s*=\s*[\"']?\s*([a-zA-Z0-9_-]+)", re.IGNORECASE)
# Not used by pages, and decoding a long text by them takes very long.
_DOMAIN_CODECS = frozenset({"idna", "punycode"})

_MAX_TAG_LENGTH = 4096  # characters; a longer one contains an embedded image
# A comment, a tag whose quotes are closed, any other tag, and text that only looks like one. Except
# for a comment, none is searched beyond the next "<".
_MARKUP = re.compile(
    r"""<!--.*?(?:-->|\Z)|<(?:[^<>"']|"[^"<]*"|'[^'<]*')*+>|<[^<>]*+>|<""", re.DOTALL
)
_TAG = re.compile(r"</?[A-Za-z][A-Za-z0-9]*")


def close_html_tags(page: str) -> str:
    """The same page without comments and declarations, in which every tag is closed.

    For each unclosed tag, the parser of the standard library searches all of the text that follows:
    a few kilobytes of unclosed tags would take it minutes.
    """
    return _MARKUP.sub(_close_tag, page)


def _close_tag(found: re.Match[str]) -> str:
    markup, tag = found[0], _TAG.match(found[0])
    if tag is None:
        return " " if markup[1:2] in ("!", "?") else "&lt;" + markup[1:]
    return markup if len(markup) <= _MAX_TAG_LENGTH else f"{tag[0]}>"


def html_to_text(
    *pages: str, base: str = "", with_title: bool = True, max_tags: int | None = None
) -> str:
    """The visible text of HTML pages, one below the other, with headings, lists, tables, quotes and
    links as in Markdown. Links are relative to `base`. At most `max_tags` tags are read. Never
    raises."""
    texts: list[str] = []
    for page in pages:
        extractor = _TextExtractor(base, max_tags)
        texts.append(_extract(page, extractor, with_title))
        max_tags = extractor.tags_left
    return "\n\n".join(text for text in texts if text)


def _extract(page: str, extractor: "_TextExtractor", with_title: bool) -> str:
    try:
        extractor.feed(close_html_tags(page))
        extractor.close()
        body = extractor.text()
    except _TooManyTags:
        body = f"{extractor.text()}\n\n[The page continues: only so many tags are read]"
    title = " ".join(extractor.title.split())
    return f"{title}\n\n{body}".strip() if title and with_title else body


class _TooManyTags(Exception):
    """The page has more than the maximum number of tags."""


class _TextExtractor(HTMLParser):
    """Owns the text so far, with layout marks, and the open link, quotes and hidden tags."""

    def __init__(self, base: str, max_tags: int | None) -> None:
        super().__init__(convert_charrefs=True)
        self._base = base
        self.tags_left = max_tags
        self._parts: list[str] = []
        self._ignored: list[str] = []
        self._link: tuple[str, int] | None = None
        self._quotes = 0
        self._preformatted = 0
        self._in_title = False
        self.title = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self.tags_left is not None:
            if self.tags_left == 0:
                raise _TooManyTags
            self.tags_left -= 1
        self._in_title = tag == "title"
        if tag in _IGNORED_TAGS:
            self._ignored.append(tag)
        if self._ignored:
            return
        if tag in _BLOCK_TAGS:
            self._parts.append(_break_at(tag) + _HEADING_MARKS.get(tag, ""))
        match tag:
            case "blockquote":
                self._quotes += 1
                self._parts.append(_QUOTE)
            case "pre":
                self._preformatted += 1
            case "li":
                self._parts.append("- ")
            case "td" | "th":
                self._parts.append(_CELL)
            case "br":
                self._parts[-1] = "\n"
            case "img":
                self._add_text(dict(attrs).get("alt") or "")
            case "a":
                # A link that begins ends the one before it, as in browsers: nested, each link would
                # repeat all links inside it.
                self._link = ((dict(attrs).get("href") or "").strip(), len(self._parts))

    def handle_endtag(self, tag: str) -> None:
        self._in_title = False
        if self._ignored:
            if tag in self._ignored:
                del self._ignored[self._ignored.index(tag) :]
            return
        if tag == "a":
            self._close_link()
        if tag == "blockquote" and self._quotes:
            self._quotes -= 1
            self._parts.append(_UNQUOTE)
        if tag in _BLOCK_TAGS and tag not in _VOID_TAGS:
            self._parts.append(_break_at(tag))
        self._preformatted = max(0, self._preformatted - (tag == "pre"))

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data
        if not self._ignored:
            self._add_text(data)

    def _add_text(self, data: str) -> None:
        data = _MARKS.sub(" ", data.replace("\xa0", " "))
        if self._preformatted:
            self._parts.append(data.replace(" ", _SPACE))
        else:
            self._parts.append(_SPACES.sub(" ", data))

    def _close_link(self) -> None:
        if self._link is None:
            return
        (target, start), self._link = self._link, None
        whole = "".join(self._parts[start:])
        label = _EDGES.sub("", whole)
        if not label or not target or target.startswith(("#", "javascript:", "data:")):
            return
        url = urljoin(self._base, target) if self._base else target
        shown = label if url.rstrip("/") in (label, label + "/", f"mailto:{label}") else ""
        before, after = whole[: whole.index(label)], whole[whole.rindex(label[-1]) + 1 :]
        self._parts[start:] = [before, shown or f"[{label}]({url})", after]

    def text(self) -> str:
        lines, line, depth = list[tuple[int, str]](), "", 0
        for piece in _LAYOUT.split("".join(self._parts)):
            if piece == "\n":
                lines.append((depth, line))
                line = ""
            elif piece in _BREAKS:
                if line.strip() not in _ITEM_MARKS:
                    lines.append((depth, line))
                    line = ""
                if piece == _PARAGRAPH and not line and lines and lines[-1][1]:
                    lines.append((depth, ""))
                depth += (piece == _QUOTE) - (piece == _UNQUOTE)
            elif piece:
                line += _joined(line, piece)
        lines.append((depth, line))
        while lines and not lines[-1][1].strip():
            lines.pop()
        quoted = (_quote_prefix(depth) + line for depth, line in lines)
        text = "\n".join(line.rstrip() for line in quoted).replace(_SPACE, " ")
        return re.sub(r"\n{3,}", "\n\n", text).strip("\n")


def _break_at(tag: str) -> str:
    return _PARAGRAPH if tag in _PARAGRAPH_TAGS else _LINE


def _joined(line: str, piece: str) -> str:
    """The piece as it continues the line: cells are separated, and spaces are not doubled."""
    if _CELL in piece:
        piece = re.sub(rf" *{_CELL} *", " | ", piece)
        if not line.strip():
            piece = piece.removeprefix(" | ")
    return piece.lstrip(" ") if not line or line.endswith(" ") else piece


def _quote_prefix(depth: int) -> str:
    return f"{'>' * min(depth, _MAX_QUOTE_DEPTH)} " if depth else ""


def decode_page(data: bytes, declared: str | None) -> str:
    """Bytes as text: by the charset of the header, else by that in the page, else as UTF-8."""
    if data.startswith(b"\xef\xbb\xbf"):
        return data[3:].decode(errors="replace")
    found = _CHARSET.search(data[:2048])
    for name in (declared, found and found[1].decode()):
        if name:
            try:
                if codecs.lookup(name).name not in _DOMAIN_CODECS:
                    # Some charsets can encode lone surrogates, which nothing can store.
                    return data.decode(name, "replace").encode("utf-8", "replace").decode()
            except (LookupError, ValueError):  # unknown charset
                continue
    return data.decode(errors="replace")
