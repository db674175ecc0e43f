"""Chapter H, hitless restarts: a turn parks at a step boundary, and goes on as if nothing had
happened."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.agent.test_compaction import filled, long_text
from tests.support.approvals import RM, ApprovalHarness
from tests.support.conversation_models import Cast
from tests.support.gateway_harness import Call, GatewayHarness, NoRunners, Until
from tests.support.stops import (
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
from holdfast.core.messages.inbox import InboxState
from holdfast.core.messages.transcript import ToolMessage, ToolOutcome, UserMessage
from holdfast.core.turns.model import ModelFailed, ModelFault
from holdfast.core.turns.stop import StopKind, TurnExitReason
from holdfast.core.turns.tool import ReplayClass
from holdfast.core.turns.turn import LaneState

LONG = 60.0  # seconds: a window that no test waits for


async def parking(harness: GatewayHarness, kind: StopKind = StopKind.RESTART) -> asyncio.Task[Any]:
    """A restart that has told the turns to park."""
    stopping = asyncio.create_task(stop_gateway(harness, kind))
    async with asyncio.timeout(30):
        while not any(
            lane.running_turn and lane.running_turn.context.parking
            for lane in harness.gateway.lanes
        ):
            await asyncio.sleep(0.005)
    return stopping


def results(messages: Any) -> list[ToolMessage]:
    return [message for message in messages if isinstance(message, ToolMessage)]


@pytest.mark.parametrize("kind", [StopKind.RESTART, StopKind.REPLACE])
async def test_a_turn_parks_after_the_reply_that_it_waits_for(
    harness: GatewayHarness, call: Call, kind: StopKind
) -> None:
    """H6, C2, F5: the reply is committed, its call is a successor's; no mark, note or count."""
    await restart_with_timeouts(harness, park=LONG)
    harness.say("work")
    await harness.model.wait_for_request(1)
    stopping = await parking(harness, kind)
    harness.model.say([call("never")])
    went = await stopping
    assert (went.parked, went.interrupted) == (1, 0)
    assert harness.held_tools[ReplayClass.NEVER].started == []
    await start_gateway(harness)
    request = await harness.model.wait_for_request(2)
    assert note_texts(request.messages) == []
    assert [result.outcome for result in results(request.messages)] == [ToolOutcome.OK]
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
    await restart_with_timeouts(harness, park=LONG)
    lever = harness.held_tools[ReplayClass.NEVER]
    lever.go.clear()
    harness.model.say([call("never"), call("safe")])
    harness.say("work")
    await lever.wait_until_started(1)
    stopping = await parking(harness)
    lever.go.set()
    went = await stopping
    assert (went.parked, went.interrupted) == (1, 0)
    assert len(harness.model.requests) == 1
    await start_gateway(harness)
    request = await harness.model.wait_for_request(2)
    assert note_texts(request.messages) == []
    assert [result.outcome for result in results(request.messages)] == [ToolOutcome.OK] * 2
    assert (len(lever.started), len(harness.held_tools[ReplayClass.SAFE].started)) == (1, 1)


class LettingGo(NoRunners):
    """Sees which calls were cancelled before the runners were let go."""

    def __init__(self, harness: GatewayHarness) -> None:
        super().__init__()
        self.cancelled_before: list[Any] = []
        self._lever = harness.held_tools[ReplayClass.ATTACH]

    async def detach(self) -> None:
        self.cancelled_before += [] if self.detached else self._lever.cancelled
        await super().detach()


async def test_a_turn_in_a_detachable_call_is_parked_at_once(
    harness: GatewayHarness, call: Call
) -> None:
    """H6, H2, C4: also by `--now`; the runner is let go of before the turn is cancelled, and the
    successor attaches to the real call."""
    await restart_with_timeouts(harness, park=LONG)
    lever = harness.held_tools[ReplayClass.ATTACH]
    await harness.stop()
    runners = harness.runners = LettingGo(harness)
    await harness.start()
    lever.go.clear()
    harness.model.say([call("attach")])
    harness.say("work")
    await lever.wait_until_started(1)
    async with asyncio.timeout(10):
        went = await stop_gateway(harness, StopKind.RESTART, now=True)
    assert (went.parked, went.interrupted) == (1, 0)
    assert runners.cancelled_before == []
    assert len(lever.cancelled) == 1
    lever.known[lever.started[0]] = "the true result"
    await start_gateway(harness)
    request = await harness.model.wait_for_request(2)
    assert [result.text for result in results(request.messages)] == ["the true result"]
    assert note_texts(request.messages) == []
    assert (await only_session_row(harness)).interruptions == 0


