"""Parses the agent's Markdown into a tree of blocks and inlines. Every text has one.

The parser library is imported only for a text that has markup.
"""

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_MAX_OPEN_BRACKETS = 100  # unclosed brackets: the parser searches for the end of each
_MAX_NESTING = 40  # deeper nesting is shown as written; the parser would drop it
_VISIBLE = re.compile("[^\\s\u00ad\u200b-\u200f\u2060-\u2064\ufe00-\ufe0f\ufeff]")
_BLANK_LINE = re.compile(r"\n[ \t]*\n")
_TASK = re.compile(r"\[([ xX])\](?:\s|$)")
_HTML_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_LINKABLE = re.compile(r"(?:https?://|mailto:)[^\s]+", re.IGNORECASE)
URL_SCHEME = re.compile(r"(?:^|(?<=[^a-zA-Z0-9]))https?$", re.IGNORECASE)
URL_REST = re.compile(r"://[^\s<>\"`\\^{}|\[\]]+")
_URL = re.compile(rf"(?<![a-zA-Z0-9])https?{URL_REST.pattern}", re.IGNORECASE)
_TRAILING_PUNCTUATION = "*_~.,;:!?'"  # ends the sentence or the emphasis around a URL
# Everything that could be markup; a text without it needs no parser.
_MARKUP = re.compile(
    r"[*_~`\[<&\\|]|://"
    r"|^(?:[ ]*(?:[#>]|[-+](?:\s|$)|\d{1,9}[.)](?:\s|$)|=+[ ]*$|-+[ ]*$)|[ ]*\t|[ ]{4})",
    re.MULTILINE,
)
# Control codes, surrogates, and noncharacters, which XML forbids.
_FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_LINE_ENDS = re.compile("\r\n?|[\u2028\u2029\x0b\x0c\x85]")


class Emphasis(StrEnum):
    BOLD = "bold"
    ITALIC = "italic"
    STRIKE = "strike"


class PlainText(msgspec.Struct, frozen=True):
    text: str


class InlineCode(msgspec.Struct, frozen=True):
    text: str


class LineBreak(msgspec.Struct, frozen=True):
    """The end of a line within a paragraph: chats show the lines as they were written."""


class StyledInline(msgspec.Struct, frozen=True, kw_only=True):
    style: Emphasis
    children: tuple["Inline", ...]


class Hyperlink(msgspec.Struct, frozen=True, kw_only=True):
    """A link to a web page or a mail address. Never nested, and never without text."""

    href: str
    children: tuple["Inline", ...]
    shows_url: bool = False  # its text is its URL


Inline = PlainText | InlineCode | LineBreak | StyledInline | Hyperlink


class Paragraph(msgspec.Struct, frozen=True):
    inlines: tuple[Inline, ...]


class Heading(msgspec.Struct, frozen=True, kw_only=True):
    level: int
    inlines: tuple[Inline, ...]


class CodeBlock(msgspec.Struct, frozen=True, kw_only=True):
    text: str  # without its last line end
    language: str = ""


class BlockQuote(msgspec.Struct, frozen=True):
    blocks: tuple["Block", ...]


class ListItem(msgspec.Struct, frozen=True, kw_only=True):
    blocks: tuple["Block", ...]
    done: bool | None = None  # None: it is not a task


class ListBlock(msgspec.Struct, frozen=True, kw_only=True):
    items: tuple[ListItem, ...]
    start: int | None = None  # None: not numbered


class TableBlock(msgspec.Struct, frozen=True):
    rows: tuple[tuple[tuple[Inline, ...], ...], ...]  # the first is the header


class HorizontalRule(msgspec.Struct, frozen=True):
    pass


Block = Paragraph | Heading | CodeBlock | BlockQuote | ListBlock | TableBlock | HorizontalRule


def visible_text(inlines: tuple[Inline, ...]) -> str:
    """The text without any style."""
    found = []
    for each in inlines:
        match each:
            case PlainText() | InlineCode():
                found.append(each.text)
            case LineBreak():
                found.append("\n")
            case StyledInline() | Hyperlink():
                found.append(visible_text(each.children))
    return "".join(found)


def has_markup(text: str) -> bool:
    return _MARKUP.search(text) is not None


def sanitize(text: str) -> str:
    """Remove characters that a platform would refuse, or take for a command of its protocol."""
    if text.isascii() and text.isprintable():
        return text
    return _FORBIDDEN.sub("", _LINE_ENDS.sub("\n", text))


