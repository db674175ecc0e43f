"""Converts a Markdown tree to the lines that a chat shows, each made of spans of one style; also
draws tables and renders plain text."""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from holdfast.platforms.text.markdown import (
    Block,
    BlockQuote,
    CodeBlock,
    Emphasis,
    Heading,
    HorizontalRule,
    Hyperlink,
    Inline,
    InlineCode,
    LineBreak,
    ListBlock,
    ListItem,
    Paragraph,
    PlainText,
    StyledInline,
    TableBlock,
    parse_markdown,
    visible_text,
)

HORIZONTAL_LINE = "─" * 12
COLUMN_SEPARATOR = " │ "
TASK_DONE, TASK_OPEN = "☑ ", "☐ "
_MAILTO = "mailto:"
_WIDE_CLASSES = frozenset("WF")


def draw_table(rows: Sequence[Sequence[str]]) -> str:
    """The rows as lines, with a line under the first row."""
    count = max((len(row) for row in rows), default=0)
    widths = [
        max((display_width(row[n]) for row in rows if n < len(row)), default=0)
        for n in range(count)
    ]
    lines = [_draw_row(row, widths) for row in rows]
    lines.insert(1, "─┼─".join("─" * each for each in widths))
    return "\n".join(lines)


def display_width(text: str) -> int:
    """Its columns in a terminal, which are nearly those of a chat's code font."""
    if text.isascii():
        return len(text)
    return sum(_character_width(character) for character in text)


def _character_width(character: str) -> int:
    if unicodedata.combining(character) or character in "\u200b\u200c\u200d\ufe0f":
        return 0
    return 2 if unicodedata.east_asian_width(character) in _WIDE_CLASSES else 1