async def test_a_call_that_ends_while_its_turn_is_parked_is_recorded_by_the_successor(
    harness: GatewayHarness, call: Call
) -> None:
    """H6: nothing more is written in the name of a turn that was left."""
    await restart_with_timeouts(harness, park=LONG)
    attach, never = harness.held_tools[ReplayClass.ATTACH], harness.held_tools[ReplayClass.NEVER]
    for lever in (attach, never):
        lever.go.clear()
    harness.model.say([call("attach")])
    harness.say("work", chat="one")
    await attach.wait_until_started(1)
    harness.model.say([call("never")])
    harness.say("work", chat="two")  # keeps the window open
    await never.wait_until_started(1)
    stopping = await parking(harness)
    attach.go.set()
    async with asyncio.timeout(30):
        while harness.gateway.lanes.count(LaneState.PARKED) != 1:
            await asyncio.sleep(0.005)
    never.go.set()
    went = await stopping
    assert (went.parked, went.interrupted) == (2, 0)
    attach.known[attach.started[0]] = "the true result"
    await start_gateway(harness)
    requests = [await harness.model.wait_for_request(number) for number in (3, 4)]
    texts = sorted(result.text for one in requests for result in results(one.messages))
    assert texts == ["pulled never 1", "the true result"]
    assert [note_texts(one.messages) for one in requests] == [[], []]


async def test_a_turn_that_reaches_no_boundary_in_time_is_interrupted_marked_and_counted(
    harness: GatewayHarness, call: Call
) -> None:
    """C2, C3, F5, H7: the call that it was in has its result, and the note says by what."""
    await restart_with_timeouts(harness, park=0.05)
    lever = harness.held_tools[ReplayClass.NEVER]
    lever.go.clear()
    harness.model.say([call("never")])
    harness.say("work")
    await lever.wait_until_started(1)
    went = await stop_gateway(harness, StopKind.RESTART)
    assert (went.parked, went.interrupted) == (0, 1)
    lever.go.set()
    await start_gateway(harness)
    request = await harness.model.wait_for_request(2)
    assert [result.outcome for result in results(request.messages)] == [ToolOutcome.CANCELLED]
    [note] = note_texts(request.messages)
    assert note.startswith("[System note: a restart")
    found = await only_session_row(harness)
    assert (found.interruptions, found.resume_reason) == (1, "restart_timeout")
    assert len(lever.started) == 1


@pytest.mark.parametrize("kind", [StopKind.STOP, StopKind.SIGNAL])
async def test_only_a_restart_parks(harness: GatewayHarness, call: Call, kind: StopKind) -> None:
    """C2, C4: any other stop ends what runs, and no successor could attach to it."""
    await restart_with_timeouts(harness, park=LONG)
    lever = harness.held_tools[ReplayClass.ATTACH]
    lever.go.clear()
    harness.model.say([call("attach")])
    harness.say("work")
    await lever.wait_until_started(1)
    async with asyncio.timeout(10):
        went = await stop_gateway(harness, kind)
    assert (went.parked, went.interrupted) == (0, 1)
    lever.go.set()
    await start_gateway(harness)
    request = await harness.model.wait_for_request(2)
    assert [result.outcome for result in results(request.messages)] == [ToolOutcome.CANCELLED]
    assert lever.attached == []
    assert (await only_session_row(harness)).resume_reason == "shutdown_timeout"


