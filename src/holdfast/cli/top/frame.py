"""Renders one screen of `top` as styled lines that fit the terminal.

It shows the last status report, the selected turn and the selected page.
"""

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from enum import Enum, StrEnum, auto
from os import terminal_size
from typing import NamedTuple

import msgspec

from holdfast.cli.common.output import display_width, sanitize, truncate
from holdfast.cli.status.command import (
    StatusRow,
    describe_down,
    format_turn_table,
    parse_status,
    platform_text,
    status_exit_code,
    status_rows,
    transition_lines,
)
from holdfast.core.errors import HoldfastError
from holdfast.core.ops.status import (
    AccountStatus,
    GatewaySnapshot,
    HourStats,
    ProblemLevel,
    StatusReport,
    TurnStatus,
)
from holdfast.core.text.locale_format import format_duration, format_time
from holdfast.server.local.status_client import GatewayDown, read_status_report
from holdfast.system import exit_codes
from holdfast.system.paths import Paths


class TerminalStyle(StrEnum):
    """The style of a span; the value is the SGR code of a terminal."""

    PLAIN = ""
    DIM = "2"
    BOLD = "1"
    GOOD = "32"
    WARNING = "33"
    BAD = "31"
    SELECTED = "7"


class TerminalSpan(NamedTuple):
    text: str
    style: TerminalStyle = TerminalStyle.PLAIN


TerminalLine = tuple[TerminalSpan, ...]

EMPTY_LINE: TerminalLine = ()


def terminal_line(text: str, style: TerminalStyle = TerminalStyle.PLAIN) -> TerminalLine:
    return (TerminalSpan(text, style),)


def line_width(line: Iterable[TerminalSpan]) -> int:
    return sum(display_width(piece.text) for piece in line)


def truncate_line(line: TerminalLine, columns: int) -> TerminalLine:
    """The line, or as much of it as fits, with a mark at the end."""
    if line_width(line) <= columns:
        return line
    spans: list[TerminalSpan] = []
    for piece in line:
        left = columns - line_width(spans)
        if display_width(piece.text) > left:
            spans.append(TerminalSpan(truncate(piece.text, left), piece.style))
            break
        spans.append(piece)
    return tuple(spans)


def justify(left: TerminalLine, right: TerminalLine, columns: int) -> TerminalLine:
    """One text at each end of a line; if both do not fit, the left one is truncated."""
    left = truncate_line(left, max(0, columns - line_width(right) - 1))
    return (
        *left,
        TerminalSpan(" " * max(1, columns - line_width(left) - line_width(right))),
        *right,
    )


def to_ansi(line: TerminalLine, *, coloured: bool) -> str:
    """The line with escape sequences. The selected line is marked also without colours: else the
    selection could not be seen."""
    return "".join(_text_to_ansi(piece, coloured=coloured) for piece in line)


def _text_to_ansi(piece: TerminalSpan, *, coloured: bool) -> str:
    if not piece.style or not (coloured or piece.style is TerminalStyle.SELECTED):
        return piece.text
    return f"\x1b[{piece.style}m{piece.text}\x1b[0m"


TWO_COLUMN_WIDTH = 140  # from this width on, two rows are shown side by side

_NAME_WIDTH = 10
_MAX_PLATFORM_LINES = 6  # in one column: other rows and the turns follow below
_LEFT_COLUMN_WIDTH = 84
# Rows of `status_rows`, by their names.
_FIRST_ROWS = ("turns", "last hour")
_MIDDLE_ROWS = ("messages", "latency", "tokens", "outbox", "jobs", "agents")
_LAST_ROWS = ("event loop", "machine")
_RIGHT_ROWS = ("address", "model", "sandbox", "store", "backup")
_CHART_BARS = "▁▂▃▄▅▆▇█"
_STATE_STYLES = {"running": TerminalStyle.GOOD, "hanging": TerminalStyle.BAD}


