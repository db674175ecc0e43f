"""Renders one screen of `top`: the last status read, the selected turn and page, as styled lines that fit the terminal."""

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from enum import Enum, StrEnum, auto
from os import terminal_size
from typing import NamedTuple

import msgspec

from holdfast.cli.common.output import (
    display_width,
    format_duration,
    format_time,
    sanitize,
    truncate,
)
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
from holdfast.server.local.status_client import GatewayDown, read_status_report
from holdfast.system import exit_codes
from holdfast.system.paths import Paths


# MERGED holdfast.cli.top.ink: Ink: lines of a screen in pieces, each with what it is meant to say by its colour.
class TerminalStyle(StrEnum):
    """What a piece is; the value is what a terminal is told (SGR)."""

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
    """As much of a line as there is room for; what was cut ends in a mark."""
    if line_width(line) <= columns:
        return line
    kept: list[TerminalSpan] = []
    for piece in line:
        left = columns - line_width(kept)
        if display_width(piece.text) > left:
            kept.append(TerminalSpan(truncate(piece.text, left), piece.style))
            break
        kept.append(piece)
    return tuple(kept)


def justify(left: TerminalLine, right: TerminalLine, columns: int) -> TerminalLine:
    """One at each end of a line; where there is no room for both, the right one stays whole."""
    left = truncate_line(left, max(0, columns - line_width(right) - 1))
    return (
        *left,
        TerminalSpan(" " * max(1, columns - line_width(left) - line_width(right))),
        *right,
    )


def to_ansi(line: TerminalLine, *, coloured: bool) -> str:
    """What is written for a line. One that is chosen is shown so without colours too: else nobody
    would see where they are."""
    return "".join(_text_to_ansi(piece, coloured=coloured) for piece in line)


def _text_to_ansi(piece: TerminalSpan, *, coloured: bool) -> str:
    if not piece.style or not (coloured or piece.style is TerminalStyle.SELECTED):
        return piece.text
    return f"\x1b[{piece.style}m{piece.text}\x1b[0m"


# MERGED holdfast.cli.top.summary: The summary: how a gateway is, in the rows that `status` has, with a chart of the last hour.
TWO_COLUMN_WIDTH = 140  # columns from which on there is room for two rows beside each other

_NAME_WIDTH = 9  # columns of a row's name
_MAX_PLATFORM_LINES = 6  # lines of them, where other rows and the turns stand below
_LEFT_COLUMN_WIDTH = 84  # columns of the left one of two
_FIRST_ROWS = ("turns", "pace")
_MIDDLE_ROWS = ("messages", "latency", "tokens", "outbox", "jobs", "agents")
_LAST_ROWS = ("loop", "machine")
_RIGHT_ROWS = ("address", "model", "commands", "store", "backup")
_CHART_BARS = "▁▂▃▄▅▆▇█"
_STATE_STYLES = {"running": TerminalStyle.GOOD, "hanging": TerminalStyle.BAD}


def headline_line(document: StatusReport) -> TerminalLine:
    seen = (
        f", seen {format_duration(document.snapshot_age)} ago" if document.snapshot_age > 1 else ""
    )
    return (
        TerminalSpan(f"holdfast {document.version} is "),
        TerminalSpan(document.state, _STATE_STYLES.get(document.state, TerminalStyle.WARNING)),
        TerminalSpan(f"{seen} (process {document.pid}, up {format_duration(document.uptime)})"),
    )


def render_summary(document: StatusReport, *, columns: int, now: float) -> list[TerminalLine]:
    """What is wrong first, then how it is; the least wanted last, for whoever has to cut it."""
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
        mark, ink = (
            ("✗", TerminalStyle.BAD)
            if problem.level is ProblemLevel.PROBLEM
            else ("!", TerminalStyle.WARNING)
        )
        yield terminal_line(f"{mark} {sanitize(problem.what)}", ink)


def _select_rows(rows: Iterable[StatusRow], names: Sequence[str]) -> list[TerminalLine]:
    told = dict(rows)
    return [_styled_row(name, TerminalSpan(told[name])) for name in names if name in told]


def _styled_row(name: str, *value: TerminalSpan) -> TerminalLine:
    return (TerminalSpan(f"  {name.ljust(_NAME_WIDTH)}  ", TerminalStyle.DIM), *value)


