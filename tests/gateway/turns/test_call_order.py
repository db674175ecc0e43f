"""H1: `safe` calls that stand side by side run at the same time, all others alone and in order."""

import asyncio

import pytest
from tests.gateway.turns.turn_helpers import tool_results
from tests.support.gateway_harness import Call, GatewayHarness, HeldTool

from holdfast.core.messages.transcript import ToolOutcome
from holdfast.core.turns.tool import ReplayClass


class CallOrder:
    """Observes which calls of a reply run, by the number at the end of their ids."""

    def __init__(self, *tools: HeldTool) -> None:
        self._tools = tools
        for tool in tools:
            tool.go.clear()

    @property
    def started(self) -> list[int]:
        return sorted(_number(call) for tool in self._tools for call in tool.started)


def _number(call_id: str) -> int:
    return int(call_id.rpartition(".")[2])


async def test_only_adjacent_safe_calls_run_together(harness: GatewayHarness, call: Call) -> None:
    safe, never = (harness.held_tools[each] for each in (ReplayClass.SAFE, ReplayClass.NEVER))
    order = CallOrder(safe, never)
    harness.model.say([call("safe"), call("safe"), call("never"), call("safe")], "done")
    accepted = await harness.accept("go")
    async with asyncio.timeout(20):
        await safe.wait_until_started(2)
    assert order.started == [0, 1]
    safe.go.set()
    await never.wait_until_started(1)
    safe.go.clear()
    assert order.started == [0, 1, 2], "a call that is not safe runs alone"
    never.go.set()
    await safe.wait_until_started(3)
    assert order.started == [0, 1, 2, 3]
    safe.go.set()
    assert (await harness.end_of(accepted)).text == "done"


@pytest.mark.parametrize("replay", [ReplayClass.NEVER, ReplayClass.ATTACH])
async def test_calls_of_other_classes_run_one_by_one(
    harness: GatewayHarness, call: Call, replay: ReplayClass
) -> None:
    tool = harness.held_tools[replay]
    order = CallOrder(tool)
    harness.model.say([call(replay), call(replay)], "done")
    accepted = await harness.accept("go")
    await tool.wait_until_started(1)
    assert order.started == [0]
    tool.go.set()
    assert (await harness.end_of(accepted)).text == "done"
    assert order.started == [0, 1]


async def test_the_model_gets_results_in_the_order_of_its_calls(
    harness: GatewayHarness, call: Call
) -> None:
    """They are recorded as they arrive: the second call ends first."""
    await harness.stop()
    quick = HeldTool("quick", ReplayClass.SAFE)
    harness.extra_tools = [quick]
    await harness.start()
    slow = harness.held_tools[ReplayClass.SAFE]
    slow.go.clear()
    harness.model.say([call("safe"), call("quick")], "done")
    accepted = await harness.accept("go")
    await slow.wait_until_started(1)
    session = await harness.only_session()
    async with asyncio.timeout(30):
        while not tool_results(await harness.transcript(session)):
            await asyncio.sleep(0.005)
    slow.go.set()
    await harness.end_of(accepted)
    stored = tool_results(await harness.transcript(session))
    assert [result.name for result in stored] == ["quick", "safe"]
    sent = tool_results(harness.model.requests[-1].messages)
    assert [result.name for result in sent] == ["safe", "quick"]


async def test_at_most_eight_calls_run_together(harness: GatewayHarness, call: Call) -> None:
    """The others are not recorded as started, so a stop does not say that they may have run."""
    safe = harness.held_tools[ReplayClass.SAFE]
    order = CallOrder(safe)
    harness.model.say([call("safe")] * 10)
    accepted = await harness.accept("go")
    await safe.wait_until_started(8)
    await harness.end_of(await harness.accept("/stop"))
    await harness.end_of(accepted)
    assert order.started == list(range(8))
    results = tool_results(await harness.transcript(await harness.only_session()))
    outcomes = {_number(result.call_id): result.outcome for result in results}
    assert [outcomes[number] for number in range(10)] == [
        *[ToolOutcome.CANCELLED] * 8,
        *[ToolOutcome.NOT_STARTED] * 2,
    ]


async def test_more_than_eight_calls_all_run(harness: GatewayHarness, call: Call) -> None:
    harness.model.say([call("safe")] * 20, "done")
    assert (await harness.end_of(await harness.accept("go"))).text == "done"
    started = harness.held_tools[ReplayClass.SAFE].started
    assert sorted(map(_number, started)) == list(range(20))
