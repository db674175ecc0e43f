"""Slack's mrkdwn: the text beside the blocks, for notifications and for clients without them.

https://docs.slack.dev/messaging/formatting-message-text: `&`, `<` and `>` are escaped; an asterisk
cannot be, so one that would begin a word in bold is kept from it by a space without width.
"""

import re

from holdfast.platforms.text.flow import (
    LayoutItem,
    LayoutOptions,
    PreformattedText,
    TextLine,
    lay_out,
)
from holdfast.platforms.text.styling import StyledRun, styled_runs
from holdfast.platforms.text.tree import Block, Emphasis

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
        # Three ticks within would close it, and so would one that touches those of its end.
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
