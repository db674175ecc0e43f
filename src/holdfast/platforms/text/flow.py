"""Flow: a tree as the lines that a chat shows one below the other, each of spans of one style."""

from collections.abc import Iterable, Iterator

import msgspec

from holdfast.platforms.text.tables import aligned
from holdfast.platforms.text.tree import (
    Block,
    Break,
    Code,
    CodeBlock,
    Heading,
    Inline,
    Item,
    Items,
    Link,
    Paragraph,
    Quote,
    Rule,
    Style,
    Styled,
    Table,
    Words,
    words_of,
)

RULE = "─" * 12
BAR = " │ "
_MAILBOX = "mailto:"
DONE, OPEN = "☑ ", "☐ "


class Span(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    styles: frozenset[Style] = frozenset()
    code: bool = False
    href: str = ""
    bare: bool = False  # its text is its address


class Bullet(msgspec.Struct, frozen=True, kw_only=True):
    """What stands before the first line of an item."""

    depth: int
    number: int | None = None


class Line(msgspec.Struct, frozen=True, kw_only=True):
    spans: tuple[Span, ...] = ()
    quote: int = 0
    indent: int = 0  # columns: a bullet stands there, or the words under one
    bullet: Bullet | None = None
    heading: int = 0

    @property
    def text(self) -> str:
        return "".join(span.text for span in self.spans)


class Pre(msgspec.Struct, frozen=True, kw_only=True):
    """Lines in which every column counts: code, or a table that was drawn with spaces."""

    text: str
    language: str = ""
    quote: int = 0
    indent: int = 0


Piece = Line | Pre


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What a target has for what it has no form of its own for."""

    bullets: tuple[str, ...] = ("•", "◦", "▪")
    links: bool = True  # False: an address is written out behind its words
    columns: int = 64  # a table that is wider is not drawn, for its lines would be broken
    mailboxes: bool = True  # False: a link to one is none there

    def mark(self, bullet: Bullet) -> str:
        if bullet.number is not None:
            return f"{bullet.number}. "
        return f"{self.bullets[min(bullet.depth, len(self.bullets) - 1)]} "


class _Place(msgspec.Struct, frozen=True, kw_only=True):
    quote: int = 0
    indent: int = 0
    depth: int = 0


def flow(blocks: Iterable[Block], look: Look) -> list[Piece]:
    """The pieces, with an empty line where a reader expects one; neither the first nor the last
    is empty, and no line is empty but those."""
    return _Flow(look).blocks(blocks, _Place())


class _Flow:
    def __init__(self, look: Look) -> None:
        self._look = look

    def blocks(self, blocks: Iterable[Block], place: _Place) -> list[Piece]:
        found: list[Piece] = []
        before: Block | None = None
        for block in blocks:
            pieces = list(self._block(block, place))
            close = place.depth > 0 and isinstance(before, Paragraph) and isinstance(block, Items)
            if found and pieces and not close:
                found.append(Line(quote=place.quote))
            found += pieces
            before = block
        return found

    def _block(self, block: Block, place: _Place) -> Iterable[Piece]:
        match block:
            case Paragraph():
                return self._lines(block.inlines, place)
            case Heading():
                return self._lines(block.inlines, place, heading=block.level)
            case CodeBlock():
                return [
                    Pre(
                        text=block.text,
                        language=block.language,
                        quote=place.quote,
                        indent=place.indent,
                    )
                ]
            case Quote():
                return self.blocks(
                    block.blocks, msgspec.structs.replace(place, quote=place.quote + 1)
                )
            case Items():
                return self._items(block, place)
            case Table():
                return self._table(block, place)
            case Rule():
                return [_line((Span(text=RULE),), place)]

    def _lines(
        self, inlines: tuple[Inline, ...], place: _Place, *, heading: int = 0
    ) -> Iterator[Line]:
        for spans in lines_of(inlines, self._look):
            yield msgspec.structs.replace(_line(spans, place), heading=heading)

    def _items(self, items: Items, place: _Place) -> list[Piece]:
        found: list[Piece] = []
        airy = any(_is_airy(item) for item in items.items)
        for number, item in enumerate(items.items):
            if number and airy:
                found.append(Line(quote=place.quote))
            count = None if items.start is None else items.start + number
            found += self._item(item, Bullet(depth=place.depth, number=count), place)
        return found

    def _item(self, item: Item, bullet: Bullet, place: _Place) -> list[Piece]:
        mark = self._look.mark(bullet)
        inside = _Place(quote=place.quote, indent=place.indent + len(mark), depth=place.depth + 1)
        pieces = self.blocks(item.blocks, inside)
        task = () if item.done is None else (Span(text=DONE if item.done else OPEN),)
        first = pieces[0] if pieces else None
        if isinstance(first, Line) and first.bullet is None and first.quote == place.quote:
            pieces = pieces[1:]
        else:  # it begins with code, a quote or another list: its mark has a line to itself
            first = _line((), place)
        head = msgspec.structs.replace(
            first, spans=(*task, *first.spans), bullet=bullet, indent=place.indent
        )
        return [head, *pieces]

    def _table(self, table: Table, place: _Place) -> list[Piece]:
        rows = [_to_its_last_words(row) for row in table.rows]
        cells = [[words_of(cell).replace("\n", " ") for cell in row] for row in rows]
        drawn = aligned(cells)
        width = max(map(len, drawn.split("\n")), default=0)
        linked = any(_has_link(cell) for row in rows for cell in row)
        if width <= self._look.columns and not linked:
            return [Pre(text=drawn, quote=place.quote, indent=place.indent)]
        return [self._row(row, place, head=not number) for number, row in enumerate(rows)]

    def _row(self, row: tuple[tuple[Inline, ...], ...], place: _Place, *, head: bool) -> Line:
        spans: list[Span] = []
        for number, cell in enumerate(row):
            if number:
                spans.append(Span(text=BAR))
            for each in spans_of(cell, self._look):
                span = msgspec.structs.replace(each, text=each.text.replace("\n", " "))
                spans.append(_bold(span) if head else span)
        return _line(tuple(spans), place)


def lines_of(inlines: tuple[Inline, ...], look: Look) -> Iterator[tuple[Span, ...]]:
    """The lines of a paragraph; those without a word are left out."""
    line: list[Span] = []
    for span in (*spans_of(inlines, look), Span(text="\n")):
        first, *more = span.text.split("\n")
        for number, text in enumerate((first, *more)):
            if number:
                if any(each.text.strip() for each in line):
                    yield tuple(line)
                line = []
            if text:
                line.append(msgspec.structs.replace(span, text=text))


def spans_of(
    inlines: tuple[Inline, ...], look: Look, styles: frozenset[Style] = frozenset()
) -> Iterator[Span]:
    for each in inlines:
        match each:
            case Words():
                yield Span(text=each.text, styles=styles)
            case Code():
                yield Span(text=each.text, styles=styles, code=True)
            case Break():
                yield Span(text="\n")
            case Styled():
                yield from spans_of(each.children, look, styles | {each.style})
            case Link():
                yield from _link(each, look, styles)


def _link(link: Link, look: Look, styles: frozenset[Style]) -> Iterator[Span]:
    mailbox = link.href.lower().startswith(_MAILBOX)
    if look.links and (look.mailboxes or not mailbox):
        for span in spans_of(link.children, look, styles):
            yield msgspec.structs.replace(span, href=link.href, bare=link.bare)
        return
    yield from spans_of(link.children, look, styles)
    if not link.bare:
        address = link.href[len(_MAILBOX) :] if mailbox else link.href
        yield Span(text=f" ({address})", styles=styles)


def _bold(span: Span) -> Span:
    return msgspec.structs.replace(span, styles=span.styles | {Style.BOLD})


def _line(spans: tuple[Span, ...], place: _Place) -> Line:
    return Line(spans=spans, quote=place.quote, indent=place.indent)


def _is_airy(item: Item) -> bool:
    """It has more than a paragraph and a list below it."""
    rest = [block for block in item.blocks if not isinstance(block, Items)]
    return len(rest) > 1


def _to_its_last_words(row: tuple[tuple[Inline, ...], ...]) -> tuple[tuple[Inline, ...], ...]:
    while row and not words_of(row[-1]).strip():
        row = row[:-1]
    return row


def _has_link(inlines: tuple[Inline, ...]) -> bool:
    return any(
        isinstance(each, Link) or (isinstance(each, Styled) and _has_link(each.children))
        for each in inlines
    )
