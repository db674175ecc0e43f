"""The status as people read it: what is wrong first, then what runs, then what it stands on."""

from collections.abc import Iterator, Sequence

import click

from holdfast.cli.common.harmless import sanitize
from holdfast.cli.common.output import format_duration, format_time
from holdfast.cli.status.status_rows import status_rows
from holdfast.core.ops.facts import GatewaySnapshot, Problem, ProblemLevel, StatusReport, TurnStatus
from holdfast.core.turns.stop import StopKind, StopRow

_STATE_COLOURS = {"running": "green", "hanging": "red"}
_NAME_WIDTH = 10  # columns of a row's name
_MAX_TURNS = 20  # turns; `--json` has more of them
_ID_LENGTH = 15  # letters of a session's id, which name it as well as all of them


def format_status(document: StatusReport, *, now: float) -> str:
    return "\n".join(
        [
            _headline_text(document),
            *(line for problem in document.problems for line in _problem_lines(problem)),
            *(click.style(line, bold=True) for line in transition_lines(document.snapshot, now)),
            *(_format_row(name, value) for name, value in status_rows(document, now=now)),
            *_turn_lines(document.snapshot, now),
            *_restart_lines(document.snapshot.restarts),
        ]
    )


def _headline_text(document: StatusReport) -> str:
    state = click.style(document.state, fg=_STATE_COLOURS.get(document.state, "yellow"), bold=True)
    seen = (
        f", seen {format_duration(document.snapshot_age)} ago" if document.snapshot_age > 1 else ""
    )
    up = format_duration(document.uptime)
    return f"holdfast {document.version} is {state}{seen} (process {document.pid}, up {up})"


def _problem_lines(problem: Problem) -> Iterator[str]:
    mark, colour = ("✗", "red") if problem.level is ProblemLevel.PROBLEM else ("!", "yellow")
    yield click.style(f"{mark} {sanitize(problem.what)}", fg=colour)
    if problem.remedy:
        yield f"  {sanitize(problem.remedy)}"


def _format_row(name: str, value: str) -> str:
    return f"  {click.style(name.ljust(_NAME_WIDTH), dim=True)}  {value}"


def transition_lines(snapshot: GatewaySnapshot, now: float) -> Iterator[str]:
    """How far a start or a stop has come, and whose word it was."""
    if snapshot.phase:
        for_ = format_duration(max(0.0, now - snapshot.phase_since))
        yield f"  {sanitize(snapshot.phase)} for {for_}"
    if snapshot.order is not None:
        yield f"  {_requested_by(snapshot.order.kind, snapshot.order.by)} {format_time(snapshot.order.at)}"
    if snapshot.pending_restart is not None:
        asked = _requested_by(snapshot.pending_restart.kind, snapshot.pending_restart.by)
        yield f"  {asked} {format_time(snapshot.pending_restart.at)}; it waits until nothing runs"


def _requested_by(kind: str, by: str) -> str:
    return f"{kind}, asked for by {by} at"


def _turn_lines(snapshot: GatewaySnapshot, now: float) -> Iterator[str]:
    if not snapshot.open_turns:
        return
    listed = snapshot.open_turns[:_MAX_TURNS]
    yield ""
    yield from _dim_header(format_turn_table(listed, now))
    if more := snapshot.more_turns + len(snapshot.open_turns) - len(listed):
        yield f"  … and {more} more"


def format_turn_table(turns: Sequence[TurnStatus], now: float) -> list[str]:
    """A line of headers, and one for each turn."""
    headers = ("SESSION", "TURN", "AGE", "STEP", "TOOL", "WAITING", "WHERE")
    return _align_columns(headers, [_turn_row(turn, now) for turn in turns])


def _turn_row(turn: TurnStatus, now: float) -> tuple[str, ...]:
    return (
        turn.session[:_ID_LENGTH],
        turn.state,
        format_duration(max(0.0, now - turn.started_at)),
        str(turn.step),
        sanitize(", ".join(turn.tools)) or "-",
        str(turn.queued or "-"),
        sanitize(f"{turn.platform} {turn.chat}"),
    )


def _restart_lines(stops: Sequence[StopRow]) -> Iterator[str]:
    if stops:
        yield ""
        headers = ("ENDED", "WHY", "BY", "PARKED", "CUT", "BACK AFTER")
        yield from _dim_header(_align_columns(headers, [_stop_row(stop) for stop in stops]))


def _stop_row(stop: StopRow) -> tuple[str, ...]:
    began = stop.stopped_at or stop.order.at
    # When a killed process died nobody wrote down: only when its successor found out.
    if stop.ready_at is None or stop.order.kind is StopKind.CRASH:
        back = "-"
    else:
        back = format_duration(max(0.0, stop.ready_at - began))
    return (
        format_time(began),
        stop.order.kind,
        stop.order.by,
        str(stop.parked or "-"),
        str(stop.interrupted or "-"),
        back,
    )


def _align_columns(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in [headers, *rows]) for i in range(len(headers))]
    lines = []
    for row in [headers, *rows]:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        lines.append("  " + "  ".join(cells).rstrip())
    return lines


def _dim_header(lines: Sequence[str]) -> Iterator[str]:
    yield click.style(lines[0], dim=True)
    yield from lines[1:]
