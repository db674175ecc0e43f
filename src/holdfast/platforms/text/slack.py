"""Renders Markdown for Slack: a rich text block, and mrkdwn for notifications and clients that show
no blocks.

mrkdwn can escape only `&`, `<` and `>`, so a zero-width space in front of other characters prevents
that they begin a style. Rich text has its styles beside the text, and "is strongly preferred"
(https://docs.slack.dev/reference/block-kit/blocks/rich-text-block). The text beside the block is
what notifications show (https://docs.slack.dev/messaging/formatting-message-text).
"""

import re
from functools import lru_cache
from typing import Any

import msgspec

from holdfast.platforms.text.layout import (
    LayoutItem,
    LayoutOptions,
    ListBullet,
    PreformattedText,
    StyledRun,
    TextLine,
    TextSpan,
    lay_out,
    styled_runs,
)
from holdfast.platforms.text.markdown import Block, Emphasis, parse_markdown

ZERO_WIDTH_SPACE = "\u200b"
_MRKDWN_LAYOUT = LayoutOptions(columns=64)
_MARKS = {Emphasis.STRIKE: "~", Emphasis.ITALIC: "_", Emphasis.BOLD: "*"}
_TICKS = re.compile(r"`(?=`|$)")
_WOULD_OPEN = re.compile(r"(?<!\w)([*_~`])(?=[^\s\u200b])")


def render_mrkdwn(blocks: tuple[Block, ...]) -> str:
    return "\n".join(_mrkdwn_item(piece) for piece in lay_out(blocks, _MRKDWN_LAYOUT)).strip()


