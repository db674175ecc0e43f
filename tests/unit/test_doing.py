"""What a turn does, in a few short lines that give nothing away."""

from holdfast.core.ids import CallId
from holdfast.core.messages.events import StepEnded, ToolBegan, ToolEnded
from holdfast.core.messages.message import Outcome
from holdfast.gateway.outbound.doing import Doing


def began(number: int, arguments: str = '{"command": "make test\\nmake check"}') -> ToolBegan:
    return ToolBegan(CallId(f"c{number}"), "terminal", arguments)


def over(number: int) -> ToolEnded:
    return ToolEnded(CallId(f"c{number}"), "terminal", Outcome.OK, "done")


def test_of_many_calls_a_few_are_named_and_those_that_end_are_not() -> None:
    doing = Doing(private=True)
    assert [doing.take(began(number)) for number in range(5)] == [True] * 5
    first, *_, last = doing.lines.splitlines()
    assert (first, last) == ("▸ terminal `make test …`", "▸ … and 2 more")
    assert [doing.take(over(number)) for number in (1, 1, 2, 3, 4)] == [True, False, *[True] * 3]
    assert doing.lines == "▸ terminal `make test …`"
    assert not doing.take(StepEnded("so"))
    doing.clear()
    assert doing.lines == ""


def test_in_a_group_nobody_sees_what_a_tool_is_called_with() -> None:
    doing = Doing(private=False)
    doing.take(began(1))
    assert doing.lines == "▸ terminal"


def test_a_line_is_short_and_carries_no_marks() -> None:
    doing = Doing(private=True)
    doing.take(began(1, '{"command": "' + "x" * 500 + '"}'))
    doing.take(began(2, '{"query": "`@everyone`"}'))
    doing.take(began(3, "no json at all"))
    long, mention, odd = doing.lines.splitlines()
    assert len(long) < 80 and mention == "▸ terminal `'@everyone'`" and "no json" in odd
