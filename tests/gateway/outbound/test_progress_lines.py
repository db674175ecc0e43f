"""Progress lines of a turn: few, short, and without private arguments in groups."""

from holdfast.core.ids import CallId
from holdfast.core.messages.events import StepEnded, ToolEnded, ToolStarted
from holdfast.core.messages.transcript import ToolOutcome
from holdfast.gateway.outbound.reply_stream import ToolProgress


def started(number: int, arguments: str = '{"command": "make test\\nmake check"}') -> ToolStarted:
    return ToolStarted(CallId(f"c{number}"), "terminal", arguments)


def ended(number: int) -> ToolEnded:
    return ToolEnded(CallId(f"c{number}"), "terminal", ToolOutcome.OK, "done")


def test_progress_names_a_few_running_calls_and_no_ended_ones() -> None:
    progress = ToolProgress(private=True)
    assert [progress.update(started(number)) for number in range(5)] == [True] * 5
    first, *_, last = progress.lines.splitlines()
    assert (first, last) == ("▸ terminal `make test …`", "▸ … and 2 more")
    assert [progress.update(ended(number)) for number in (1, 1, 2, 3, 4)] == [
        True,
        False,
        *[True] * 3,
    ]
    assert progress.lines == "▸ terminal `make test …`"
    assert not progress.update(StepEnded("so"))
    progress.clear()
    assert progress.lines == ""


def test_progress_in_a_group_hides_tool_arguments() -> None:
    progress = ToolProgress(private=False)
    progress.update(started(1))
    assert progress.lines == "▸ terminal"


def test_a_progress_line_is_short_and_has_no_markup() -> None:
    progress = ToolProgress(private=True)
    progress.update(started(1, '{"command": "' + "x" * 500 + '"}'))
    progress.update(started(2, '{"query": "`@everyone`"}'))
    progress.update(started(3, "no json at all"))
    long, mention, odd = progress.lines.splitlines()
    assert len(long) < 80 and mention == "▸ terminal `'@everyone'`" and "no json" in odd