def _chart_line(pace: HourStats) -> Iterator[TerminalLine]:
    """A bar for each minute; what is nought is a dot, so that one turn is seen among none."""
    if not any(pace.turns):
        return
    most = max(pace.turns)
    bars = "".join(_CHART_BARS[-(-turns * 7 // most)] if turns else "·" for turns in pace.turns)
    yield _styled_row(
        "", TerminalSpan(bars, TerminalStyle.GOOD), TerminalSpan(f" {most}", TerminalStyle.DIM)
    )


def _platform_lines(platforms: Iterable[AccountStatus], now: float) -> Iterator[TerminalLine]:
    """Those that are away first: they are what somebody looks for."""
    ordered = sorted(platforms, key=lambda each: each.connected(now))
    for index, each in enumerate(ordered):
        ink = TerminalStyle.GOOD if each.connected(now) else TerminalStyle.BAD
        told = TerminalSpan(sanitize(platform_text(each, now)))
        yield _styled_row("platforms" if index == 0 else "", TerminalSpan("● ", ink), told)


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


# MERGED holdfast.cli.top.keys: Keys: what a person presses, told from the bytes that a terminal sends for it.
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


# One key after the other; a terminal that is in its "application" mode says O instead of [.
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
    """Those that mean something here, in order."""
    return [_KEYS[one] for one in _KEY_SEQUENCE.findall(typed) if one in _KEYS]


# MERGED holdfast.cli.top.view: The view: what of a sight a person has chosen to see, and how keys change that.
_PAGE_TURNS = 10  # turns


class TopPage(StrEnum):
    TURNS = "turns"
    DETAILS = "details"  # of the turn that is chosen
    HELP = "help"


class TopView(msgspec.Struct, frozen=True, kw_only=True):
    """The turn that is chosen is known by its id: the list changes under whoever reads it. Its
    place is kept for when it has ended."""

    page: TopPage = TopPage.TURNS
    paused: bool = False
    turn: str = ""
    index: int = 0

    def selected_index(self, turns: Sequence[TurnStatus]) -> int:
        """The place of the chosen turn, or of whichever stands there now."""
        for place, turn in enumerate(turns):
            if turn.turn == self.turn:
                return place
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
    """The same key closes what it opened."""
    return msgspec.structs.replace(view, page=TopPage.TURNS if view.page is page else page)


# MERGED holdfast.cli.top.sight: A sight: what one look at a gateway has found, also where there is none.
_READ_TIMEOUT = (
    1.0  # seconds; nobody who presses a key meanwhile should think that it was not heard
)


class StatusSample(msgspec.Struct, frozen=True, kw_only=True):
    """`document`: None where nobody answers; then `why` says so in as many lines as it takes."""

    at: float
    document: StatusReport | None = None
    down_text: str = ""
    exit_code: int = exit_codes.OK  # of a program that looks but once

    @property
    def turns(self) -> tuple[TurnStatus, ...]:
        return () if self.document is None else self.document.snapshot.open_turns


def read_sample(paths: Paths, *, now: float) -> StatusSample:
    """Never raises for a gateway that is not there, or is of another version: the next look may
    find one that is not."""
    try:
        document = parse_status(read_status_report(paths, timeout=_READ_TIMEOUT))
    except GatewayDown as down:
        return StatusSample(
            at=now, down_text=describe_down(paths, down), exit_code=exit_codes.GATEWAY_DOWN
        )
    except HoldfastError as error:
        return StatusSample(at=now, down_text=str(error), exit_code=exit_codes.FAILED)
    return StatusSample(at=now, document=document, exit_code=status_exit_code(document))


# MERGED holdfast.cli.top.frame: The frame: the lines of one screen, as many and as long as the terminal has room for.
_MIN_TURN_LINES, _MIN_DETAIL_LINES = (
    5,
    8,
)  # lines that the lower part has at the least, if it has as many to show
_KEY_HELP = (
    ("up, down, j, k", "choose a turn; page up and down, g and G go further"),
    ("enter", "show all that is known of it; again, or escape: back"),
    ("p", "pause the screen, so that it can be read; again: go on"),
    ("space", "look now"),
    ("? or h", "show or leave this help"),
    ("q", "quit"),
)


def render_frame(sample: StatusSample, view: TopView, size: terminal_size) -> list[TerminalLine]:
    """Exactly as many lines as the terminal has, none of them longer than it is wide."""
    lines = [_header_line(sample, view, size.columns), *_body_lines(sample, view, size)]
    room = max(1, size.lines - 1)
    lines = lines[:room] + [EMPTY_LINE] * (room - len(lines))
    lines.append(_footer_line(sample, view, size.columns))
    return [
        _fill_selected_line(truncate_line(each, size.columns), size.columns)
        for each in lines[-size.lines :]
    ]


def _fill_selected_line(line: TerminalLine, columns: int) -> TerminalLine:
    """A line that is chosen is so to the edge, whatever stands in it."""
    if not line or line[0].style is not TerminalStyle.SELECTED:
        return line
    return (*line, TerminalSpan(" " * (columns - line_width(line)), TerminalStyle.SELECTED))


def render_plain(sample: StatusSample) -> list[TerminalLine]:
    """The same for what is no screen: no line is cut, and every turn is listed."""
    document = sample.document
    if document is None:
        return [terminal_line(text) for text in sample.down_text.splitlines()]
    told = render_summary(document, columns=0, now=sample.at)
    turns = _turn_lines(document.snapshot, sample.at, selected=None)
    return [headline_line(document), *told, *([EMPTY_LINE, *turns] if turns else [])]


def _header_line(sample: StatusSample, view: TopView, columns: int) -> TerminalLine:
    clock = terminal_line(datetime.fromtimestamp(sample.at).strftime("%H:%M:%S"), TerminalStyle.DIM)
    right = terminal_line(" PAUSED ", TerminalStyle.SELECTED) if view.paused else clock
    if sample.document is None:
        return justify(terminal_line("holdfast does not answer", TerminalStyle.BAD), right, columns)
    return justify(headline_line(sample.document), right, columns)


def _body_lines(sample: StatusSample, view: TopView, size: terminal_size) -> list[TerminalLine]:
    if view.page is TopPage.HELP:
        return [EMPTY_LINE, *(_labelled_line(name, text) for name, text in _KEY_HELP)]
    if sample.document is None:
        return [
            EMPTY_LINE,
            *_wrapped_lines(sample.down_text, size.columns),
            EMPTY_LINE,
            terminal_line("  It is waited for."),
        ]
    return _sections(sample.document, view, size, now=sample.at)


def _wrapped_lines(text: str, columns: int) -> list[TerminalLine]:
    wrapped = (textwrap.wrap(each, max(20, columns - 4)) for each in sanitize(text).splitlines())
    return [terminal_line(f"  {each}") for lines in wrapped for each in lines]


def _sections(
    document: StatusReport, view: TopView, size: terminal_size, *, now: float
) -> list[TerminalLine]:
    """The lower part gets what the upper leaves, and the upper is cut where that is too little."""
    turns = document.snapshot.open_turns
    upper = render_summary(document, columns=size.columns, now=now)
    room = size.lines - 3  # less the head, the foot, and a line between the parts
    opened = view.page is TopPage.DETAILS and turns
    upper = upper[
        : max(0, room - (_MIN_DETAIL_LINES if opened else min(_MIN_TURN_LINES, len(turns) + 1)))
    ]
    chosen = view.selected_index(turns)
    if opened:
        return [*upper, EMPTY_LINE, *_detail_lines(turns[chosen], now)]
    listed = _turn_lines(document.snapshot, now, selected=chosen)
    return [*upper, EMPTY_LINE, *_scroll(listed, room - len(upper), chosen)]


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
            if place == selected
            else _turn_style(snapshot.open_turns[place]),
        )
        for place, text in enumerate(table)
    ]
    more = [terminal_line(f"  … and {snapshot.more_turns} more")] if snapshot.more_turns else []
    return [terminal_line(header, TerminalStyle.DIM), *lines, *more]


def _turn_style(turn: TurnStatus) -> TerminalStyle:
    return TerminalStyle.WARNING if turn.state == "waiting" else TerminalStyle.PLAIN


def _scroll(lines: Sequence[TerminalLine], height: int, selected: int) -> list[TerminalLine]:
    """The header stays; below it are those around the chosen one."""
    header, rest = lines[:1], lines[1:]
    height = max(1, height - 1)
    start = max(0, min(selected - height // 2, len(rest) - height))
    return [*header, *rest[start : start + height]]


def _detail_lines(turn: TurnStatus, now: float) -> list[TerminalLine]:
    since = (
        f"{format_duration(max(0.0, now - turn.started_at))}, since {format_time(turn.started_at)}"
    )
    told = [
        ("turn", turn.turn),
        ("session", turn.session),
        ("where", f"{turn.platform} {turn.chat}"),
        ("state", f"{turn.state} for {since}"),
        ("step", str(turn.step)),
        ("tools", ", ".join(turn.tools) or "none runs"),
        ("behind it", f"{turn.queued} messages" if turn.queued else "nothing"),
        ("follow it", f"holdfast sessions follow {turn.session}"),
    ]
    return [_labelled_line(name, sanitize(text)) for name, text in told]


def _labelled_line(name: str, text: str) -> TerminalLine:
    return TerminalSpan(f"  {name:<14}  ", TerminalStyle.DIM), TerminalSpan(text)


def _footer_line(sample: StatusSample, view: TopView, columns: int) -> TerminalLine:
    keys = terminal_line(" q quit  ↑↓ choose  enter details  p pause  ? help", TerminalStyle.DIM)
    if sample.document is None or not sample.turns:
        return keys
    number = len(sample.turns) + sample.document.snapshot.more_turns
    place = terminal_line(
        f"{view.selected_index(sample.turns) + 1} of {number} ", TerminalStyle.DIM
    )
    return justify(keys, place, columns)
