"""Renders Markdown as HTML with the few tags that Matrix clients and mail readers both support, and
as plain text.

Matrix: `formatted_body` is set only if it shows more than `body`
(https://spec.matrix.org/latest/client-server-api/#mroommessage-msgtypes). An event may have 65,536
bytes with everything that a server adds to it (…/#size-limits), so both bodies together, as JSON,
must be well below that.

E-mail: `text/plain` and `text/html` of one message, neither with a maximum length. The HTML has no
styles, pictures or scripts: mail readers remove them, and they would tell a sender that the mail
was opened.
"""

from collections.abc import Iterable
from functools import lru_cache
from html import escape

import msgspec

from holdfast.platforms.text.layout import TASK_DONE, TASK_OPEN, plain_text
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
)

# Bytes of both bodies as JSON; an edit contains them twice, so its limit is half of that.
MATRIX_MAX_BYTES = 56_000

_TAGS = {Emphasis.BOLD: "strong", Emphasis.ITALIC: "em", Emphasis.STRIKE: "del"}


def blocks_to_html(blocks: Iterable[Block]) -> str:
    """Well-formed for every text: none of its characters becomes a tag or an attribute."""
    return "".join(_block_html(block) for block in blocks)


def _block_html(block: Block) -> str:
    match block:
        case Paragraph():
            return _element("p", inlines_to_html(block.inlines))
        case Heading():
            return _element(f"h{block.level}", inlines_to_html(block.inlines))
        case CodeBlock():
            kind = f' class="language-{escape(block.language)}"' if block.language else ""
            return f"<pre><code{kind}>{escape(block.text, quote=False)}\n</code></pre>"
        case BlockQuote():
            return _element("blockquote", blocks_to_html(block.blocks))
        case ListBlock():
            return _list_html(block)
        case TableBlock():
            return _table_html(block)
        case HorizontalRule():
            return "<hr>"


def _list_html(items: ListBlock) -> str:
    inside = "".join(_element("li", _item_html(item)) for item in items.items)
    if items.start is None:
        return _element("ul", inside)
    return (
        f'<ol start="{items.start}">{inside}</ol>' if items.start != 1 else _element("ol", inside)
    )


def _item_html(item: ListItem) -> str:
    """A single paragraph has no tag of its own, as in a tight list."""
    task = "" if item.done is None else TASK_DONE if item.done else TASK_OPEN
    first, *rest = item.blocks or (Paragraph(()),)
    if isinstance(first, Paragraph) and not any(isinstance(each, Paragraph) for each in rest):
        return task + inlines_to_html(first.inlines) + blocks_to_html(rest)
    return task + blocks_to_html(item.blocks)


def _table_html(table: TableBlock) -> str:
    head, *body = table.rows
    shown = _element("thead", _row_html(head, "th"))
    if body:
        shown += _element("tbody", "".join(_row_html(row, "td") for row in body))
    return _element("table", shown)


def _row_html(row: tuple[tuple[Inline, ...], ...], tag: str) -> str:
    return _element("tr", "".join(_element(tag, inlines_to_html(cell)) for cell in row))


def inlines_to_html(inlines: Iterable[Inline]) -> str:
    return "".join(_inline_html(each) for each in inlines)


def _inline_html(inline: Inline) -> str:
    match inline:
        case PlainText():
            return escape(inline.text, quote=False)
        case InlineCode():
            return _element("code", escape(inline.text, quote=False))
        case LineBreak():
            return "<br>"
        case StyledInline():
            return _element(_TAGS[inline.style], inlines_to_html(inline.children))
        case Hyperlink():
            return f'<a href="{escape(inline.href)}">{inlines_to_html(inline.children)}</a>'


def _element(tag: str, inside: str) -> str:
    return f"<{tag}>{inside}</{tag}>"


def is_unformatted(blocks: tuple[Block, ...]) -> bool:
    """Whether it is only text and line breaks."""
    return all(
        isinstance(block, Paragraph)
        and all(isinstance(each, PlainText | LineBreak) for each in block.inlines)
        for block in blocks
    )


class PlainAndHtml(msgspec.Struct, frozen=True, kw_only=True):
    """A plain text, and the same as HTML; "" if the HTML would show no more."""

    plain: str
    html: str = ""


@lru_cache(maxsize=4)  # the text that was measured is sent next
def render_matrix(text: str) -> PlainAndHtml:
    """Render for Matrix; never empty for a text that is not."""
    blocks = parse_markdown(text)
    plain = plain_text(blocks)
    return PlainAndHtml(plain=plain, html="" if is_unformatted(blocks) else blocks_to_html(blocks))


def fits_matrix(text: str, *, limit: int = MATRIX_MAX_BYTES // 2) -> bool:
    both = render_matrix(text)
    return len(msgspec.json.encode((both.plain, both.html))) <= limit


def render_email(text: str) -> PlainAndHtml:
    """Render for e-mail; never empty for a text that is not. Without formatting there is no
    HTML."""
    blocks = parse_markdown(text)
    plain = plain_text(blocks)
    if is_unformatted(blocks):
        return PlainAndHtml(plain=plain)
    head = '<html><head><meta charset="utf-8"></head><body>'
    return PlainAndHtml(
        plain=plain, html=f"<!DOCTYPE html>{head}{blocks_to_html(blocks)}</body></html>"
    )