def headline_line(document: StatusReport) -> TerminalLine:
    age = (
        f", last update {format_duration(document.snapshot_age)} ago"
        if document.snapshot_age > 1
        else ""
    )
    return (
        TerminalSpan(f"holdfast {document.version} is "),
        TerminalSpan(document.state, _STATE_STYLES.get(document.state, TerminalStyle.WARNING)),
        TerminalSpan(f"{age} (process {document.pid}, up {format_duration(document.uptime)})"),
    )


def render_summary(document: StatusReport, *, columns: int, now: float) -> list[TerminalLine]:
    """Problems first, the least important rows last: a small screen cuts at the end."""
    known = list(status_rows(document, now=now))
    top = [
        *_problem_lines(document),
        *(
            terminal_line(text, TerminalStyle.BOLD)
            for text in transition_lines(document.snapshot, now)
        ),
    ]
    chart = _chart_line(document.snapshot.last_hour)
    first = [*_select_rows(known, _FIRST_ROWS), *chart, *_select_rows(known, _MIDDLE_ROWS)]
    platforms = list(_platform_lines(document.snapshot.platforms, now))
    if columns < TWO_COLUMN_WIDTH:
        platforms = _limit_lines(platforms, _MAX_PLATFORM_LINES)
        return [*top, *first, *platforms, *_select_rows(known, _LAST_ROWS)]
    left = [*first, *_select_rows(known, _LAST_ROWS)]
    return [*top, *_two_columns(left, [*_select_rows(known, _RIGHT_ROWS), *platforms], columns)]


def _problem_lines(document: StatusReport) -> Iterator[TerminalLine]:
    for problem in document.problems:
        mark, style = (
            ("✗", TerminalStyle.BAD)
            if problem.level is ProblemLevel.PROBLEM
            else ("!", TerminalStyle.WARNING)
        )
        yield terminal_line(f"{mark} {sanitize(problem.what)}", style)


def _select_rows(rows: Iterable[StatusRow], names: Sequence[str]) -> list[TerminalLine]:
    values = {str(row): text for row, text in rows}
    return [_styled_row(name, TerminalSpan(values[name])) for name in names if name in values]


def _styled_row(name: str, *value: TerminalSpan) -> TerminalLine:
    return (TerminalSpan(f"  {name.ljust(_NAME_WIDTH)}  ", TerminalStyle.DIM), *value)


