"""Reading: the Markdown of an agent as a tree; whatever it says, there is one."""

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from holdfast.platforms.text.addresses import find_urls
from holdfast.platforms.text.inlines import parse_inlines
from holdfast.platforms.text.marks import has_markup, sanitize
from holdfast.platforms.text.tree import (
    Block,
    BlockQuote,
    CodeBlock,
    Heading,
    HorizontalRule,
    Hyperlink,
    Inline,
    LineBreak,
    ListBlock,
    ListItem,
    Paragraph,
    PlainText,
    TableBlock,
    visible_text,
)

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_MAX_OPEN_BRACKETS = 100  # brackets that nobody closes: the parser looks for the end of each anew
_MAX_NESTING = 40  # what is nested deeper is shown as it was written: a parser would leave it out
_VISIBLE = re.compile("[^\\s\u00ad\u200b-\u200f\u2060-\u2064\ufe00-\ufe0f\ufeff]")
_BLANK_LINE = re.compile(r"\n[ \t]*\n")
_TASK = re.compile(r"\[([ xX])\](?:\s|$)")


def parse_markdown(text: str) -> tuple[Block, ...]:
    """HTML in it is text, but for `<br>`. A text of which nothing would be seen is all seen, as it
    was written; where there is nothing to see, there are three dots: no platform takes nothing."""
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
    """The text itself, for whoever shows it as it is; None: it has marks, or nothing to see."""
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
    # Most of what a gateway says in its first seconds has no marks: the parser takes 60 ms to load.
    from markdown_it import MarkdownIt  # noqa: PLC0415 - only when there is something to parse

    from holdfast.platforms.text.autolinks import add_autolinks  # noqa: PLC0415 - loads it too

    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _MAX_NESTING + 2})
    add_autolinks(parser)
    return parser.enable(["table", "strikethrough"])


class _BlockParser:
    """Owns how far the tokens have been read."""

    def __init__(self, tokens: list["Token"]) -> None:
        self._tokens = tokens
        self._at = 0

    def blocks(self, until: str = "") -> tuple[Block, ...]:
        """Up to the token of that type, which is read too."""
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
