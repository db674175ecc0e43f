"""Renders Markdown for XMPP: a body in Message Styling, or one that is marked as unstyled.

XEP-0393 has no way to escape a mark (https://xmpp.org/extensions/xep-0393.html), but it has
`<unstyled/>`: a text with an asterisk of its own is sent plain, with that hint. Clients show the
marks themselves, too, and read a mark only after a space or another mark.
"""

import re
from functools import lru_cache

import msgspec

from holdfast.platforms.text.layout import (
    LayoutItem,
    LayoutOptions,
    PreformattedText,
    StyledRun,
    TextLine,
    lay_out,
    plain_text,
    styled_runs,
)
from holdfast.platforms.text.markdown import Emphasis, parse_markdown

_LAYOUT = LayoutOptions(links=False, columns=72)
_MARKS = {Emphasis.STRIKE: "~", Emphasis.ITALIC: "_", Emphasis.BOLD: "*"}
_MARKUP = re.compile(r"[*_~`]")
_OPENING_MARKUP = re.compile(r"(?:^|[\s*_~`])[*_~`](?=\S|$)")


class XmppText(msgspec.Struct, frozen=True, kw_only=True):
    body: str
    styled: bool = True  # False: sent with `<unstyled xmlns="urn:xmpp:styling:0"/>`


@lru_cache(maxsize=4)  # the text that was measured is sent next
def render(text: str) -> XmppText:
    """Render a text; never empty for a text that is not."""
    blocks = parse_markdown(text)
    lines = [_render_item(piece) for piece in lay_out(blocks, _LAYOUT)]
    styled = [line for line in lines if line is not None]
    if len(styled) < len(lines):
        return XmppText(body=plain_text(blocks), styled=False)
    return XmppText(body="\n".join(styled).strip())


def fits(text: str, *, limit: int) -> bool:
    return len(render(text).body) <= limit


def _render_item(piece: LayoutItem) -> str | None:
    """Render an item; None if a client would read words of it as marks."""
    quote = "> " * piece.quote
    if isinstance(piece, PreformattedText):
        return _code_block(piece, quote)
    ahead = quote + " " * piece.indent
    if piece.bullet is not None:
        ahead += _LAYOUT.bullet_text(piece.bullet)
    line = _render_line(piece)
    if line is None or (not ahead and line.startswith(">")):
        return None
    return (ahead + line).rstrip()


def _code_block(pre: PreformattedText, quote: str) -> str | None:
    lines = pre.text.split("\n")
    if any(line.lstrip("> ").startswith("```") for line in lines):
        return None
    return "\n".join(quote + line for line in ("```", *lines, "```"))


def _render_line(line: TextLine) -> str | None:
    written = ""
    pieces = list(styled_runs(line.spans, bold=bool(line.heading)))
    for number, run in enumerate(pieces):
        before = written + run.space_before
        after = run.space_after + "".join(
            each.space_before + each.text for each in pieces[number + 1 :][:1]
        )
        isolated = (not before or before[-1].isspace()) and not after[:1].isalnum()
        marks = _marks(run) if isolated else ""
        if _is_ambiguous(run, marks):
            return None
        written = before + marks + run.text + marks[::-1] + run.space_after
    return written


def _is_ambiguous(run: StyledRun, marks: str) -> bool:
    if marks == "`":
        return "`" in run.text
    # Inside marks, any other could be taken for the closing one.
    return (_MARKUP if marks else _OPENING_MARKUP).search(run.text) is not None


def _marks(run: StyledRun) -> str:
    if not run.text:
        return ""
    if run.span.code:
        return "`"
    return "".join(mark for style, mark in _MARKS.items() if style in run.span.styles)
