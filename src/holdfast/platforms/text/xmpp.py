"""XMPP: a body in the marks of Message Styling, or one that says it has none.

XEP-0393 has no way to escape a mark (https://xmpp.org/extensions/xep-0393.html), but it has
`<unstyled/>`: a text that says an asterisk of its own is sent plain, with that hint. A mark stays
visible in what clients show, and stands only behind a space or another mark.
"""

import re
from functools import lru_cache

import msgspec

from holdfast.platforms.text.flow import Line, Look, Piece, Pre, flow
from holdfast.platforms.text.plain import shown
from holdfast.platforms.text.reading import read
from holdfast.platforms.text.styling import Run, runs
from holdfast.platforms.text.tree import Style

_LOOK = Look(links=False, columns=72)
_MARKS = {Style.STRIKE: "~", Style.ITALIC: "_", Style.BOLD: "*"}
_MARK = re.compile(r"[*_~`]")
_OPENS = re.compile(r"(?:^|[\s*_~`])[*_~`](?=\S|$)")


class XmppText(msgspec.Struct, frozen=True, kw_only=True):
    body: str
    styled: bool = True  # False: it goes with `<unstyled xmlns="urn:xmpp:styling:0"/>`


@lru_cache(maxsize=4)  # what was measured is sent next
def render(text: str) -> XmppText:
    """Never empty where the text is not."""
    blocks = read(text)
    lines = [_piece(piece) for piece in flow(blocks, _LOOK)]
    styled = [line for line in lines if line is not None]
    if len(styled) < len(lines):
        return XmppText(body=shown(blocks), styled=False)
    return XmppText(body="\n".join(styled).strip())


def fits(text: str, *, limit: int) -> bool:
    return len(render(text).body) <= limit


def _piece(piece: Piece) -> str | None:
    """None: a client would read words of it as marks."""
    quote = "> " * piece.quote
    if isinstance(piece, Pre):
        return _fenced(piece, quote)
    ahead = quote + " " * piece.indent
    if piece.bullet is not None:
        ahead += _LOOK.mark(piece.bullet)
    line = _line(piece)
    if line is None or (not ahead and line.startswith(">")):
        return None
    return (ahead + line).rstrip()


def _fenced(pre: Pre, quote: str) -> str | None:
    lines = pre.text.split("\n")
    if any(line.lstrip("> ").startswith("```") for line in lines):
        return None
    return "\n".join(quote + line for line in ("```", *lines, "```"))


def _line(line: Line) -> str | None:
    written = ""
    pieces = list(runs(line.spans, bold=bool(line.heading)))
    for number, run in enumerate(pieces):
        before = written + run.ahead
        after = run.behind + "".join(each.ahead + each.text for each in pieces[number + 1 :][:1])
        stands_alone = (not before or before[-1].isspace()) and not after[:1].isalnum()
        marks = _marks(run) if stands_alone else ""
        if _is_mistaken(run, marks):
            return None
        written = before + marks + run.text + marks[::-1] + run.behind
    return written


def _is_mistaken(run: Run, marks: str) -> bool:
    if marks == "`":
        return "`" in run.text
    # Within marks, any other could be taken for the one that closes them.
    return (_MARK if marks else _OPENS).search(run.text) is not None


def _marks(run: Run) -> str:
    if not run.text:
        return ""
    if run.span.code:
        return "`"
    return "".join(mark for style, mark in _MARKS.items() if style in run.span.styles)
