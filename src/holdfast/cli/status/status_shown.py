"""The status as people read it: what is wrong first, then what runs, then what it stands on."""

from collections.abc import Iterator, Sequence

import click

from holdfast.cli.common.harmless import safe
from holdfast.cli.common.output import duration, moment
from holdfast.cli.status.status_rows import rows
from holdfast.core.ops.facts import Document, Level, Problem, Snapshot, TurnFacts
from holdfast.core.turns.stop import StopKind, StopRow

_COLOURS = {"running": "green", "hanging": "red"}
_NAME = 10  # columns of a row's name
_LISTED = 20  # turns; `--json` has more of them
_ID = 15  # letters of a session's id, which name it as well as all of them


def shown(document: Document, *, now: float) -> str:
    return "\n".join(
        [
            _headline(document),
            *(line for problem in document.problems for line in _problem(problem)),
            *(click.style(line, bold=True) for line in underway(document.snapshot, now)),
            *(_row(name, value) for name, value in rows(document, now=now)),
            *_turns(document.snapshot, now),
            *_restarts(document.snapshot.restarts),
        ]
    )


def _headline(document: Document) -> str:
    state = click.style(document.state, fg=_COLOURS.get(document.state, "yellow"), bold=True)
    seen = f", seen {duration(document.seen)} ago" if document.seen > 1 else ""
    up = duration(document.uptime)
    return f"holdfast {document.version} is {state}{seen} (process {document.pid}, up {up})"


def _problem(problem: Problem) -> Iterator[str]:
    mark, colour = ("✗", "red") if problem.level is Level.PROBLEM else ("!", "yellow")
    yield click.style(f"{mark} {safe(problem.what)}", fg=colour)
    if problem.remedy:
        yield f"  {safe(problem.remedy)}"


def _row(name: str, value: str) -> str:
    return f"  {click.style(name.ljust(_NAME), dim=True)}  {value}"


def underway(snapshot: Snapshot, now: float) -> Iterator[str]:
    """How far a start or a stop has come, and whose word it was."""
    if snapshot.phase:
        for_ = duration(max(0.0, now - snapshot.phase_since))
        yield f"  {safe(snapshot.phase)} for {for_}"
    if snapshot.order is not None:
        yield f"  {_asked(snapshot.order.kind, snapshot.order.by)} {moment(snapshot.order.at)}"
    if snapshot.pending is not None:
        asked = _asked(snapshot.pending.kind, snapshot.pending.by)
        yield f"  {asked} {moment(snapshot.pending.at)}; it waits until nothing runs"


def _asked(kind: str, by: str) -> str:
    return f"{kind}, asked for by {by} at"


def _turns(snapshot: Snapshot, now: float) -> Iterator[str]:
    if not snapshot.open_turns:
        return
    listed = snapshot.open_turns[:_LISTED]
    yield ""
    yield from _headed(turn_table(listed, now))
    if more := snapshot.more_turns + len(snapshot.open_turns) - len(listed):
        yield f"  … and {more} more"


def turn_table(turns: Sequence[TurnFacts], now: float) -> list[str]:
    """A line of headers, and one for each turn."""
    headers = ("SESSION", "TURN", "AGE", "STEP", "TOOL", "WAITING", "WHERE")
    return _table(headers, [_turn(turn, now) for turn in turns])


def _turn(turn: TurnFacts, now: float) -> tuple[str, ...]:
    return (
        turn.session[:_ID],
        turn.state,
        duration(max(0.0, now - turn.started_at)),
        str(turn.step),
        safe(", ".join(turn.tools)) or "-",
        str(turn.queued or "-"),
        safe(f"{turn.platform} {turn.chat}"),
    )


def _restarts(stops: Sequence[StopRow]) -> Iterator[str]:
    if stops:
        yield ""
        headers = ("ENDED", "WHY", "BY", "PARKED", "CUT", "BACK AFTER")
        yield from _headed(_table(headers, [_stop(stop) for stop in stops]))


def _stop(stop: StopRow) -> tuple[str, ...]:
    began = stop.stopped_at or stop.order.at
    # When a killed process died nobody wrote down: only when its successor found out.
    if stop.ready_at is None or stop.order.kind is StopKind.CRASH:
        back = "-"
    else:
        back = duration(max(0.0, stop.ready_at - began))
    return (
        moment(began),
        stop.order.kind,
        stop.order.by,
        str(stop.parked or "-"),
        str(stop.interrupted or "-"),
        back,
    )


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in [headers, *rows]) for i in range(len(headers))]
    lines = []
    for row in [headers, *rows]:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        lines.append("  " + "  ".join(cells).rstrip())
    return lines


def _headed(lines: Sequence[str]) -> Iterator[str]:
    yield click.style(lines[0], dim=True)
    yield from lines[1:]