def _draw_row(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [
        cell + " " * (wide - display_width(cell)) for cell, wide in zip(row, widths, strict=False)
    ]
    return COLUMN_SEPARATOR.join(cells).rstrip()


class TextSpan(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    styles: frozenset[Emphasis] = frozenset()
    code: bool = False
    href: str = ""
    shows_url: bool = False  # its text is its URL


class ListBullet(msgspec.Struct, frozen=True, kw_only=True):
    """The marker before the first line of an item."""

    depth: int
    number: int | None = None


class TextLine(msgspec.Struct, frozen=True, kw_only=True):
    spans: tuple[TextSpan, ...] = ()
    quote: int = 0
    indent: int = 0  # columns in front of the bullet, or of the text below it
    bullet: ListBullet | None = None
    heading: int = 0

    @property
    def text(self) -> str:
        return "".join(span.text for span in self.spans)


class PreformattedText(msgspec.Struct, frozen=True, kw_only=True):
    """Lines in which every column counts: code, or a table drawn with spaces."""

    text: str
    language: str = ""
    quote: int = 0
    indent: int = 0


LayoutItem = TextLine | PreformattedText


class LayoutOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a target shows elements for which it has no form of its own."""

    bullets: tuple[str, ...] = ("•", "◦", "▪")
    links: bool = True  # False: a URL is written out after its text
    columns: int = 64  # a wider table is not drawn, because its lines would be broken
    mail_links: bool = True  # False: links to mail addresses are shown as text

    def bullet_text(self, bullet: ListBullet) -> str:
        if bullet.number is not None:
            return f"{bullet.number}. "
        return f"{self.bullets[min(bullet.depth, len(self.bullets) - 1)]} "


class _Nesting(msgspec.Struct, frozen=True, kw_only=True):
    quote: int = 0
    indent: int = 0
    depth: int = 0


def lay_out(blocks: Iterable[Block], options: LayoutOptions) -> list[LayoutItem]:
    """The pieces, with an empty line where a reader expects one. Neither the first nor the last is
    empty, and no other line is empty."""
    return _LayoutBuilder(options).blocks(blocks, _Nesting())


class _LayoutBuilder:
    def __init__(self, options: LayoutOptions) -> None:
        self._options = options

    def blocks(self, blocks: Iterable[Block], nesting: _Nesting) -> list[LayoutItem]:
        found: list[LayoutItem] = []
        before: Block | None = None
        for block in blocks:
            pieces = list(self._block(block, nesting))
            close = (
                nesting.depth > 0 and isinstance(before, Paragraph) and isinstance(block, ListBlock)
            )
            if found and pieces and not close:
                found.append(TextLine(quote=nesting.quote))
            found += pieces
            before = block
        return found

    def _block(self, block: Block, nesting: _Nesting) -> Iterable[LayoutItem]:
        match block:
            case Paragraph():
                return self._lines(block.inlines, nesting)
            case Heading():
                return self._lines(block.inlines, nesting, heading=block.level)
            case CodeBlock():
                return [
                    PreformattedText(
                        text=block.text,
                        language=block.language,
                        quote=nesting.quote,
                        indent=nesting.indent,
                    )
                ]
            case BlockQuote():
                return self.blocks(
                    block.blocks, msgspec.structs.replace(nesting, quote=nesting.quote + 1)
                )
            case ListBlock():
                return self._items(block, nesting)
            case TableBlock():
                return self._table(block, nesting)
            case HorizontalRule():
                return [_make_line((TextSpan(text=HORIZONTAL_LINE),), nesting)]

    def _lines(
        self, inlines: tuple[Inline, ...], nesting: _Nesting, *, heading: int = 0
    ) -> Iterator[TextLine]:
        for spans in to_lines(inlines, self._options):
            yield TextLine(spans=spans, quote=nesting.quote, indent=nesting.indent, heading=heading)

    def _items(self, items: ListBlock, nesting: _Nesting) -> list[LayoutItem]:
        found: list[LayoutItem] = []
        airy = any(_is_loose(item) for item in items.items)
        for number, item in enumerate(items.items):
            if number and airy:
                found.append(TextLine(quote=nesting.quote))
            count = None if items.start is None else items.start + number
            found += self._item(item, ListBullet(depth=nesting.depth, number=count), nesting)
        return found

    def _item(self, item: ListItem, bullet: ListBullet, nesting: _Nesting) -> list[LayoutItem]:
        mark = self._options.bullet_text(bullet)
        inside = _Nesting(
            quote=nesting.quote, indent=nesting.indent + len(mark), depth=nesting.depth + 1
        )
        pieces = self.blocks(item.blocks, inside)
        task = () if item.done is None else (TextSpan(text=TASK_DONE if item.done else TASK_OPEN),)
        first = pieces[0] if pieces else None
        if isinstance(first, TextLine) and first.bullet is None and first.quote == nesting.quote:
            pieces = pieces[1:]
        else:  # it begins with code, a quote or another list: its marker has a line of its own
            first = _make_line((), nesting)
        head = msgspec.structs.replace(
            first, spans=(*task, *first.spans), bullet=bullet, indent=nesting.indent
        )
        return [head, *pieces]

    def _table(self, table: TableBlock, nesting: _Nesting) -> list[LayoutItem]:
        rows = [_without_empty_tail(row) for row in table.rows]
        cells = [[visible_text(cell).replace("\n", " ") for cell in row] for row in rows]
        drawn = draw_table(cells)
        width = max(map(len, drawn.split("\n")), default=0)
        linked = any(_has_link(cell) for row in rows for cell in row)
        if width <= self._options.columns and not linked:
            return [PreformattedText(text=drawn, quote=nesting.quote, indent=nesting.indent)]
        return [self._row(row, nesting, head=not number) for number, row in enumerate(rows)]

    def _row(
        self, row: tuple[tuple[Inline, ...], ...], nesting: _Nesting, *, head: bool
    ) -> TextLine:
        spans: list[TextSpan] = []
        for number, cell in enumerate(row):
            if number:
                spans.append(TextSpan(text=COLUMN_SEPARATOR))
            for each in to_spans(cell, self._options):
                span = msgspec.structs.replace(each, text=each.text.replace("\n", " "))
                spans.append(_bold(span) if head else span)
        return _make_line(tuple(spans), nesting)


def to_lines(inlines: tuple[Inline, ...], options: LayoutOptions) -> Iterator[tuple[TextSpan, ...]]:
    """The lines of a paragraph, without empty ones."""
    line: list[TextSpan] = []
    for span in (*to_spans(inlines, options), TextSpan(text="\n")):
        if "\n" not in span.text:
            if span.text:
                line.append(span)
            continue
        for number, text in enumerate(span.text.split("\n")):
            if number:
                if any(each.text.strip() for each in line):
                    yield tuple(line)
                line = []
            if text:
                line.append(msgspec.structs.replace(span, text=text))


def to_spans(
    inlines: tuple[Inline, ...], options: LayoutOptions, styles: frozenset[Emphasis] = frozenset()
) -> Iterator[TextSpan]:
    for each in inlines:
        match each:
            case PlainText():
                yield TextSpan(text=each.text, styles=styles)
            case InlineCode():
                yield TextSpan(text=each.text, styles=styles, code=True)
            case LineBreak():
                yield TextSpan(text="\n")
            case StyledInline():
                yield from to_spans(each.children, options, styles | {each.style})
            case Hyperlink():
                yield from _link_spans(each, options, styles)


def _link_spans(
    link: Hyperlink, options: LayoutOptions, styles: frozenset[Emphasis]
) -> Iterator[TextSpan]:
    mailbox = link.href.lower().startswith(_MAILTO)
    if options.links and (options.mail_links or not mailbox):
        for span in to_spans(link.children, options, styles):
            yield msgspec.structs.replace(span, href=link.href, shows_url=link.shows_url)
        return
    yield from to_spans(link.children, options, styles)
    if not link.shows_url:
        address = link.href[len(_MAILTO) :] if mailbox else link.href
        yield TextSpan(text=f" ({address})", styles=styles)


def _bold(span: TextSpan) -> TextSpan:
    return msgspec.structs.replace(span, styles=span.styles | {Emphasis.BOLD})


def _make_line(spans: tuple[TextSpan, ...], nesting: _Nesting) -> TextLine:
    return TextLine(spans=spans, quote=nesting.quote, indent=nesting.indent)


def _is_loose(item: ListItem) -> bool:
    """Whether it has more than a paragraph and a list below it."""
    rest = [block for block in item.blocks if not isinstance(block, ListBlock)]
    return len(rest) > 1


def _without_empty_tail(row: tuple[tuple[Inline, ...], ...]) -> tuple[tuple[Inline, ...], ...]:
    while row and not visible_text(row[-1]).strip():
        row = row[:-1]
    return row


def _has_link(inlines: tuple[Inline, ...]) -> bool:
    return any(
        isinstance(each, Hyperlink) or (isinstance(each, StyledInline) and _has_link(each.children))
        for each in inlines
    )


class StyledRun(msgspec.Struct, frozen=True, kw_only=True):
    """Text of one style. The space around it is outside of its marks: no dialect accepts a mark
    with space on its inner side."""

    span: TextSpan
    space_before: str
    text: str
    space_after: str


def styled_runs(spans: Sequence[TextSpan], *, bold: bool = False) -> Iterator[StyledRun]:
    """Merge adjacent spans of the same style. With `bold`, all are bold."""
    for span in _merge_spans(_bold(span) if bold else span for span in spans):
        text = span.text.strip()
        if not text:
            yield StyledRun(span=TextSpan(text=""), space_before=span.text, text="", space_after="")
            continue
        at = span.text.index(text)
        yield StyledRun(
            span=span,
            space_before=span.text[:at],
            text=text,
            space_after=span.text[at + len(text) :],
        )


def _merge_spans(spans: Iterator[TextSpan]) -> Iterator[TextSpan]:
    last: TextSpan | None = None
    for span in spans:
        if last is not None and _same_style(last, span):
            both = last.styles & span.styles  # a link is one run, whatever its styles
            last = msgspec.structs.replace(
                last, text=last.text + span.text, styles=both, code=last.code and span.code
            )
            continue
        if last is not None:
            yield last
        last = span
    if last is not None:
        yield last


def _same_style(one: TextSpan, other: TextSpan) -> bool:
    if one.href or other.href:
        return one.href == other.href
    return one.styles == other.styles and not one.code and not other.code


PLAIN_LAYOUT = LayoutOptions(links=False, columns=72)


def render_plain(text: str) -> str:
    """Render as plain text; never empty for a text that is not."""
    return plain_text(parse_markdown(text))


def plain_text(blocks: tuple[Block, ...]) -> str:
    lines: list[str] = []
    for item in lay_out(blocks, PLAIN_LAYOUT):
        prefix = "> " * item.quote + " " * item.indent
        if isinstance(item, PreformattedText):
            lines += [f"{prefix}{line}".rstrip() for line in item.text.split("\n")]
            continue
        if item.bullet is not None:
            prefix += PLAIN_LAYOUT.bullet_text(item.bullet)
        lines.append(f"{prefix}{item.text}".rstrip())
    return "\n".join(lines)
