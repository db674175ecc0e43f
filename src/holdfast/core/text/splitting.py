"""Splits a Markdown text into messages of a maximum length, at the best places."""

import re
import unicodedata
from collections.abc import Callable, Iterator

import msgspec

from holdfast.core.ports.capabilities import LengthUnit
from holdfast.core.text.markdown import (
    MarkdownLine,
    MarkdownSpan,
    OpenBlock,
    quote_prefix,
    scan_lines,
    scan_spans,
)

_JOINER = "\u200d"
_EXTENDING = frozenset(("Mn", "Me", "Mc"))  # accents, vowel signs, variation selectors


def grapheme_boundary(text: str, at: int, *, after: int = 0) -> int:
    """The last position at or before `at`, and after `after`, at which no grapheme is cut. A
    grapheme longer than that range is cut at `at`."""
    position = at
    while position > after and _is_one_grapheme(text, position):
        position -= 1
    return position if position > after else at


def _is_one_grapheme(text: str, at: int) -> bool:
    """Whether the code points around `at` are one visible character: the rules of Unicode's Annex
    29 as far as they need no table of their own."""
    if not 0 < at < len(text):
        return False
    before, behind = text[at - 1], text[at]
    if behind < "\u0300":
        return before == "\r" and behind == "\n"
    if _is_extending(behind) or (before == _JOINER and not behind.isspace()):
        return True
    if _is_flag_letter(behind):
        return _count_flag_letters(text, at) % 2 == 1
    return _is_surrogate_pair(before, behind) or _is_hangul_syllable(ord(before), ord(behind))


def _is_extending(char: str) -> bool:
    code = ord(char)
    return (
        unicodedata.category(char) in _EXTENDING
        or char in (_JOINER, "\u200c")
        or 0x1F3FB <= code <= 0x1F3FF  # skin tones
        or 0xE0020 <= code <= 0xE007F  # the letters of a region's flag
    )


def _is_flag_letter(char: str) -> bool:
    return 0x1F1E6 <= ord(char) <= 0x1F1FF


def _count_flag_letters(text: str, at: int) -> int:
    """Two letters are a flag, so the number of letters before matters."""
    count = 0
    while at > 0 and _is_flag_letter(text[at - 1]):
        count, at = count + 1, at - 1
    return count


def _is_surrogate_pair(before: str, behind: str) -> bool:
    """Whether the two are halves of one character, as a broken stream may deliver them."""
    return "\ud800" <= before <= "\udbff" and "\udc00" <= behind <= "\udfff"


def _is_hangul_syllable(before: int, behind: int) -> bool:
    """Hangul that is spelt in letters: first, vowel, last."""
    vowel = 0x1160 <= behind <= 0x11A7
    last = 0x11A8 <= behind <= 0x11FF
    if 0x1100 <= before <= 0x115F:
        return vowel or 0x1100 <= behind <= 0x115F or 0xAC00 <= behind <= 0xD7A3
    if 0xAC00 <= before <= 0xD7A3:
        open_ended = (before - 0xAC00) % 28 == 0
        return last or (vowel and open_ended)
    if 0x1160 <= before <= 0x11A7:
        return vowel or last
    return last and 0x11A8 <= before <= 0x11FF


def message_length(text: str, unit: LengthUnit = LengthUnit.CHARACTERS) -> int:
    if unit is LengthUnit.CHARACTERS or text.isascii():
        return len(text)
    if unit is LengthUnit.UTF16:
        return len(text.encode("utf-16-le", "surrogatepass")) // 2
    return len(text.encode("utf-8", "surrogatepass"))


def fitting_prefix(text: str, limit: int, unit: LengthUnit = LengthUnit.CHARACTERS) -> int:
    """The largest number of characters from the beginning of the text that fit the limit."""
    most = min(len(text), max(limit, 0))  # a character takes at least one of any unit
    if message_length(text[:most], unit) <= limit:
        return most
    least = 0
    while most - least > 1:
        middle = (least + most) // 2
        if message_length(text[:middle], unit) <= limit:
            least = middle
        else:
            most = middle
    return least


FitsMessage = Callable[[str], bool]
"""Whether a Markdown text fits into one message of its platform."""

_SENTENCE = re.compile(r"[.!?…]['\")\]]*\s+|[。！？]")  # noqa: RUF001 - CJK full stops
_WORD = re.compile(r"\s+")
# Text that would be read as the beginning of a heading, a quote, a list, a rule or a fence.
_LIKE_A_BLOCK = re.compile(
    r"(?:#{1,6}|[-+*])(?=\s|$)|>|[-*_=]{2,}(?=\s*$)|`{3}|~{3}|(\d{1,9})(?=[.)](?:\s|$))",
    re.MULTILINE,
)
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*")
_MAX_SPAN_MESSAGES = 5  # messages
_MIN_LIMIT = 16  # a limit below this leaves no room for marks


