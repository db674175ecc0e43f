"""Tests of parking: a restart leaves a turn at a step boundary for its successor (H6)."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tests.gateway.turns.turn_helpers import LONG_TIMEOUT, start_parking, tool_results
from tests.support.approvals import RM, ApprovalHarness
from tests.support.conversation_models import PerConversationModel
from tests.support.gateway_harness import Call, GatewayHarness, NoRunners, Until
from tests.support.long_conversations import fill_window, long_text
from tests.support.stops import (
    mark_running_turns,
    note_texts,
    only_session_row,
    open_turn,
    restart_gateway,
    restart_with_timeouts,
    set_stop_timeouts,
    start_gateway,
    stop_gateway,
    wait_for_open_turns,
)
from tests.support.two_models import auxiliary_model, small_harness

from holdfast.agent.delegate_tool import DelegateTool
from holdfast.core.config.settings import AuxiliarySettings, DelegateSettings
from holdfast.core.ids import CallId
from holdfast.core.messages.inbox import InboxState
from holdfast.core.messages.transcript import ToolCall, ToolOutcome, UserMessage
from holdfast.core.ports.store_queries import ListOpenTurns
from holdfast.core.turns.model import ModelFailed, ModelFault
from holdfast.core.turns.stop import StopKind, TurnExitReason
from holdfast.core.turns.tool import ReplayClass
from holdfast.core.turns.turn_state import LaneState


@pytest.mark.parametrize("kind", [StopKind.RESTART, StopKind.REPLACE])
async def test_a_turn_parks_after_the_reply_that_it_waits_for(
    harness: GatewayHarness, call: Call, kind: StopKind
) -> None:
    """H6, C2, F5: the reply is committed, the successor runs its call; no mark, note or count."""
    await restart_with_timeouts(harness, park=LONG_TIMEOUT)
    harness.say("work")
    await harness.model.wait_for_request(1)
    stopping = await start_parking(harness, kind)
    harness.model.say([call("never")])
    stopped = await stopping
    assert (stopped.parked, stopped.interrupted) == (1, 0)
    assert harness.held_tools[ReplayClass.NEVER].started == []
    await start_gateway(harness)
    request = await harness.model.wait_for_request(2)
    assert note_texts(request.messages) == []
    assert [result.outcome for result in tool_results(request.messages)] == [ToolOutcome.OK]
    found = await only_session_row(harness)
    assert (found.interruptions, found.resume_pending, found.resume_reason) == (0, False, None)
    harness.model.say("worked")
    async with asyncio.timeout(30):
        while await harness.ledger() != {"answered": 1}:
            await asyncio.sleep(0.005)


async def test_a_turn_parks_after_the_call_that_it_waits_for(
    harness: GatewayHarness, call: Call
) -> None:
    """H6: a `never` call is waited for; the model is asked by the successor."""
    await restart_with_timeouts(harness, park=LONG_TIMEOUT)
    tool = harness.held_tools[ReplayClass.NEVER]
    tool.go.clear()
    harness.model.say([call("never"), call("safe")])
    harness.say("work")
    await tool.wait_until_started(1)
    stopping = await start_parking(harness)
    tool.go.set()
    stopped = await stopping
    assert (stopped.parked, stopped.interrupted) == (1, 0)
    assert len(harness.model.requests) == 1
    await start_gateway(harness)
    request = await harness.model.wait_for_request(2)
    assert note_texts(request.messages) == []
    assert [result.outcome for result in tool_results(request.messages)] == [ToolOutcome.OK] * 2
    assert (len(tool.started), len(harness.held_tools[ReplayClass.SAFE].started)) == (1, 1)


class DetachRecordingRunners(NoRunners):
    """Runners that record which calls were cancelled before they were detached."""

    def __init__(self, harness: GatewayHarness) -> None:
        super().__init__()
        self.cancelled_before: list[CallId] = []
        self._tool = harness.held_tools[ReplayClass.ATTACH]

    async def detach(self) -> None:
        self.cancelled_before += [] if self.detached else self._tool.cancelled
        await super().detach()


async def test_a_turn_in_a_detachable_call_is_parked_at_once(
    harness: GatewayHarness, call: Call
) -> None:
    """H6, H2, C4: also with `--now`; the runner is detached before the turn is cancelled, and the
    successor attaches to the real call."""
    await restart_with_timeouts(harness, park=LONG_TIMEOUT)
    tool = harness.held_tools[ReplayClass.ATTACH]
    await harness.stop()
    runners = harness.runners = DetachRecordingRunners(harness)
    await harness.start()
    tool.go.clear()
    harness.model.say([call("attach")])
    harness.say("work")
    await tool.wait_until_started(1)
    async with asyncio.timeout(10):
        stopped = await stop_gateway(harness, StopKind.RESTART, now=True)
    assert (stopped.parked, stopped.interrupted) == (1, 0)
    assert runners.cancelled_before == []
    assert len(tool.cancelled) == 1
    tool.known[tool.started[0]] = "the true result"
    await start_gateway(harness)
    request = await harness.model.wait_for_request(2)
    assert [result.text for result in tool_results(request.messages)] == ["the true result"]
    assert note_texts(request.messages) == []
    assert (await only_session_row(harness)).interruptions == 0


async def test_a_call_that_ends_while_its_turn_is_parked_is_recorded_by_the_successor(
    harness: GatewayHarness, call: Call
) -> None:
    """H6: nothing more is written for a parked turn."""
    await restart_with_timeouts(harness, park=LONG_TIMEOUT)
    attach, never = harness.held_tools[ReplayClass.ATTACH], harness.held_tools[ReplayClass.NEVER]
    for tool in (attach, never):
        tool.go.clear()
    harness.model.say([call("attach")])
    harness.say("work", chat="one")
    await attach.wait_until_started(1)
    harness.model.say([call("never")])
    harness.say("work", chat="two")  # keeps the drain open
    await never.wait_until_started(1)
    stopping = await start_parking(harness)
    attach.go.set()
    async with asyncio.timeout(30):
        while harness.gateway.lanes.count(LaneState.PARKED) != 1:
            await asyncio.sleep(0.005)
    never.go.set()
    stopped = await stopping
    assert (stopped.parked, stopped.interrupted) == (2, 0)
    attach.known[attach.started[0]] = "the true result"
    await start_gateway(harness)
    requests = [await harness.model.wait_for_request(number) for number in (3, 4)]
    texts = sorted(result.text for one in requests for result in tool_results(one.messages))
    assert texts == ["pulled never 1", "the true result"]
    assert [note_texts(one.messages) for one in requests] == [[], []]


async def test_a_turn_that_reaches_no_boundary_in_time_is_interrupted_marked_and_counted(
    harness: GatewayHarness, call: Call
) -> None:
    """C2, C3, F5, H7: its running call gets a result, and the note names the cause."""
    await restart_with_timeouts(harness, park=0.05)
    tool = harness.held_tools[ReplayClass.NEVER]
    tool.go.clear()
    harness.model.say([call("never")])
    harness.say("work")
    await tool.wait_until_started(1)
    stopped = await stop_gateway(harness, StopKind.RESTART)
    assert (stopped.parked, stopped.interrupted) == (0, 1)
    tool.go.set()
    await start_gateway(harness)
    request = await harness.model.wait_for_request(2)
    assert [result.outcome for result in tool_results(request.messages)] == [ToolOutcome.CANCELLED]
    [note] = note_texts(request.messages)
    assert note.startswith("[System note: a gateway restart")
    found = await only_session_row(harness)
    assert (found.interruptions, found.resume_reason) == (1, "restart_timeout")
    assert len(tool.started) == 1


@pytest.mark.parametrize("kind", [StopKind.STOP, StopKind.SIGNAL])
async def test_only_a_restart_parks(harness: GatewayHarness, call: Call, kind: StopKind) -> None:
    """C2, C4: any other stop ends what runs, and no successor could attach to it."""
    await restart_with_timeouts(harness, park=LONG_TIMEOUT)
    tool = harness.held_tools[ReplayClass.ATTACH]
    tool.go.clear()
    harness.model.say([call("attach")])
    harness.say("work")
    await tool.wait_until_started(1)
    async with asyncio.timeout(10):
        stopped = await stop_gateway(harness, kind)
    assert (stopped.parked, stopped.interrupted) == (0, 1)
    tool.go.set()
    await start_gateway(harness)
    request = await harness.model.wait_for_request(2)
    assert [result.outcome for result in tool_results(request.messages)] == [ToolOutcome.CANCELLED]
    assert tool.attached == []
    assert (await only_session_row(harness)).resume_reason == "shutdown_timeout"


async def test_a_parked_turn_that_is_interrupted_later_is_counted_then(
    harness: GatewayHarness, call: Call
) -> None:
    """F7, H6: the turn is no longer parked once it resumes."""
    harness.held_tools[ReplayClass.ATTACH].go.clear()
    harness.model.say([call("attach")])
    harness.say("work")
    await harness.held_tools[ReplayClass.ATTACH].wait_until_started(1)
    await restart_gateway(harness)
    await harness.held_tools[ReplayClass.ATTACH].wait_until_started(
        2
    )  # `attach` does not know the call, so it runs again
    assert (await open_turn(harness)).exit_reason is None
    await harness.die()
    harness.held_tools[ReplayClass.ATTACH].go.set()
    await harness.start()
    request = await harness.model.wait_for_request(2)
    [note] = note_texts(request.messages)
    assert note.startswith("[System note: an interruption")
    assert (await only_session_row(harness)).interruptions == 1


async def test_a_parked_turn_that_was_not_resumed_is_still_parked(
    harness: GatewayHarness, call: Call
) -> None:
    """H6: however many processes start and stop in between."""
    harness.held_tools[ReplayClass.ATTACH].go.clear()
    harness.model.say([call("attach")])
    harness.say("work")
    await harness.held_tools[ReplayClass.ATTACH].wait_until_started(1)
    stopped = await stop_gateway(harness, StopKind.RESTART)
    assert stopped.parked == 1
    harness.store = harness.open_store(harness.path)
    async with harness.store:
        assert (await open_turn(harness)).exit_reason is TurnExitReason.PARKED
    await harness.start()
    async with asyncio.timeout(10):
        await harness.gateway.stop()  # at once, before or after it resumes
    await harness.stop()
    harness.held_tools[ReplayClass.ATTACH].go.set()
    await harness.start()
    request = await harness.model.wait_for_request(2)
    assert (await only_session_row(harness)).interruptions == len(note_texts(request.messages))


async def test_a_message_queued_behind_a_parked_turn_is_answered_after_it(
    harness: GatewayHarness, call: Call
) -> None:
    """H5, H6, G4: in the order of acceptance."""
    tool = harness.held_tools[ReplayClass.ATTACH]
    tool.go.clear()
    harness.model.say([call("attach")])
    harness.say("first")
    await tool.wait_until_started(1)
    harness.say("/queue second")
    lane = next(iter(harness.gateway.lanes))
    async with asyncio.timeout(30):
        while not lane.queued:
            await asyncio.sleep(0.005)
    tool.known[tool.started[0]] = "done"
    harness.model.say("one", "two")
    await restart_gateway(harness)
    request = await harness.model.wait_for_request(3)
    assert request.messages[-1] == UserMessage(text="second")
    assert note_texts(request.messages) == []


@pytest.fixture
async def approval_harness(tmp_path: Path) -> AsyncIterator[ApprovalHarness]:
    harness = ApprovalHarness(tmp_path / "state.db")
    set_stop_timeouts(harness)
    await harness.start()
    yield harness
    await harness.stop()


@pytest.mark.parametrize("kind", [StopKind.RESTART, StopKind.STOP])
async def test_a_turn_that_waits_for_an_approval_is_left_as_it_is(
    approval_harness: ApprovalHarness, call: Call, kind: StopKind
) -> None:
    """C2, J3: it is at a boundary; any process may receive the answer."""
    approval_harness.model.say([call("shell", RM)])
    approval_harness.say("clean up")
    await approval_harness.pending_approvals()
    stopped = await stop_gateway(approval_harness, kind)
    assert (stopped.parked, stopped.interrupted) == (1, 0)
    await start_gateway(approval_harness)
    assert (await only_session_row(approval_harness)).interruptions == 0
    approval_harness.say("/approve")
    request = await approval_harness.model.wait_for_request(2)
    assert note_texts(request.messages) == []
    assert [result.outcome for result in tool_results(request.messages)] == [ToolOutcome.OK]


@pytest.fixture
async def delegating_harness(tmp_path: Path) -> AsyncIterator[GatewayHarness]:
    """A harness whose agents can start subagents."""
    harness = GatewayHarness(tmp_path / "state.db")
    harness.model = PerConversationModel()
    settings = DelegateSettings()
    harness.settings = msgspec.structs.replace(harness.settings, delegate=settings)
    harness.extra_tools = [DelegateTool(settings)]
    set_stop_timeouts(harness, park=LONG_TIMEOUT)
    await harness.start()
    yield harness
    set_stop_timeouts(harness)
    await harness.gateway.stop()
    await harness.stop()


def delegate_call(call: Call, text: str) -> ToolCall:
    return call("delegate", json.dumps({"tasks": [{"task": text}]}))


async def test_subagents_park_and_their_parents_attach_to_them(
    delegating_harness: GatewayHarness, call: Call
) -> None:
    """H6, H2: neither gets a note."""
    assert isinstance(delegating_harness.model, PerConversationModel)
    subagent = delegating_harness.model.model_for("dig")
    delegating_harness.held_tools[ReplayClass.ATTACH].go.clear()
    delegating_harness.model.say([delegate_call(call, "dig a hole")])
    subagent.say([call("attach")])
    delegating_harness.say("work")
    await delegating_harness.held_tools[ReplayClass.ATTACH].wait_until_started(1)
    stopped = await stop_gateway(delegating_harness, StopKind.RESTART)
    assert (stopped.parked, stopped.interrupted) == (2, 0)
    delegating_harness.held_tools[ReplayClass.ATTACH].known = {
        delegating_harness.held_tools[ReplayClass.ATTACH].started[0]: "dug"
    }
    subagent.say("a deep hole")
    await start_gateway(delegating_harness)
    request = await delegating_harness.model.wait_for_request(2)
    [result] = tool_results(request.messages)
    assert "a deep hole" in result.text
    assert note_texts(request.messages) == note_texts(subagent.requests[-1].messages) == []
    delegating_harness.model.say("there is a hole")
    async with asyncio.timeout(30):
        while (await delegating_harness.ledger()).get(InboxState.ANSWERED) != 2:
            await asyncio.sleep(0.005)


async def test_a_turn_can_start_subagents_while_it_drains(
    delegating_harness: GatewayHarness, call: Call
) -> None:
    """C2: a drain waits for turns to finish, and some need subagents for that."""
    assert isinstance(delegating_harness.model, PerConversationModel)
    await restart_with_timeouts(delegating_harness, drain=LONG_TIMEOUT, park=LONG_TIMEOUT)
    delegating_harness.say("work")
    await delegating_harness.model.wait_for_request(1)
    stopping = asyncio.create_task(stop_gateway(delegating_harness, StopKind.STOP))
    async with asyncio.timeout(30):
        while "draining: 1 turn" not in delegating_harness.states:
            await asyncio.sleep(0.005)
    delegating_harness.model.model_for("dig").say("a deep hole")
    delegating_harness.model.say([delegate_call(call, "dig a hole")], "there is a hole")
    stopped = await stopping
    assert (stopped.parked, stopped.interrupted) == (0, 0)
    set_stop_timeouts(delegating_harness)
    await start_gateway(delegating_harness)
    assert await delegating_harness.ledger() == {"answered": 2}


async def test_a_subagent_that_has_not_begun_when_turns_are_marked_does_not_begin(
    delegating_harness: GatewayHarness, call: Call
) -> None:
    """F5, C3: it would be interrupted without a mark, and look like a crash."""
    assert isinstance(delegating_harness.model, PerConversationModel)
    subagent = delegating_harness.model.model_for("dig")
    delegating_harness.say("work")
    await delegating_harness.model.wait_for_request(1)
    lanes = delegating_harness.gateway.lanes
    lanes.hold(allow_subagents=True)
    delegating_harness.model.say([delegate_call(call, "dig a hole")])
    async with asyncio.timeout(30):
        while len(lanes) < 2:
            await asyncio.sleep(0)
    assert lanes.count(LaneState.RUNNING) == 1
    await asyncio.gather(*mark_running_turns(delegating_harness, TurnExitReason.SHUTDOWN_TIMEOUT))
    async with asyncio.timeout(30):
        while len(lanes) > 1:
            await asyncio.sleep(0)
    assert subagent.requests == []


async def test_a_turn_is_parked_in_the_store_before_it_is_cancelled(
    harness: GatewayHarness, call: Call, until: Until
) -> None:
    """H6, F5: a crash after the drain finds it parked."""
    await restart_with_timeouts(harness, park=LONG_TIMEOUT)
    attach, never = harness.held_tools[ReplayClass.ATTACH], harness.held_tools[ReplayClass.NEVER]
    attach.go.clear()
    never.go.clear()
    harness.model.say([call("attach")])
    harness.say("work", chat="one")
    await attach.wait_until_started(1)
    harness.model.say([call("never")])
    harness.say("work", chat="two")
    await never.wait_until_started(1)
    await wait_for_open_turns(harness, 2)
    stopping = await start_parking(harness)

    async def is_parked() -> bool:
        return TurnExitReason.PARKED in {
            one.exit_reason for one in await harness.store.read(ListOpenTurns())
        }

    await until(is_parked)
    assert attach.cancelled == []
    never.go.set()
    await stopping
    await harness.start()


@pytest.fixture
async def small_window_harness(tmp_path: Path) -> AsyncIterator[GatewayHarness]:
    """A harness with a small context window, so that a long conversation is summarised."""
    harness = small_harness(tmp_path, auxiliary=AuxiliarySettings(model="helper", titles=False))
    set_stop_timeouts(harness, park=LONG_TIMEOUT)
    await harness.start()
    yield harness
    await harness.stop()


@pytest.mark.parametrize("refused", [False, True], ids=["in time", "once it was too long"])
async def test_a_turn_parks_after_the_summary_that_it_waits_for(
    small_window_harness: GatewayHarness, refused: bool
) -> None:
    """H6: the summary is in the store; the successor does not make it again and adds no note."""
    await fill_window(small_window_harness, exchanges=2 if refused else 3)
    if refused:
        small_window_harness.model.say(ModelFailed("too long", fault=ModelFault.CONTEXT_TOO_LONG))
    asked = len(small_window_harness.model.requests) + refused
    accepted = await small_window_harness.accept("and now?" if refused else long_text("question4"))
    await auxiliary_model(small_window_harness).wait_for_request(1)
    stopping = await start_parking(small_window_harness)
    auxiliary_model(small_window_harness).say("They talked about three questions.")
    stopped = await stopping
    assert (stopped.parked, stopped.interrupted) == (1, 0)
    assert len(small_window_harness.model.requests) == asked
    small_window_harness.model.say("the answer")
    set_stop_timeouts(small_window_harness)
    await start_gateway(small_window_harness)
    assert (await small_window_harness.end_of(accepted)).text == "the answer"
    assert len(auxiliary_model(small_window_harness).requests) == 1
    assert "a restart" not in "".join(note_texts(small_window_harness.model.requests[-1].messages))
