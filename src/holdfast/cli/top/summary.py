"""The summary: how a gateway is, in the rows that `status` has, with a chart of the last hour."""

from collections.abc import Iterable, Iterator, Sequence

from holdfast.cli.common.harmless import sanitize
from holdfast.cli.common.output import format_duration
from holdfast.cli.status.status_rows import StatusRow, platform_text, status_rows
from holdfast.cli.status.status_shown import transition_lines
from holdfast.cli.top.ink import (
    EMPTY_LINE,
    TerminalLine,
    TerminalSpan,
    TerminalStyle,
    line_width,
    terminal_line,
    truncate_line,
)
from holdfast.core.ops.facts import AccountStatus, HourStats, ProblemLevel, StatusReport

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
