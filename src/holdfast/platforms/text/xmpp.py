"""XMPP: a body in the marks of Message Styling, or one that says it has none.

XEP-0393 has no way to escape a mark (https://xmpp.org/extensions/xep-0393.html), but it has
`<unstyled/>`: a text that says an asterisk of its own is sent plain, with that hint. A mark stays
visible in what clients show, and stands only behind a space or another mark.
"""

import re
from functools import lru_cache

import msgspec

from holdfast.platforms.text.flow import Line, Look, Piece, Pre, Span, flow
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
    pieces = flow(blocks, _LOOK)
    if any(_is_read(piece) for piece in pieces):
        return XmppText(body=shown(blocks), styled=False)
    return XmppText(body="\n".join(_piece(piece) for piece in pieces).strip())


def fits(text: str, *, limit: int) -> bool:
    return len(render(text).body) <= limit


def _is_read(piece: Piece) -> bool:
    """A client would read words of it as marks."""
    if isinstance(piece, Pre):
        return any(line.lstrip("> ").startswith("```") for line in piece.text.split("\n"))
    return piece.text.startswith(">") or any(
        _is_mistaken(span, marked=bool(piece.heading or span.styles)) for span in piece.spans
    )


def _is_mistaken(span: Span, *, marked: bool) -> bool:
    if span.code:
        return "`" in span.text
    if marked:  # any mark within it could be taken for the one that closes it
        return _MARK.search(span.text) is not None
    return _OPENS.search(span.text) is not None


def _piece(piece: Piece) -> str:
    quote = "> " * piece.quote
    if isinstance(piece, Pre):
        fenced = f"```\n{piece.text}\n```"
        return "\n".join(quote + line for line in fenced.split("\n"))
    ahead = quote + " " * piece.indent
    if piece.bullet is not None:
        ahead += _LOOK.mark(piece.bullet)
    return (ahead + _line(piece)).rstrip()


def _line(line: Line) -> str:
    written = ""
    pieces = list(runs(line.spans, bold=bool(line.heading)))
    for number, run in enumerate(pieces):
        after = run.behind + "".join(each.ahead + each.text for each in pieces[number + 1 :][:1])
        free = not (written + run.ahead) or (written + run.ahead)[-1].isspace()
        ends = not after or not after[0].isalnum()
        marks = _marks(run) if free and ends else ""
        written += run.ahead + marks + run.text + marks[::-1] + run.behind
    return written


def _marks(run: Run) -> str:
    if not run.text:
        return ""
    if run.span.code:
        return "`"
    return "".join(mark for style, mark in _MARKS.items() if style in run.span.styles)
