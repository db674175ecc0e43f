"""HTML: a tree in the few tags that Matrix clients and mail readers agree on."""

from collections.abc import Iterable
from html import escape

import msgspec

from holdfast.platforms.text.flow import DONE, OPEN
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
)

_TAGS = {Style.BOLD: "strong", Style.ITALIC: "em", Style.STRIKE: "del"}


def html_of(blocks: Iterable[Block]) -> str:
    """Well formed, whatever the text says: no sign of it becomes a tag or an attribute."""
    return "".join(_block(block) for block in blocks)


def _block(block: Block) -> str:
    match block:
        case Paragraph():
            return _in("p", inline_html(block.inlines))
        case Heading():
            return _in(f"h{block.level}", inline_html(block.inlines))
        case CodeBlock():
            kind = f' class="language-{escape(block.language)}"' if block.language else ""
            return f"<pre><code{kind}>{escape(block.text, quote=False)}\n</code></pre>"
        case Quote():
            return _in("blockquote", html_of(block.blocks))
        case Items():
            return _items(block)
        case Table():
            return _table(block)
        case Rule():
            return "<hr>"


def _items(items: Items) -> str:
    inside = "".join(_in("li", _item(item)) for item in items.items)
    if items.start is None:
        return _in("ul", inside)
    return f'<ol start="{items.start}">{inside}</ol>' if items.start != 1 else _in("ol", inside)


def _item(item: Item) -> str:
    """A lone paragraph goes without its tag, as a tight list is shown."""
    task = "" if item.done is None else DONE if item.done else OPEN
    first, *rest = item.blocks or (Paragraph(()),)
    if isinstance(first, Paragraph) and not any(isinstance(each, Paragraph) for each in rest):
        return task + inline_html(first.inlines) + html_of(rest)
    return task + html_of(item.blocks)


def _table(table: Table) -> str:
    head, *body = table.rows
    shown = _in("thead", _row(head, "th"))
    if body:
        shown += _in("tbody", "".join(_row(row, "td") for row in body))
    return _in("table", shown)


def _row(row: tuple[tuple[Inline, ...], ...], tag: str) -> str:
    return _in("tr", "".join(_in(tag, inline_html(cell)) for cell in row))


def inline_html(inlines: Iterable[Inline]) -> str:
    return "".join(_inline(each) for each in inlines)


def _inline(inline: Inline) -> str:
    match inline:
        case Words():
            return escape(inline.text, quote=False)
        case Code():
            return _in("code", escape(inline.text, quote=False))
        case Break():
            return "<br>"
        case Styled():
            return _in(_TAGS[inline.style], inline_html(inline.children))
        case Link():
            return f'<a href="{escape(inline.href)}">{inline_html(inline.children)}</a>'


def _in(tag: str, inside: str) -> str:
    return f"<{tag}>{inside}</{tag}>"


def is_unformatted(blocks: tuple[Block, ...]) -> bool:
    """Nothing in it is more than words and lines."""
    return all(
        isinstance(block, Paragraph)
        and all(isinstance(each, Words | Break) for each in block.inlines)
        for block in blocks
    )


class Both(msgspec.Struct, frozen=True, kw_only=True):
    """A text in letters alone, and in HTML for who can show it; "": it would show no more."""

    plain: str
    html: str = ""
