"""The layout of the status of a running gateway, also used by `holdfast top`.

Imports rich: import this module inside functions only, where a person reads the result.
"""

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from holdfast.cli.common.language import state_text
from holdfast.cli.common.output import sanitize
from holdfast.cli.common.rendering import INDENT, make_fields, make_table, render
from holdfast.cli.status.rows import (
    Row,
    elapsed,
    headline_text,
    more_text,
    status_rows,
    transition_lines,
)
from holdfast.core.messages.source import chat_label
from holdfast.core.ops.status import ProblemLevel, StatusReport, TurnStatus
from holdfast.core.text.locale_format import format_duration, format_time
from holdfast.core.text.translation import _
from holdfast.core.turns.stop import StopKind, StopRow

_STATE_STYLES = {"running": "green", "hanging": "red"}
_MAX_TURNS = 20  # `--json` has more
_ID_LENGTH = 15  # characters of a session id; enough to be unique


def format_status(document: StatusReport, *, now: float) -> str:
    """The whole status, as wide as the terminal; unlimited elsewhere."""
    return render(Group(*_parts(document, now)))


def _parts(document: StatusReport, now: float) -> Iterator[RenderableType]:
    snapshot = document.snapshot
    yield headline(document)
    yield from problem_lines(document, remedies=True)
    yield from (Text(f"  {text}", "bold") for text in transition_lines(snapshot, now))
    yield status_fields(status_rows(document, now=now))
    if snapshot.open_turns:
        listed = snapshot.open_turns[:_MAX_TURNS]
        yield ""
        yield Padding(turn_table(listed, now), INDENT)
        if more := snapshot.more_turns + len(snapshot.open_turns) - len(listed):
            yield f"  {more_text(more)}"
    if snapshot.restarts:
        yield ""
        yield Padding(_restart_table(snapshot.restarts), INDENT)


def headline(document: StatusReport) -> Text:
    before, _marker, after = headline_text(document).partition("{state}")
    style = _STATE_STYLES.get(document.state, "yellow")
    return Text.assemble(before, (state_text(document.state), f"bold {style}"), after)


def problem_lines(document: StatusReport, *, remedies: bool = False) -> Iterator[Text]:
    for problem in document.problems:
        mark, style = ("✗", "red") if problem.level is ProblemLevel.PROBLEM else ("!", "yellow")
        yield Text(f"{mark} {sanitize(problem.what)}", style)
        if remedies and problem.remedy:
            yield Text(f"  {sanitize(problem.remedy)}")


def status_fields(rows: Iterable[tuple[Row, str | Text]]) -> Padding:
    """As wide whatever rows there are, so that the rows of two of them are aligned."""
    width = max(Text(_(row)).cell_len for row in Row)
    return make_fields(((_(row), text) for row, text in rows), min_name_width=width)


def turn_table(turns: Sequence[TurnStatus], now: float) -> Table:
    headers = (
        _("SESSION"),
        _("TURN"),
        _("AGE"),
        _("STEP"),
        _("TOOL"),
        _("WAITING"),
        _("WHERE"),
    )
    return make_table(headers, [_turn_row(turn, now) for turn in turns], header_style="dim")


def _turn_row(turn: TurnStatus, now: float) -> tuple[str, ...]:
    return (
        turn.session[:_ID_LENGTH],
        state_text(turn.state),
        elapsed(turn.started_at, now),
        str(turn.step),
        sanitize(", ".join(turn.tools)) or "-",
        str(turn.queued or "-"),
        sanitize(f"{turn.platform} {chat_label(turn.platform, turn.chat)}".rstrip()),
    )


def _restart_table(stops: Sequence[StopRow]) -> Table:
    headers = (
        _("STOPPED"),
        _("REASON"),
        _("BY"),
        _("PARKED"),
        _("INTERRUPTED"),
        _("DOWNTIME"),
    )
    return make_table(headers, [_stop_row(stop) for stop in stops], header_style="dim")


def _stop_row(stop: StopRow) -> tuple[str, ...]:
    began = stop.stopped_at or stop.order.at
    # The time of a crash is not known, only when the next process found out.
    if stop.ready_at is None or stop.order.kind is StopKind.CRASH:
        back = "-"
    else:
        back = format_duration(max(0.0, stop.ready_at - began))
    return (
        format_time(began),
        state_text(stop.order.kind),
        state_text(stop.order.by),
        str(stop.parked or "-"),
        str(stop.interrupted or "-"),
        back,
    )
