"""Slack's mrkdwn: the text beside the blocks, for notifications and for clients without them.

https://docs.slack.dev/messaging/formatting-message-text: `&`, `<` and `>` are escaped; an asterisk
cannot be, so one that would begin a word in bold is kept from it by a space without width.
"""

import re

from holdfast.platforms.text.flow import Line, Look, Piece, Pre, flow
from holdfast.platforms.text.styling import Run, runs
from holdfast.platforms.text.tree import Block, Style

APART = "\u200b"
_LOOK = Look(columns=64)
_MARKS = {Style.STRIKE: "~", Style.ITALIC: "_", Style.BOLD: "*"}
_TICKS = re.compile(r"`(?=`|$)")
_WOULD_OPEN = re.compile(r"(?<!\w)([*_~`])(?=[^\s\u200b])")


def mrkdwn(blocks: tuple[Block, ...]) -> str:
    return "\n".join(_piece(piece) for piece in flow(blocks, _LOOK)).strip()


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _piece(piece: Piece) -> str:
    quote = "> " if piece.quote else ""
    if isinstance(piece, Pre):
        # Three ticks within would close it, and so would one that touches those of its end.
        text = _TICKS.sub(f"`{APART}", escaped(piece.text))
        return "\n".join(quote + line for line in f"```\n{text}\n```".split("\n"))
    ahead = quote + "│ " * (piece.quote - 1) + " " * piece.indent
    if piece.bullet is not None:
        ahead += _LOOK.mark(piece.bullet)
    return (ahead + _line(piece)).rstrip()


def _line(line: Line) -> str:
    written = ""
    for run in runs(line.spans, bold=bool(line.heading)):
        before = (written + run.ahead)[-1:]
        marks = _marks(run) if not before or not before.isalnum() else ""
        written += run.ahead + marks + _words(run) + marks[::-1] + run.behind
    return written


def _words(run: Run) -> str:
    if run.span.href:
        address = escaped(run.span.href).replace("|", "%7C")
        words = escaped(run.text).replace("|", "¦")
        return f"<{address}>" if run.text == run.span.href else f"<{address}|{words}>"
    if run.span.code:
        return escaped(run.text).replace("`", f"{APART}`{APART}")
    return _WOULD_OPEN.sub(rf"\1{APART}", escaped(run.text))


def _marks(run: Run) -> str:
    if not run.text or run.span.href:
        return ""
    if run.span.code:
        return "`"
    return "".join(mark for style, mark in _MARKS.items() if style in run.span.styles)