def escape_mrkdwn(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _mrkdwn_item(piece: LayoutItem) -> str:
    quote = "> " if piece.quote else ""
    if isinstance(piece, PreformattedText):
        # Three ticks inside would close it, and so would one that touches those of its end.
        text = _TICKS.sub(f"`{ZERO_WIDTH_SPACE}", escape_mrkdwn(piece.text))
        return "\n".join(quote + line for line in f"```\n{text}\n```".split("\n"))
    ahead = quote + "│ " * (piece.quote - 1) + " " * piece.indent
    if piece.bullet is not None:
        ahead += _MRKDWN_LAYOUT.bullet_text(piece.bullet)
    return (ahead + _mrkdwn_line(piece)).rstrip()


def _mrkdwn_line(line: TextLine) -> str:
    written = ""
    for run in styled_runs(line.spans, bold=bool(line.heading)):
        before = (written + run.space_before)[-1:]
        marks = _mrkdwn_marks(run) if not before or not before.isalnum() else ""
        written += run.space_before + marks + _mrkdwn_text(run) + marks[::-1] + run.space_after
    return written


def _mrkdwn_text(run: StyledRun) -> str:
    if run.span.href:
        address = escape_mrkdwn(run.span.href).replace("|", "%7C")
        words = escape_mrkdwn(run.text).replace("|", "¦")
        return f"<{address}>" if run.text == run.span.href else f"<{address}|{words}>"
    if run.span.code:
        return escape_mrkdwn(run.text).replace("`", f"{ZERO_WIDTH_SPACE}`{ZERO_WIDTH_SPACE}")
    return _WOULD_OPEN.sub(rf"\1{ZERO_WIDTH_SPACE}", escape_mrkdwn(run.text))


def _mrkdwn_marks(run: StyledRun) -> str:
    if not run.text or run.span.href:
        return ""
    if run.span.code:
        return "`"
    return "".join(mark for style, mark in _MARKS.items() if style in run.span.styles)


MAX_LENGTH = (
    4000  # characters: "for best results, limit the number of characters in the text field"
)
_MAX_INDENT = 8  # indents that a client shows
_BLOCK_LAYOUT = LayoutOptions(columns=64)

Json = dict[str, Any]


class SlackText(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `chat.postMessage` and `chat.update`, by their names."""

    text: str
    blocks: tuple[Json, ...]


@lru_cache(maxsize=4)  # the text that was measured is sent next
def render(text: str) -> SlackText:
    """Render a text; never empty for a text that is not."""
    tree = parse_markdown(text)
    return SlackText(text=render_mrkdwn(tree), blocks=_rich_text_blocks(tree))


def fits(text: str, *, limit: int = MAX_LENGTH) -> bool:
    return len(render(text).text) <= limit


def _rich_text_blocks(tree: tuple[Block, ...]) -> tuple[Json, ...]:
    elements = _RichTextBuilder()
    for piece in lay_out(tree, _BLOCK_LAYOUT):
        elements.add(piece)
    found = elements.build()
    return ({"type": "rich_text", "elements": found},) if found else ()


class _RichTextBuilder:
    """Owns the elements so far; adjacent lines of the same kind form one element."""

    def __init__(self) -> None:
        self._found: list[Json] = []
        self._kind = ""
        self._number = 0  # of the last item
        self._gap = False

    def add(self, piece: LayoutItem) -> None:
        if isinstance(piece, PreformattedText):
            self._gap = False
            self._add("rich_text_preformatted", [{"type": "text", "text": piece.text}])
        elif not piece.spans and piece.bullet is None:
            self._gap = True
        elif piece.bullet is not None and _has_list_form(piece, piece.bullet):
            self._gap = False
            self._item(piece, piece.bullet)
        else:
            self._text(piece)

    def _item(self, line: TextLine, bullet: ListBullet) -> None:
        style = "bullet" if bullet.number is None else "ordered"
        section = {
            "type": "rich_text_section",
            "elements": _span_elements(line) or [_text_element(" ")],
        }
        kind = f"{style} {bullet.depth}"
        goes_on = bullet.number is None or bullet.number == self._number + 1
        self._number = bullet.number or 0
        if kind == self._kind and goes_on:
            self._found[-1]["elements"].append(section)
            return
        self._add("rich_text_list", [section], kind=kind)
        self._found[-1] |= {"style": style, "indent": min(bullet.depth, _MAX_INDENT)}
        if bullet.number is not None and bullet.number > 1:
            self._found[-1]["offset"] = bullet.number - 1

    def _text(self, line: TextLine) -> None:
        kind = "rich_text_quote" if line.quote else "rich_text_section"
        spans = _span_elements(line)
        if (line.quote or line.bullet) and (ahead := _line_prefix(line)):
            spans = [_text_element(ahead), *spans]
        if kind == self._kind:
            self._found[-1]["elements"] += [_text_element("\n\n" if self._gap else "\n"), *spans]
        else:
            self._add(kind, spans)
        self._gap = False

    def _add(self, type_: str, elements: list[Json], *, kind: str = "") -> None:
        self._kind = kind or type_
        self._found.append({"type": type_, "elements": elements})

    def build(self) -> list[Json]:
        return self._found


def _has_list_form(line: TextLine, bullet: ListBullet) -> bool:
    """Whether Slack has a list for it: not in a quote, and not one that starts at zero."""
    return not line.quote and bullet.number != 0


def _line_prefix(line: TextLine) -> str:
    """The marks of lists and quotes inside a quote, which Slack cannot nest, as text."""
    mark = _BLOCK_LAYOUT.bullet_text(line.bullet) if line.bullet else ""
    return "│ " * (line.quote - 1) + " " * line.indent + mark


def _span_elements(line: TextLine) -> list[Json]:
    return [_span_element(span, bold=bool(line.heading)) for span in line.spans if span.text]


def _span_element(span: TextSpan, *, bold: bool) -> Json:
    found = {"type": "link", "url": span.href} if span.href else {"type": "text"}
    style = {each.value: True for each in span.styles}
    if bold:
        style["bold"] = True
    if span.code:
        style["code"] = True
    return {**found, "text": span.text, **({"style": style} if style else {})}


def _text_element(text: str) -> Json:
    return {"type": "text", "text": text}