async def test_a_parked_turn_that_is_interrupted_later_is_counted_then(
    harness: GatewayHarness, call: Call
) -> None:
    """F7, H6: parking is forgotten when the turn goes on."""
    harness.held_tools[ReplayClass.ATTACH].go.clear()
    harness.model.say([call("attach")])
    harness.say("work")
    await harness.held_tools[ReplayClass.ATTACH].wait_until_started(1)
    await restart_gateway(harness)
    await harness.held_tools[ReplayClass.ATTACH].wait_until_started(
        2
    )  # which never heard of it, and runs it
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
    """H6: however many processes come and go in between."""
    harness.held_tools[ReplayClass.ATTACH].go.clear()
    harness.model.say([call("attach")])
    harness.say("work")
    await harness.held_tools[ReplayClass.ATTACH].wait_until_started(1)
    went = await stop_gateway(harness, StopKind.RESTART)
    assert went.parked == 1
    harness.store = harness.open_store(harness.path)
    async with harness.store:
        assert (await open_turn(harness)).exit_reason is TurnExitReason.PARKED
    await harness.start()
    async with asyncio.timeout(10):
        await harness.running.stop()  # at once, before or behind its going on
    await harness.stop()
    harness.held_tools[ReplayClass.ATTACH].go.set()
    await harness.start()
    request = await harness.model.wait_for_request(2)
    assert (await only_session_row(harness)).interruptions == len(note_texts(request.messages))


async def test_a_message_queued_behind_a_parked_turn_is_answered_after_it(
    harness: GatewayHarness, call: Call
) -> None:
    """H5, H6, G4: in the order of acceptance."""
    lever = harness.held_tools[ReplayClass.ATTACH]
    lever.go.clear()
    harness.model.say([call("attach")])
    harness.say("first")
    await lever.wait_until_started(1)
    harness.say("/queue second")
    lane = next(iter(harness.gateway.lanes))
    async with asyncio.timeout(30):
        while not lane.queued:
            await asyncio.sleep(0.005)
    lever.known[lever.started[0]] = "done"
    harness.model.say("one", "two")
    await restart_gateway(harness)
    request = await harness.model.wait_for_request(3)
    assert request.messages[-1] == UserMessage(text="second")
    assert note_texts(request.messages) == []


@pytest.fixture
async def asking(tmp_path: Path) -> AsyncIterator[ApprovalHarness]:
    harness = ApprovalHarness(tmp_path / "state.db")
    set_stop_timeouts(harness)
    await harness.start()
    yield harness
    await harness.stop()


@pytest.mark.parametrize("kind", [StopKind.RESTART, StopKind.STOP])
async def test_a_turn_that_waits_for_an_approval_is_left_as_it_is(
    asking: ApprovalHarness, call: Call, kind: StopKind
) -> None:
    """C2, J3: it stands at a boundary; the answer may come to any process."""
    asking.model.say([call("shell", RM)])
    asking.say("clean up")
    await asking.asked()
    went = await stop_gateway(asking, kind)
    assert (went.parked, went.interrupted) == (1, 0)
    await start_gateway(asking)
    assert (await only_session_row(asking)).interruptions == 0
    asking.say("/approve")
    request = await asking.model.wait_for_request(2)
    assert note_texts(request.messages) == []
    assert [result.outcome for result in results(request.messages)] == [ToolOutcome.OK]


@pytest.fixture
async def family(tmp_path: Path) -> AsyncIterator[GatewayHarness]:
    """A harness whose agents have children."""
    harness = GatewayHarness(tmp_path / "state.db")
    harness.model = Cast()
    settings = DelegateSettings()
    harness.settings = msgspec.structs.replace(harness.settings, delegate=settings)
    harness.extra_tools = [DelegateTool(settings)]
    set_stop_timeouts(harness, park=LONG)
    await harness.start()
    yield harness
    set_stop_timeouts(harness)
    await harness.running.stop()
    await harness.stop()


def delegating(call: Call, text: str) -> Any:
    return call("delegate", json.dumps({"tasks": [{"task": text}]}))


async def test_subagents_park_and_their_parents_attach_to_them(
    family: GatewayHarness, call: Call
) -> None:
    """H6, H2: neither is told that anything happened."""
    assert isinstance(family.model, Cast)
    child = family.model.part("dig")
    family.held_tools[ReplayClass.ATTACH].go.clear()
    family.model.say([delegating(call, "dig a hole")])
    child.say([call("attach")])
    family.say("work")
    await family.held_tools[ReplayClass.ATTACH].wait_until_started(1)
    went = await stop_gateway(family, StopKind.RESTART)
    assert (went.parked, went.interrupted) == (2, 0)
    family.held_tools[ReplayClass.ATTACH].known = {
        family.held_tools[ReplayClass.ATTACH].started[0]: "dug"
    }
    child.say("a deep hole")
    await start_gateway(family)
    request = await family.model.wait_for_request(2)
    [result] = results(request.messages)
    assert "a deep hole" in result.text
    assert note_texts(request.messages) == note_texts(child.requests[-1].messages) == []
    family.model.say("there is a hole")
    async with asyncio.timeout(30):
        while (await family.ledger()).get(InboxState.ANSWERED) != 2:
            await asyncio.sleep(0.005)


