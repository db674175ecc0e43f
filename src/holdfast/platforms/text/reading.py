"""Reading: the Markdown of an agent as a tree; whatever it says, there is one."""

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from holdfast.platforms.text.addresses import addresses
from holdfast.platforms.text.inlines import inlines_of
from holdfast.platforms.text.marks import cleaned, has_marks
from holdfast.platforms.text.tree import (
    Block,
    Break,
    CodeBlock,
    Heading,
    Inline,
    Item,
    Items,
    Link,
    Paragraph,
    Quote,
    Rule,
    Table,
    Words,
    words_of,
)

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_MOST_OPEN = 100  # brackets that nobody closes: the parser looks for the end of each anew
_DEEPEST = 40  # what is nested deeper is shown as it was written: a parser would leave it out
_SEEN = re.compile("[^\\s\u00ad\u200b-\u200f\u2060-\u2064\ufe00-\ufe0f\ufeff]")
_BLANK_LINE = re.compile(r"\n[ \t]*\n")
_TASK = re.compile(r"\[([ xX])\](?:\s|$)")


def read(text: str) -> tuple[Block, ...]:
    """HTML in it is text, but for `<br>`. A text of which nothing would be seen is all seen, as it
    was written; where there is nothing to see, there are three dots: no platform takes nothing."""
    text = cleaned(text)
    if not has_marks(text) or text.count("[") - text.count("]") > _MOST_OPEN:
        return _as_written(text)
    try:
        tokens = _parser().parse(text)
    except RecursionError:
        return _as_written(text)
    if any(token.level >= _DEEPEST for token in tokens):
        return _as_written(text)
    return _Reading(tokens).blocks() or _as_written(text)


def unmarked(text: str) -> str | None:
    """The text itself, for whoever shows it as it is; None: it has marks, or nothing to see."""
    text = cleaned(text).strip()
    return text if not has_marks(text) and _SEEN.search(text) else None


def _as_written(text: str) -> tuple[Block, ...]:
    if not _SEEN.search(text):
        return (Paragraph((Words("…"),)),)
    paragraphs = [each.strip() for each in _BLANK_LINE.split(text)]
    return tuple(Paragraph(tuple(_lines(each))) for each in paragraphs if each)


def _lines(text: str) -> Iterator[Inline]:
    for number, line in enumerate(text.split("\n")):
        if number:
            yield Break()
        yield from _addressed(line.strip())


def _addressed(line: str) -> Iterator[Inline]:
    at = 0
    for start, end in addresses(line) if "://" in line else ():
        yield Words(line[at:start])
        yield Link(href=line[start:end], children=(Words(line[start:end]),), bare=True)
        at = end
    if line[at:]:
        yield Words(line[at:])


@cache
def _parser() -> "MarkdownIt":
    # Most of what a gateway says in its first seconds has no marks: the parser takes 60 ms to load.
    from markdown_it import MarkdownIt  # noqa: PLC0415 - only when there is something to parse

    from holdfast.platforms.text.autolinks import add_bare_links  # noqa: PLC0415 - loads it too

    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _DEEPEST + 2})
    add_bare_links(parser)
    return parser.enable(["table", "strikethrough"])


class _Reading:
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
                inlines = inlines_of(token)
                return Paragraph(inlines) if _is_seen(inlines) else None
            case "heading_open":
                return self._heading(int(token.tag[1:]))
            case "fence" | "code_block":
                return _code(token)
            case "blockquote_open":
                quoted = self.blocks("blockquote_close")
                return Quote(quoted) if quoted else None
            case "bullet_list_open" | "ordered_list_open":
                return self._items(token)
            case "table_open":
                return self._table()
            case "hr":
                return Rule()
        return None  # the tokens that open and close a paragraph

    def _heading(self, level: int) -> Block | None:
        inlines = inlines_of(self._next())
        self._next()
        return Heading(level=level, inlines=inlines) if _is_seen(inlines) else None

    def _items(self, token: "Token") -> Items:
        numbered = token.type == "ordered_list_open"
        items = []
        while self._next().type == "list_item_open":
            items.append(_item(self.blocks("list_item_close")))
        start = int(token.attrs.get("start", 1)) if numbered else None
        return Items(items=tuple(items), start=start)

    def _table(self) -> Table | None:
        rows: list[tuple[tuple[Inline, ...], ...]] = []
        cells: list[tuple[Inline, ...]] = []
        while (token := self._next()).type != "table_close":
            if token.type == "inline":
                cells.append(inlines_of(token))
            elif token.type == "tr_close":
                rows.append(tuple(cells))
                cells = []
        seen = any(_is_seen(cell) for row in rows for cell in row)
        return Table(tuple(rows)) if seen else None


def _is_seen(inlines: tuple[Inline, ...]) -> bool:
    return _SEEN.search(words_of(inlines)) is not None


def _item(blocks: tuple[Block, ...]) -> Item:
    first = blocks[0] if blocks else None
    if isinstance(first, Paragraph) and isinstance(first.inlines[0], Words):
        words = first.inlines[0].text
        if task := _TASK.match(words):
            rest = (Words(words[task.end() :]), *first.inlines[1:])
            return Item(blocks=(Paragraph(rest), *blocks[1:]), done=task[1] != " ")
    return Item(blocks=blocks)


def _code(token: "Token") -> CodeBlock | None:
    text = token.content.removesuffix("\n")
    language = token.info.split(maxsplit=1)[0] if token.info.strip() else ""
    return CodeBlock(text=text, language=language) if text.strip() else None