def split_message(
    text: str,
    limit: int | None,
    *,
    unit: LengthUnit = LengthUnit.CHARACTERS,
    fits: FitsMessage | None = None,
) -> tuple[str, ...]:
    """Split a text into parts, in order, each a Markdown text of its own that is short enough. No
    word is lost: joined, the parts are the text, except for space at the cuts and the marks that
    close and reopen a cut fence, table, quote or emphasis. The same text and limit give the same
    parts, in any process; and a text that grows keeps its first parts, as long as the marks in them
    are closed.

    `fits` is asked about every part if the platform shows a different text than the one it gets.
    """
    if limit is None:
        return (text,)
    measure = _Measure(limit=limit, unit=unit, fits=fits)
    parts = []
    while not measure.fits_message(text):
        part, text = _split_first(text, measure)
        parts.append(part)
    return tuple(part for part in (*parts, text) if part.strip()) or (text,)


class _Measure(msgspec.Struct, frozen=True, kw_only=True):
    limit: int
    unit: LengthUnit
    fits: FitsMessage | None

    def fits_message(self, text: str) -> bool:
        if self.fits is None or not text.strip():
            return message_length(text, self.unit) <= self.limit
        # A text that is far too long is not rendered only to find that out.
        return len(text) <= 2 * self.limit + 64 and self.fits(text)

    def prefix_length(self, text: str, room: int) -> int:
        return fitting_prefix(text, room, self.unit)


class _Cut(msgspec.Struct, frozen=True, kw_only=True):
    """A position between two parts, and what each of them gets there."""

    at: int
    close: str = ""
    reopen: str = ""
    indent: int = 0  # columns by which the following lines are indented too far
    within_line: bool = False


def _split_first(text: str, measure: _Measure) -> tuple[str, str]:
    """The first part and the rest. Smaller parts are tried until one fits; at least one character
    is sent."""
    room = measure.limit
    while True:
        end = max(1, measure.prefix_length(text, room))
        part, rest = _apply_cut(text, _find_cut(text, end))
        if len(rest) >= len(text) or not part.strip():  # it would never end
            part, rest = _apply_cut(text, _Cut(at=grapheme_boundary(text, end)))
        if measure.fits_message(part) or room <= 1:
            return part, rest
        room = room - max(1, room // 6)


def _apply_cut(text: str, cut: _Cut) -> tuple[str, str]:
    part, rest = text[: cut.at], text[cut.at :]
    if cut.close:
        part = part.rstrip() if cut.within_line else part.rstrip("\n")
        part += cut.close
    if cut.indent:
        rest = _unindent(rest, cut.indent)
    if cut.within_line:
        rest = rest.lstrip(" ")
        if not cut.reopen.strip(" >"):
            rest = _escape_block_start(rest)
    return part, cut.reopen + rest


def _escape_block_start(rest: str) -> str:
    """Escape text that was inside a line and would begin a block at the beginning of one."""
    found = _LIKE_A_BLOCK.match(rest)
    if found is None:
        return rest
    at = max(found.end(1), 0)  # after the number of a list, otherwise before the mark
    return f"{rest[:at]}\\{rest[at:]}"


def _unindent(text: str, columns: int) -> str:
    """Remove the indentation of the lines of a list that continues: without the item that they
    belong to, they would be taken for code."""
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines):
        if line.strip() and not line.startswith(" " * columns):
            break
        lines[number] = line[columns:] if line.strip() else line
    return "".join(lines)


def _find_cut(text: str, end: int) -> _Cut:
    """The best position in the second half of what fits: before a block, else before a line of the
    last block, after a sentence or a word of its last line, else inside a word."""
    if end < _MIN_LIMIT:
        return _Cut(at=_last_blank(text, end))
    near = list(_lines_until(text, end))
    if found := _cut_before_line(near, end, lambda row: row.starts_block):
        return found
    if near[-1].open.fence:
        return _cut_in_fence(near, end) or _cut_through_fence(text, near[-1].open, end)
    there = _spans_around_end(text, near, end)
    found = _cut_before_line(
        near, end, lambda row: not row.open.fence and not _enclosing_spans(there, row.at)
    )
    return found or _cut_in_line(text, near[-1], there, end)