def trim_url(url: str) -> str:
    """The URL without punctuation at its end, and without a closing bracket that was opened before
    it."""
    while True:
        shorter = url.rstrip(_TRAILING_PUNCTUATION)
        if shorter.endswith(")") and shorter.count("(") < shorter.count(")"):
            shorter = shorter[:-1]
        if shorter == url:
            return url
        url = shorter


def find_urls(text: str) -> Iterator[tuple[int, int]]:
    """The start and end of each URL."""
    for found in _URL.finditer(text):
        address = trim_url(found[0])
        if not address.endswith("/") or address.count("/") > 2:
            yield found.start(), found.start() + len(address)


_TAG_STYLES = {"strong": Emphasis.BOLD, "em": Emphasis.ITALIC, "s": Emphasis.STRIKE}


def parse_inlines(token: "Token") -> tuple[Inline, ...]:
    """The content of a paragraph, a heading or a cell."""
    return _InlineParser(token.children or []).parse_all()


class _InlineParser:
    """Owns the position in the tokens of one paragraph, and whether it is inside a link."""

    def __init__(self, tokens: list["Token"]) -> None:
        self._tokens = tokens
        self._at = 0
        self._in_link = False

    def parse_all(self, until: str = "") -> tuple[Inline, ...]:
        """Parse up to the token of that type, which is consumed, too."""
        found: list[Inline] = []
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            self._at += 1
            kind = token.type
            if kind == "text":
                _add_text(found, token.content)
            elif kind == until:
                break
            elif kind in ("softbreak", "hardbreak"):
                found.append(LineBreak())
            elif kind == "code_inline":
                text = token.content
                found.append(InlineCode(text) if text.strip() else PlainText(text))
            elif kind == "image":
                found.extend(self._image(token))
            elif kind == "link_open":
                found.extend(self._link(token))
            elif token.tag in _TAG_STYLES:
                children = self.parse_all(f"{kind.removesuffix('_open')}_close")
                if children:
                    found.append(StyledInline(style=_TAG_STYLES[token.tag], children=children))
        return tuple(found)

    def _link(self, token: "Token") -> Iterable[Inline]:
        if self._in_link:  # a URL in angle brackets inside a link: the link's own target counts
            return self.parse_all("link_close")
        self._in_link = True
        children = self.parse_all("link_close")
        self._in_link = False
        return _make_link(str(token.attrs["href"]), children, shows_url=token.info == "auto")

    def _image(self, token: "Token") -> Iterable[Inline]:
        """A picture is shown as a link to it, so that no client loads a URL that an agent names."""
        source, words = str(token.attrs["src"]), _alt_text(token)
        children = (PlainText(words),) if words.strip() else ()
        if self._in_link:
            return children or (PlainText(source),)
        return _make_link(source, children, shows_url=False)


def _alt_text(image: "Token") -> str:
    """The alternative text of a picture, without marks."""
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
    # A file, or a heading of the same page: a chat cannot link there, but the target is shown.
    else:
        yield from children
        if words != href:
            yield PlainText(f" ({href})")


def _add_text(found: list[Inline], text: str) -> None:
    """Add text. Line breaks are often written as HTML where Markdown has none, as in tables.
    Character references (`&#13;`) are decoded only now, so the text is sanitized once more."""
    text = sanitize(text)
    if "<" not in text:
        if text:
            found.append(PlainText(text))
        return
    for number, piece in enumerate(_HTML_BREAK.split(text)):
        if number:
            found.append(LineBreak())
        if piece:
            found.append(PlainText(piece))


def parse_markdown(text: str) -> tuple[Block, ...]:
    """Parse a text. HTML in it is text, except `<br>`. A text that would be invisible when rendered
    is shown as written. An empty one becomes three dots, because no platform accepts an empty
    message."""
    text = sanitize(text)
    if not has_markup(text) or text.count("[") - text.count("]") > _MAX_OPEN_BRACKETS:
        return _as_paragraphs(text)
    try:
        tokens = _parser().parse(text)
    except RecursionError:
        return _as_paragraphs(text)
    if any(token.level >= _MAX_NESTING for token in tokens):
        return _as_paragraphs(text)
    return _BlockParser(tokens).blocks() or _as_paragraphs(text)


def unformatted_text(text: str) -> str | None:
    """The text itself, if it can be shown as it is; None if it has marks, or nothing visible."""
    text = sanitize(text).strip()
    return text if not has_markup(text) and _VISIBLE.search(text) else None


