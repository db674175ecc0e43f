"""The status as people read it: what is wrong first, then what runs, then what it stands on."""

from collections.abc import Iterator, Sequence

import click

from holdfast.cli.harmless import safe
from holdfast.cli.output import duration, moment
from holdfast.cli.status_rows import facts
from holdfast.core.facts import Document, Level, Problem, Snapshot, TurnFacts
from holdfast.core.stopping import StopKind, StopRow

_COLOURS = {"running": "green", "hanging": "red"}
_LISTED = 20  # turns; `--json` has more of them
_ID = 15  # letters of a session's id, which name it as well as all of them


def shown(document: Document, *, now: float) -> str:
    return "\n".join(
        [
            _headline(document),
            *(line for problem in document.problems for line in _problem(problem)),
            *_underway(document.snapshot, now),
            *facts(document, now=now),
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


def _underway(snapshot: Snapshot, now: float) -> Iterator[str]:
    """How far a start or a stop has come, and whose word it was."""
    if snapshot.phase:
        for_ = duration(max(0.0, now - snapshot.phase_since))
        yield f"  {click.style(safe(snapshot.phase), bold=True)} for {for_}"
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
    yield from _table(
        ("SESSION", "TURN", "AGE", "STEP", "TOOL", "WAITING", "WHERE"),
        [_turn(turn, now) for turn in listed],
    )
    if more := snapshot.more_turns + len(snapshot.open_turns) - len(listed):
        yield f"  … and {more} more"


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
        yield from _table(
            ("ENDED", "WHY", "BY", "PARKED", "CUT", "BACK AFTER"), [_stop(stop) for stop in stops]
        )


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


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[i]) for row in [headers, *rows]) for i in range(len(headers))]
    for index, row in enumerate([headers, *rows]):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        line = "  " + "  ".join(cells).rstrip()
        yield click.style(line, dim=True) if index == 0 else line
