"""Renders Markdown for IRC: one line per message, limited in bytes, with the control codes that
most clients show.

A message has 512 bytes including the prefix that the server adds and the line end
(https://modern.ircdocs.horse/#message-format), so the room for the text depends on sender and
target. The codes: https://modern.ircdocs.horse/formatting.
"""

from collections.abc import Iterator

from holdfast.core.ports.capabilities import LengthUnit
from holdfast.core.text.splitting import fitting_prefix, grapheme_boundary, message_length
from holdfast.platforms.text.layout import (
    LayoutOptions,
    PreformattedText,
    TextLine,
    TextSpan,
    lay_out,
)
from holdfast.platforms.text.markdown import Emphasis, parse_markdown

MAX_LINE_BYTES = 400  # bytes of a line if nothing more is known
_LAYOUT = LayoutOptions(links=False, columns=72)
_CODES = {Emphasis.BOLD: "\x02", Emphasis.ITALIC: "\x1d", Emphasis.STRIKE: "\x1e"}
_MIN_LINE_BYTES = 16


def render(text: str, *, limit: int = MAX_LINE_BYTES) -> tuple[str, ...]:
    """The lines, in order; none is empty or longer than the limit."""
    limit = max(limit, _MIN_LINE_BYTES)
    lines: list[str] = []
    for piece in lay_out(parse_markdown(text), _LAYOUT):
        if piece == TextLine(quote=piece.quote):
            continue  # an empty line, which IRC cannot send
        ahead = "> " * piece.quote + " " * piece.indent
        if isinstance(piece, PreformattedText):
            for line in piece.text.split("\n"):
                lines += _wrap_lines(ahead, "", (TextSpan(text=line),), limit)
        else:
            mark = _LAYOUT.bullet_text(piece.bullet) if piece.bullet else ""
            lines += _wrap_lines(ahead, mark, _bold_heading(piece), limit)
    return tuple(line for line in lines if line.strip())


def _bold_heading(line: TextLine) -> tuple[TextSpan, ...]:
    if not line.heading:
        return line.spans
    return tuple(
        TextSpan(text=span.text, styles=span.styles | {Emphasis.BOLD}) for span in line.spans
    )


def _wrap_lines(prefix: str, mark: str, spans: tuple[TextSpan, ...], limit: int) -> Iterator[str]:
    """`mark` precedes the first line, and the others are indented below its text."""
    room = limit - _byte_length(prefix + mark)
    if room < _MIN_LINE_BYTES:  # nested so deeply that there is no room for text
        prefix, mark, room = "", "", limit
    for number, line in enumerate(_wrap(spans, room)):
        yield (prefix + (" " * len(mark) if number else mark) + line).rstrip(" ")


def _wrap(spans: tuple[TextSpan, ...], max_bytes: int) -> Iterator[str]:
    """As many lines as necessary, broken at spaces if possible; every style is opened anew."""
    line = ""
    for span in spans:
        codes = "".join(_CODES[style] for style in _CODES if style in span.styles)
        text = span.text.replace("\t", "    ")
        while text:
            left = max_bytes - _byte_length(line) - 2 * len(codes)
            if at := _break_at(text, left, whole=not line.strip()):
                line += f"{codes}{text[:at]}{codes}"
                text = text[at:]
            if text:
                yield line
                line, text = "", text.lstrip(" ")
    yield line


def _break_at(text: str, left: int, *, whole: bool) -> int:
    """How much of the text fits a line that has so many bytes left. `whole`: the line is empty, and
    a word that is longer than it is cut."""
    end = fitting_prefix(text, max(left, 0), LengthUnit.BYTES)
    if end == len(text):
        return end
    space = text.rfind(" ", 0, end + 1)
    if space > 0:
        return space + 1 if space < end else space
    return grapheme_boundary(text, end) if whole else 0


def _byte_length(text: str) -> int:
    return message_length(text, LengthUnit.BYTES)