def _as_paragraphs(text: str) -> tuple[Block, ...]:
    if not _VISIBLE.search(text):
        return (Paragraph((PlainText("…"),)),)
    paragraphs = [each.strip() for each in _BLANK_LINE.split(text)]
    return tuple(Paragraph(tuple(_lines_with_breaks(each))) for each in paragraphs if each)


def _lines_with_breaks(text: str) -> Iterator[Inline]:
    for number, line in enumerate(text.split("\n")):
        if number:
            yield LineBreak()
        yield from _with_links(line.strip())


def _with_links(line: str) -> Iterator[Inline]:
    at = 0
    for start, end in find_urls(line) if "://" in line else ():
        yield PlainText(line[at:start])
        yield Hyperlink(
            href=line[start:end], children=(PlainText(line[start:end]),), shows_url=True
        )
        at = end
    if line[at:]:
        yield PlainText(line[at:])


@cache
def _parser() -> "MarkdownIt":
    # Most texts of a gateway's first seconds have no marks, and the parser takes 60 ms to load.
    from holdfast.platforms.text.autolinks import (  # noqa: PLC0415 - only when it is needed
        LinkParser,
        add_autolinks,
    )

    parser = LinkParser("commonmark", {"html": False, "maxNesting": _MAX_NESTING + 2})
    add_autolinks(parser)
    return parser.enable(["table", "strikethrough"])


class _BlockParser:
    """Owns the position in the tokens."""

    def __init__(self, tokens: list["Token"]) -> None:
        self._tokens = tokens
        self._at = 0

    def blocks(self, until: str = "") -> tuple[Block, ...]:
        """Parse up to the token of that type, which is consumed, too."""
        found: list[Block] = []
        while self._at < len(self._tokens):
            token = self._next()
            if token.type == until:
                break
            if (block := self._block(token)) is not None:
                found.append(block)
        return tuple(found)

    def _next(self) -> "Token":
        self._at += 1
        return self._tokens[self._at - 1]

    def _block(self, token: "Token") -> Block | None:
        match token.type:
            case "inline":
                inlines = parse_inlines(token)
                return Paragraph(inlines) if _is_visible(inlines) else None
            case "heading_open":
                return self._heading(int(token.tag[1:]))
            case "fence" | "code_block":
                return _to_code_block(token)
            case "blockquote_open":
                quoted = self.blocks("blockquote_close")
                return BlockQuote(quoted) if quoted else None
            case "bullet_list_open" | "ordered_list_open":
                return self._items(token)
            case "table_open":
                return self._table()
            case "hr":
                return HorizontalRule()
        return None  # the tokens that open and close a paragraph

    def _heading(self, level: int) -> Block | None:
        inlines = parse_inlines(self._next())
        self._next()
        return Heading(level=level, inlines=inlines) if _is_visible(inlines) else None

    def _items(self, token: "Token") -> ListBlock:
        numbered = token.type == "ordered_list_open"
        items = []
        while self._next().type == "list_item_open":
            items.append(_to_list_item(self.blocks("list_item_close")))
        start = int(token.attrs.get("start", 1)) if numbered else None
        return ListBlock(items=tuple(items), start=start)

    def _table(self) -> TableBlock | None:
        rows: list[tuple[tuple[Inline, ...], ...]] = []
        cells: list[tuple[Inline, ...]] = []
        while (token := self._next()).type != "table_close":
            if token.type == "inline":
                cells.append(parse_inlines(token))
            elif token.type == "tr_close":
                rows.append(tuple(cells))
                cells = []
        seen = any(_is_visible(cell) for row in rows for cell in row)
        return TableBlock(tuple(rows)) if seen else None


def _is_visible(inlines: tuple[Inline, ...]) -> bool:
    return _VISIBLE.search(visible_text(inlines)) is not None


def _to_list_item(blocks: tuple[Block, ...]) -> ListItem:
    first = blocks[0] if blocks else None
    if isinstance(first, Paragraph) and isinstance(first.inlines[0], PlainText):
        words = first.inlines[0].text
        if task := _TASK.match(words):
            rest = (PlainText(words[task.end() :]), *first.inlines[1:])
            return ListItem(blocks=(Paragraph(rest), *blocks[1:]), done=task[1] != " ")
    return ListItem(blocks=blocks)


def _to_code_block(token: "Token") -> CodeBlock | None:
    text = token.content.removesuffix("\n")
    language = token.info.split(maxsplit=1)[0] if token.info.strip() else ""
    return CodeBlock(text=text, language=language) if text.strip() else None
