"""What a turn does, in a few short lines that give nothing away."""

from holdfast.core.ids import CallId
from holdfast.core.messages.events import StepEnded, ToolEnded, ToolStarted
from holdfast.core.messages.transcript import ToolOutcome
from holdfast.gateway.outbound.reply_stream import ToolProgress


def began(number: int, arguments: str = '{"command": "make test\\nmake check"}') -> ToolStarted:
    return ToolStarted(CallId(f"c{number}"), "terminal", arguments)


def over(number: int) -> ToolEnded:
    return ToolEnded(CallId(f"c{number}"), "terminal", ToolOutcome.OK, "done")


def test_progress_names_a_few_running_calls_and_no_ended_ones() -> None:
    doing = ToolProgress(private=True)
    assert [doing.update(began(number)) for number in range(5)] == [True] * 5
    first, *_, last = doing.lines.splitlines()
    assert (first, last) == ("▸ terminal `make test …`", "▸ … and 2 more")
    assert [doing.update(over(number)) for number in (1, 1, 2, 3, 4)] == [True, False, *[True] * 3]
    assert doing.lines == "▸ terminal `make test …`"
    assert not doing.update(StepEnded("so"))
    doing.clear()
    assert doing.lines == ""


def test_progress_in_a_group_hides_tool_arguments() -> None:
    doing = ToolProgress(private=False)
    doing.update(began(1))
    assert doing.lines == "▸ terminal"


def test_a_progress_line_is_short_and_has_no_markup() -> None:
    doing = ToolProgress(private=True)
    doing.update(began(1, '{"command": "' + "x" * 500 + '"}'))
    doing.update(began(2, '{"query": "`@everyone`"}'))
    doing.update(began(3, "no json at all"))
    long, mention, odd = doing.lines.splitlines()
    assert len(long) < 80 and mention == "▸ terminal `'@everyone'`" and "no json" in odd