async def test_a_turn_can_start_subagents_while_it_drains(
    family: GatewayHarness, call: Call
) -> None:
    """C2: a drain waits for turns to finish, and some need help for that."""
    assert isinstance(family.model, Cast)
    await restart_with_timeouts(family, drain=LONG, park=LONG)
    family.say("work")
    await family.model.wait_for_request(1)
    stopping = asyncio.create_task(stop_gateway(family, StopKind.STOP))
    async with asyncio.timeout(30):
        while "draining: 1 turn" not in family.states:
            await asyncio.sleep(0.005)
    family.model.part("dig").say("a deep hole")
    family.model.say([delegating(call, "dig a hole")], "there is a hole")
    went = await stopping
    assert (went.parked, went.interrupted) == (0, 0)
    set_stop_timeouts(family)
    await start_gateway(family)
    assert await family.ledger() == {"answered": 2}


async def test_a_subagent_that_has_not_begun_when_turns_are_marked_does_not_begin(
    family: GatewayHarness, call: Call
) -> None:
    """F5, C3: it would be cut without a mark, and be taken for the victim of a crash."""
    assert isinstance(family.model, Cast)
    child = family.model.part("dig")
    family.say("work")
    await family.model.wait_for_request(1)
    lanes = family.gateway.lanes
    lanes.hold(allow_subagents=True)
    family.model.say([delegating(call, "dig a hole")])
    async with asyncio.timeout(30):
        while len(lanes) < 2:
            await asyncio.sleep(0)
    assert lanes.count(LaneState.RUNNING) == 1
    await asyncio.gather(*lanes.leave(TurnExitReason.SHUTDOWN_TIMEOUT))
    async with asyncio.timeout(30):
        while len(lanes) > 1:
            await asyncio.sleep(0)
    assert child.requests == []


async def test_a_turn_is_parked_in_the_store_before_it_is_cancelled(
    harness: GatewayHarness, call: Call, until: Until
) -> None:
    """H6, F5: a crash behind the drain finds it parked."""
    await restart_with_timeouts(harness, park=LONG)
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
    stopping = await parking(harness)

    async def is_parked() -> bool:
        return TurnExitReason.PARKED in {
            one.exit_reason for one in await harness.store.open_turns()
        }

    await until(is_parked)
    assert attach.cancelled == []
    never.go.set()
    await stopping
    await harness.start()


@pytest.fixture
async def small(tmp_path: Path) -> AsyncIterator[GatewayHarness]:
    """A harness whose window is small, so that a long talk is summarised."""
    harness = small_harness(tmp_path, auxiliary=AuxiliarySettings(model="helper", titles=False))
    set_stop_timeouts(harness, park=LONG)
    await harness.start()
    yield harness
    await harness.stop()


@pytest.mark.parametrize("refused", [False, True], ids=["in time", "once it was too long"])
async def test_a_turn_parks_after_the_summary_that_it_waits_for(
    small: GatewayHarness, refused: bool
) -> None:
    """H6: the summary is in the log; the successor neither makes it again nor says so."""
    await filled(small, exchanges=2 if refused else 3)
    if refused:
        small.model.say(ModelFailed("too long", fault=ModelFault.CONTEXT_TOO_LONG))
    asked = len(small.model.requests) + refused
    accepted = await small.accept("and now?" if refused else long_text("question4"))
    await auxiliary_model(small).wait_for_request(1)
    stopping = await parking(small)
    auxiliary_model(small).say("They talked about three questions.")
    went = await stopping
    assert (went.parked, went.interrupted) == (1, 0)
    assert len(small.model.requests) == asked
    small.model.say("the answer")
    set_stop_timeouts(small)
    await start_gateway(small)
    assert (await small.end_of(accepted)).text == "the answer"
    assert len(auxiliary_model(small).requests) == 1
    assert "a restart" not in "".join(note_texts(small.model.requests[-1].messages))