def _chart_line(last_hour: HourStats) -> Iterator[TerminalLine]:
    """A bar for each minute; zero is a dot, so that a single turn can be seen."""
    if not any(last_hour.turns):
        return
    most = max(last_hour.turns)
    bars = "".join(
        _CHART_BARS[-(-turns * 7 // most)] if turns else "·" for turns in last_hour.turns
    )
    yield _styled_row(
        "", TerminalSpan(bars, TerminalStyle.GOOD), TerminalSpan(f" {most}", TerminalStyle.DIM)
    )


def _platform_lines(platforms: Iterable[AccountStatus], now: float) -> Iterator[TerminalLine]:
    """Accounts that are not connected first: they need attention."""
    ordered = sorted(platforms, key=lambda each: each.connected(now))
    for index, each in enumerate(ordered):
        style = TerminalStyle.GOOD if each.connected(now) else TerminalStyle.BAD
        text = TerminalSpan(sanitize(platform_text(each, now)))
        yield _styled_row("platforms" if index == 0 else "", TerminalSpan("● ", style), text)


def _limit_lines(lines: list[TerminalLine], most: int) -> list[TerminalLine]:
    if len(lines) <= most:
        return lines
    return [
        *lines[: most - 1],
        _styled_row("", TerminalSpan(f"… and {len(lines) - most + 1} more")),
    ]


def _two_columns(
    left: Sequence[TerminalLine], right: Sequence[TerminalLine], columns: int
) -> Iterator[TerminalLine]:
    for index in range(max(len(left), len(right))):
        one = truncate_line(left[index], _LEFT_COLUMN_WIDTH) if index < len(left) else EMPTY_LINE
        other = right[index] if index < len(right) else EMPTY_LINE
        yield (
            *one,
            TerminalSpan(" " * (_LEFT_COLUMN_WIDTH + 2 - line_width(one))),
            *truncate_line(other, columns - _LEFT_COLUMN_WIDTH - 2),
        )


class TopKey(Enum):
    QUIT = auto()
    UP = auto()
    DOWN = auto()
    PAGE_UP = auto()
    PAGE_DOWN = auto()
    FIRST = auto()
    LAST = auto()
    OPEN = auto()
    BACK = auto()
    PAUSE = auto()
    HELP = auto()
    REFRESH = auto()


# One key after the other; a terminal in "application" mode sends O instead of [.
_KEY_SEQUENCE = re.compile(rb"\x1b[\[O][0-9;]*[A-Za-z~]|.", re.DOTALL)
_KEYS = {
    **dict.fromkeys((b"q", b"Q", b"\x03", b"\x04"), TopKey.QUIT),
    **dict.fromkeys((b"k", b"\x1b[A", b"\x1bOA", b"\x10"), TopKey.UP),
    **dict.fromkeys((b"j", b"\x1b[B", b"\x1bOB", b"\x0e"), TopKey.DOWN),
    **dict.fromkeys((b"\x1b[5~", b"\x02"), TopKey.PAGE_UP),
    **dict.fromkeys((b"\x1b[6~", b"\x06"), TopKey.PAGE_DOWN),
    **dict.fromkeys((b"g", b"\x1b[H", b"\x1bOH", b"\x1b[1~"), TopKey.FIRST),
    **dict.fromkeys((b"G", b"\x1b[F", b"\x1bOF", b"\x1b[4~"), TopKey.LAST),
    **dict.fromkeys((b"\r", b"\n"), TopKey.OPEN),
    **dict.fromkeys((b"\x1b", b"\x7f", b"\x08"), TopKey.BACK),
    **dict.fromkeys((b"p", b"P"), TopKey.PAUSE),
    **dict.fromkeys((b"?", b"h"), TopKey.HELP),
    **dict.fromkeys((b" ", b"r"), TopKey.REFRESH),
}


def parse_keys(typed: bytes) -> list[TopKey]:
    """The keys that have a meaning here, in order."""
    return [_KEYS[one] for one in _KEY_SEQUENCE.findall(typed) if one in _KEYS]


_PAGE_TURNS = 10


class TopPage(StrEnum):
    TURNS = "turns"
    DETAILS = "details"  # of the selected turn
    HELP = "help"


class TopView(msgspec.Struct, frozen=True, kw_only=True):
    """What the user has selected. The turn is selected by id, because the list changes; its index
    is used after it has ended."""

    page: TopPage = TopPage.TURNS
    paused: bool = False
    turn: str = ""
    index: int = 0

    def selected_index(self, turns: Sequence[TurnStatus]) -> int:
        """The index of the selected turn, or of the turn that took its place."""
        for index, turn in enumerate(turns):
            if turn.turn == self.turn:
                return index
        return max(0, min(self.index, len(turns) - 1))


_KEY_STEPS = {
    TopKey.UP: -1,
    TopKey.DOWN: 1,
    TopKey.PAGE_UP: -_PAGE_TURNS,
    TopKey.PAGE_DOWN: _PAGE_TURNS,
}


def apply_key(view: TopView, key: TopKey, turns: Sequence[TurnStatus]) -> TopView:
    if key in _KEY_STEPS:
        return _select_turn(view, turns, view.selected_index(turns) + _KEY_STEPS[key])
    match key:
        case TopKey.FIRST:
            return _select_turn(view, turns, 0)
        case TopKey.LAST:
            return _select_turn(view, turns, len(turns))
        case TopKey.PAUSE:
            return msgspec.structs.replace(view, paused=not view.paused)
        case TopKey.HELP:
            return _toggle_page(view, TopPage.HELP)
        case TopKey.OPEN if turns and view.page is not TopPage.HELP:
            return _toggle_page(
                _select_turn(view, turns, view.selected_index(turns)), TopPage.DETAILS
            )
        case TopKey.BACK | TopKey.OPEN:
            return msgspec.structs.replace(view, page=TopPage.TURNS)
    return view


def _select_turn(view: TopView, turns: Sequence[TurnStatus], index: int) -> TopView:
    index = max(0, min(index, len(turns) - 1))
    turn = turns[index].turn if turns else ""
    return msgspec.structs.replace(view, turn=turn, index=index)


def _toggle_page(view: TopView, page: TopPage) -> TopView:
    """The same key opens and closes a page."""
    return msgspec.structs.replace(view, page=TopPage.TURNS if view.page is page else page)


_READ_TIMEOUT = 1.0  # seconds; keys are not handled meanwhile


class StatusSample(msgspec.Struct, frozen=True, kw_only=True):
    """One status report. `document` None: no gateway answers, and `down_text` says why."""

    at: float
    document: StatusReport | None = None
    down_text: str = ""
    exit_code: int = exit_codes.OK  # of `top --once`

    @property
    def turns(self) -> tuple[TurnStatus, ...]:
        return () if self.document is None else self.document.snapshot.open_turns


def read_sample(paths: Paths, *, now: float) -> StatusSample:
    """Never raises for a gateway that is down or of another version: the next sample may find
    another one."""
    try:
        document = parse_status(read_status_report(paths, timeout=_READ_TIMEOUT))
    except GatewayDown as down:
        return StatusSample(
            at=now, down_text=describe_down(paths, down), exit_code=exit_codes.GATEWAY_DOWN
        )
    except HoldfastError as error:
        return StatusSample(at=now, down_text=str(error), exit_code=exit_codes.FAILED)
    return StatusSample(at=now, document=document, exit_code=status_exit_code(document))


# The lower part has at least this many lines, if it has as many to show.
_MIN_TURN_LINES, _MIN_DETAIL_LINES = 5, 8
_KEY_HELP = (
    ("up, down, j, k", "select a turn; page up, page down, g and G move further"),
    ("enter", "show its details; again, or escape: back"),
    ("p", "pause the screen; again: continue"),
    ("space", "refresh now"),
    ("? or h", "show or leave this help"),
    ("q", "quit"),
)


def render_frame(sample: StatusSample, view: TopView, size: terminal_size) -> list[TerminalLine]:
    """Exactly as many lines as the terminal has, none wider than the terminal."""
    lines = [_header_line(sample, view, size.columns), *_body_lines(sample, view, size)]
    room = max(1, size.lines - 1)
    lines = lines[:room] + [EMPTY_LINE] * (room - len(lines))
    lines.append(_footer_line(sample, view, size.columns))
    return [
        _fill_selected_line(truncate_line(each, size.columns), size.columns)
        for each in lines[-size.lines :]
    ]


def _fill_selected_line(line: TerminalLine, columns: int) -> TerminalLine:
    """The selected line is highlighted to the edge of the terminal."""
    if not line or line[0].style is not TerminalStyle.SELECTED:
        return line
    return (*line, TerminalSpan(" " * (columns - line_width(line)), TerminalStyle.SELECTED))


def render_plain(sample: StatusSample) -> list[TerminalLine]:
    """For output that is not a terminal: no line is truncated, and every turn is listed."""
    document = sample.document
    if document is None:
        return [terminal_line(text) for text in sample.down_text.splitlines()]
    summary = render_summary(document, columns=0, now=sample.at)
    turns = _turn_lines(document.snapshot, sample.at, selected=None)
    return [headline_line(document), *summary, *([EMPTY_LINE, *turns] if turns else [])]


def _header_line(sample: StatusSample, view: TopView, columns: int) -> TerminalLine:
    clock = terminal_line(datetime.fromtimestamp(sample.at).strftime("%H:%M:%S"), TerminalStyle.DIM)
    right = terminal_line(" PAUSED ", TerminalStyle.SELECTED) if view.paused else clock
    if sample.document is None:
        return justify(
            terminal_line("The gateway does not answer", TerminalStyle.BAD), right, columns
        )
    return justify(headline_line(sample.document), right, columns)


def _body_lines(sample: StatusSample, view: TopView, size: terminal_size) -> list[TerminalLine]:
    if view.page is TopPage.HELP:
        return [EMPTY_LINE, *(_labelled_line(name, text) for name, text in _KEY_HELP)]
    if sample.document is None:
        return [
            EMPTY_LINE,
            *_wrapped_lines(sample.down_text, size.columns),
            EMPTY_LINE,
            terminal_line("  Waiting for it to come back."),
        ]
    return _sections(sample.document, view, size, now=sample.at)


def _wrapped_lines(text: str, columns: int) -> list[TerminalLine]:
    wrapped = (textwrap.wrap(each, max(20, columns - 4)) for each in sanitize(text).splitlines())
    return [terminal_line(f"  {each}") for lines in wrapped for each in lines]


def _sections(
    document: StatusReport, view: TopView, size: terminal_size, *, now: float
) -> list[TerminalLine]:
    """The lower part gets the rest of the screen; the upper part is cut if that is too little."""
    turns = document.snapshot.open_turns
    upper = render_summary(document, columns=size.columns, now=now)
    room = size.lines - 3  # less the head, the foot, and a line between the parts
    opened = view.page is TopPage.DETAILS and turns
    upper = upper[
        : max(0, room - (_MIN_DETAIL_LINES if opened else min(_MIN_TURN_LINES, len(turns) + 1)))
    ]
    selected = view.selected_index(turns)
    if opened:
        return [*upper, EMPTY_LINE, *_detail_lines(turns[selected], now)]
    listed = _turn_lines(document.snapshot, now, selected=selected)
    return [*upper, EMPTY_LINE, *_scroll(listed, room - len(upper), selected)]


def _turn_lines(
    snapshot: GatewaySnapshot, now: float, *, selected: int | None
) -> list[TerminalLine]:
    if not snapshot.open_turns:
        return [] if selected is None else [terminal_line("  No turn is open.", TerminalStyle.DIM)]
    header, *table = format_turn_table(snapshot.open_turns, now)
    lines = [
        terminal_line(
            text,
            TerminalStyle.SELECTED
            if index == selected
            else _turn_style(snapshot.open_turns[index]),
        )
        for index, text in enumerate(table)
    ]
    more = [terminal_line(f"  … and {snapshot.more_turns} more")] if snapshot.more_turns else []
    return [terminal_line(header, TerminalStyle.DIM), *lines, *more]


def _turn_style(turn: TurnStatus) -> TerminalStyle:
    return TerminalStyle.WARNING if turn.state == "waiting" else TerminalStyle.PLAIN


def _scroll(lines: Sequence[TerminalLine], height: int, selected: int) -> list[TerminalLine]:
    """The header stays; below it are the lines around the selected one."""
    header, rest = lines[:1], lines[1:]
    height = max(1, height - 1)
    start = max(0, min(selected - height // 2, len(rest) - height))
    return [*header, *rest[start : start + height]]


def _detail_lines(turn: TurnStatus, now: float) -> list[TerminalLine]:
    since = (
        f"{format_duration(max(0.0, now - turn.started_at))}, since {format_time(turn.started_at)}"
    )
    fields = [
        ("turn", turn.turn),
        ("session", turn.session),
        ("where", f"{turn.platform} {turn.chat}"),
        ("state", f"{turn.state} for {since}"),
        ("step", str(turn.step)),
        ("tools", ", ".join(turn.tools) or "none"),
        ("queued", f"{turn.queued} messages" if turn.queued else "nothing"),
        ("follow", f"holdfast sessions follow {turn.session}"),
    ]
    return [_labelled_line(name, sanitize(text)) for name, text in fields]


def _labelled_line(name: str, text: str) -> TerminalLine:
    return TerminalSpan(f"  {name:<14}  ", TerminalStyle.DIM), TerminalSpan(text)


def _footer_line(sample: StatusSample, view: TopView, columns: int) -> TerminalLine:
    keys = terminal_line(" q quit  ↑↓ select  enter details  p pause  ? help", TerminalStyle.DIM)
    if sample.document is None or not sample.turns:
        return keys
    number = len(sample.turns) + sample.document.snapshot.more_turns
    position = terminal_line(
        f"{view.selected_index(sample.turns) + 1} of {number} ", TerminalStyle.DIM
    )
    return justify(keys, position, columns)