def _lines_until(text: str, end: int) -> Iterator[MarkdownLine]:
    """The lines that begin within reach. Text further down never changes a cut."""
    for row in scan_lines(text):
        if row.at > end:
            return
        yield row


def _last_blank(text: str, end: int) -> int:
    for blank in ("\n\n", "\n", " "):
        at = text.rfind(blank, end // 2, end)
        if at != -1:
            return at + len(blank)
    return grapheme_boundary(text, end)


def _spans_around_end(text: str, near: list[MarkdownLine], end: int) -> list[MarkdownSpan]:
    """The spans of the block in which the reach ends. A span that ends further away than a few
    messages counts as unclosed."""
    start = next((row.at for row in reversed(near) if row.starts_block and row.text.strip()), 0)
    stop = text.find("\n\n", end)
    return scan_spans(
        text[start : min(stop if stop != -1 else len(text), _MAX_SPAN_MESSAGES * end)], offset=start
    )


def _cut_before_line(
    near: list[MarkdownLine], end: int, is_good: Callable[[MarkdownLine], bool]
) -> _Cut | None:
    for row in reversed(near):
        if end // 2 < row.at <= end and row.text.strip() and is_good(row):
            if _UNDERLINE.fullmatch(row.text) and not row.starts_block:
                continue  # it turns the previous line into a heading
            return _Cut(at=row.at, reopen=row.open.reopen, indent=row.open.indent)
    return None


def _cut_in_fence(near: list[MarkdownLine], end: int) -> _Cut | None:
    """Cut before a line of the fence, which is closed there and reopened. None if the marks would
    take too large a part of a message, or the line that is cut is longer than the message."""
    fence = near[-1].open
    cost = len(fence.close) + 1
    if 4 * (cost + len(fence.reopen)) > end:
        return None
    for row in reversed(near):
        if end // 2 < row.at <= end - cost and row.open == fence:
            return _Cut(
                at=row.at, close=f"\n{fence.close}", reopen=fence.reopen, indent=fence.indent
            )
    return None


def _cut_in_line(text: str, row: MarkdownLine, there: list[MarkdownSpan], end: int) -> _Cut:
    """Cut after a sentence or a word of the last line, else inside a word."""
    if row.at == end:  # an empty line, or one that belongs to the previous one
        return _Cut(at=end)
    quote = quote_prefix(row.text)
    start = row.at + len(quote)
    if start >= end:  # only the quote mark would be left
        start = row.at
    low = max(end // 2, start)
    for pause in (_SENTENCE, _WORD):
        for at in _pauses(text, pause, low, end):
            if not _enclosing_spans(there, at):
                return _Cut(at=at, reopen=quote, within_line=True)
    return _cut_through_spans(text, there, low, end, quote)


def _cut_through_fence(text: str, fence: OpenBlock, end: int) -> _Cut:
    cost = len(fence.close) + 1
    if 4 * (cost + len(fence.reopen)) > end:
        return _Cut(at=grapheme_boundary(text, end))
    at = grapheme_boundary(text, end - cost)
    return _Cut(at=at, close=f"\n{fence.close}", reopen=fence.reopen)


def _pauses(text: str, pause: re.Pattern[str], low: int, end: int) -> list[int]:
    """The positions of pauses in the second half, last first."""
    found = [match.end() for match in pause.finditer(text, low, end)]
    return [at for at in reversed(found) if low < at <= end]


def _enclosing_spans(there: list[MarkdownSpan], at: int) -> list[MarkdownSpan]:
    return [span for span in there if span.start < at < span.end]


def _cut_through_spans(
    text: str, there: list[MarkdownSpan], low: int, end: int, quote: str
) -> _Cut:
    """Cut inside spans, because no position is free of them: before the span that is in the way, if
    that leaves something; else between two of its words, with its marks closed and reopened."""
    around = _enclosing_spans(there, end) or _enclosing_spans(there, end - 1)
    if around and around[0].start > max(low // 2, len(quote)):
        return _Cut(at=around[0].start, reopen=quote, within_line=True)
    marks = [span.marks for span in around if span.marks]
    cost = len("".join(marks))
    room = end - cost if 4 * cost < end else end
    words = [at for at in _pauses(text, _WORD, low, room) if _enclosing_spans(there, at) == around]
    at = words[0] if words else grapheme_boundary(text, room)
    inside = [span.marks for span in _enclosing_spans(there, at) if span.marks]
    if 4 * cost >= end or len("".join(inside)) > cost:
        inside = []
    return _Cut(
        at=at,
        close="".join(reversed(inside)),
        reopen=quote + "".join(inside),
        within_line=True,
    )
