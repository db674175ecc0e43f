"""IRC: one line a message, in bytes, with the control codes that most clients show.

A message has 512 bytes with the prefix that the server sets before it and the line's end
(https://modern.ircdocs.horse/#message-format), so what is left for the text depends on who says it
where. The codes: https://modern.ircdocs.horse/formatting.
"""

from collections.abc import Iterator

from holdfast.core.ports.capabilities import LengthUnit
from holdfast.core.text.graphemes import grapheme_start
from holdfast.core.text.length import length, reach
from holdfast.platforms.text.flow import Line, Look, Pre, Span, flow
from holdfast.platforms.text.reading import read
from holdfast.platforms.text.tree import Style

LONGEST = 400  # bytes of a line where nothing more is known
_LOOK = Look(links=False, columns=72)
_CODES = {Style.BOLD: "\x02", Style.ITALIC: "\x1d", Style.STRIKE: "\x1e"}
_LEAST = 16


def render(text: str, *, limit: int = LONGEST) -> tuple[str, ...]:
    """The lines, in order; none is empty, and none is longer than the limit."""
    limit = max(limit, _LEAST)
    lines: list[str] = []
    for piece in flow(read(text), _LOOK):
        if piece == Line(quote=piece.quote):
            continue  # an empty line, of which IRC has none
        ahead = "> " * piece.quote + " " * piece.indent
        if isinstance(piece, Pre):
            for line in piece.text.split("\n"):
                lines += _lines(ahead, "", (Span(text=line),), limit)
        else:
            mark = _LOOK.mark(piece.bullet) if piece.bullet else ""
            lines += _lines(ahead, mark, _spans(piece), limit)
    return tuple(line for line in lines if line.strip())


def _spans(line: Line) -> tuple[Span, ...]:
    if not line.heading:
        return line.spans
    return tuple(Span(text=span.text, styles=span.styles | {Style.BOLD}) for span in line.spans)


def _lines(ahead: str, mark: str, spans: tuple[Span, ...], limit: int) -> Iterator[str]:
    """`mark` stands before the first of them, and the others below its words."""
    room = limit - _bytes(ahead + mark)
    if room < _LEAST:  # nested so deep that this would be all there is
        ahead, mark, room = "", "", limit
    for number, line in enumerate(_broken(spans, room)):
        yield (ahead + (" " * len(mark) if number else mark) + line).rstrip(" ")


def _broken(spans: tuple[Span, ...], room: int) -> Iterator[str]:
    """As many lines as it takes: at a space where there is one, and every style begun anew."""
    line = ""
    for span in spans:
        codes = "".join(_CODES[style] for style in Style if style in span.styles)
        text = span.text.replace("\t", "    ")
        while text:
            left = room - _bytes(line) - 2 * len(codes)
            if at := _fitting(text, left, whole=not line.strip()):
                line += f"{codes}{text[:at]}{codes}"
                text = text[at:]
            if text:
                yield line
                line, text = "", text.lstrip(" ")
    yield line


def _fitting(text: str, left: int, *, whole: bool) -> int:
    """How much of the text goes on a line that has so many bytes left. `whole`: the line is empty,
    and a word that is longer than it is cut through."""
    end = reach(text, max(left, 0), LengthUnit.BYTES)
    if end == len(text):
        return end
    space = text.rfind(" ", 0, end + 1)
    if space > 0:
        return space + 1 if space < end else space
    return grapheme_start(text, end) if whole else 0


def _bytes(text: str) -> int:
    return length(text, LengthUnit.BYTES)
