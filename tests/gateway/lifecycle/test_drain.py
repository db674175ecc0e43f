"""Tests of the drain: turns that run during a stop finish, or are interrupted (C2, C3)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.gateway_harness import Call, GatewayHarness
from tests.support.race_harness import RaceHarness
from tests.support.stops import (
    note_texts,
    only_session_row,
    restart_gateway,
    restart_with_timeouts,
    set_stop_timeouts,
    stop_gateway,
    stop_order,
    wait_for_open_turns,
)

from holdfast.core.errors import IntakeClosed
from holdfast.core.messages.transcript import ToolMessage, ToolOutcome, UserMessage
from holdfast.core.turns.stop import StopKind
from holdfast.core.turns.tool import ReplayClass
from holdfast.core.turns.turn_state import LaneState
from holdfast.testing.simulated.service import ChatService

LONG_TIMEOUT = 60.0  # seconds: no test waits that long


async def wait_for_state(harness: GatewayHarness, state: str) -> None:
    async with asyncio.timeout(30):
        while state not in harness.states:
            await asyncio.sleep(0.005)


async def test_turns_are_not_drained_by_default(harness: GatewayHarness) -> None:
    """C2: `restart_drain_timeout` is 0; a turn that runs is interrupted, and answered later."""
    assert harness.settings.gateway.restart_drain_timeout == 0
    harness.say("work")
    await harness.model.wait_for_request(1)
    async with asyncio.timeout(20):
        stopped = await stop_gateway(harness, StopKind.STOP)
    assert (stopped.interrupted, stopped.parked) == (1, 0)
    harness.model.say("worked")
    await harness.start()
    async with asyncio.timeout(30):
        while await harness.ledger() != {"answered": 1}:
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("kind", [StopKind.STOP, StopKind.SIGNAL, StopKind.RESTART])
async def test_a_turn_that_finishes_during_the_drain_is_not_interrupted(
    harness: GatewayHarness, kind: StopKind
) -> None:
    """C2, F5: nor marked; its answer is sent before the platforms disconnect."""
    await restart_with_timeouts(harness, drain=LONG_TIMEOUT, park=LONG_TIMEOUT)
    harness.say("work")
    await harness.model.wait_for_request(1)
    stopping = asyncio.create_task(stop_gateway(harness, kind))
    await wait_for_state(harness, "draining: 1 turn")
    harness.model.say("worked")
    stopped = await stopping
    assert (stopped.interrupted, stopped.parked) == (0, 0)
    assert "worked" in await harness.texts(1)
    await harness.start()
    assert await harness.ledger() == {"answered": 1}
    assert not (await only_session_row(harness)).resume_pending
    assert note_texts(await harness.transcript((await only_session_row(harness)).id)) == []


async def test_a_queued_message_is_not_started_during_the_drain(harness: GatewayHarness) -> None:
    """C2: the successor starts it, without a note."""
    await restart_with_timeouts(harness, drain=LONG_TIMEOUT)
    harness.say("first")
    await harness.model.wait_for_request(1)
    harness.say("/queue second")
    lane = next(iter(harness.gateway.lanes))
    async with asyncio.timeout(30):
        while not lane.queued:
            await asyncio.sleep(0.005)
    stopping = asyncio.create_task(stop_gateway(harness, StopKind.STOP))
    await wait_for_state(harness, "draining: 1 turn")
    harness.model.say("one", "two")
    await stopping
    assert len(harness.model.requests) == 1
    set_stop_timeouts(harness)
    await harness.start()
    request = await harness.model.wait_for_request(2)
    assert request.messages[-1] == UserMessage(text="second")
    assert note_texts(request.messages) == []


async def test_no_message_is_accepted_during_the_drain(harness: GatewayHarness) -> None:
    """C1, G1: the intake closes first, so that the platforms keep what arrives meanwhile."""
    await restart_with_timeouts(harness, drain=LONG_TIMEOUT)
    harness.say("work")
    await harness.model.wait_for_request(1)
    stopping = asyncio.create_task(stop_gateway(harness, StopKind.STOP))
    await wait_for_state(harness, "draining: 1 turn")
    with pytest.raises(IntakeClosed):
        await harness.accept("more")
    harness.model.say("worked")
    await stopping
    await harness.start()
    assert await harness.ledger() == {"answered": 1}


@pytest.fixture
async def starting_harness(tmp_path: Path) -> AsyncIterator[RaceHarness]:
    """A session with history that has a message, and whose agent is being built until the read gate
    of the store opens."""
    harness = RaceHarness(tmp_path / "state.db")
    set_stop_timeouts(harness, drain=LONG_TIMEOUT)
    await harness.start()
    harness.model.say("hello")
    await harness.end_of(await harness.accept("hi"))
    session_id = await harness.only_session()
    harness.gateway.cache.drop(session_id)
    harness.store.read_gate.close()
    await harness.accept("and now?")
    await harness.store.read_gate.reached.wait()
    yield harness
    harness.store.read_gate.go.set()
    await harness.stop()


async def test_a_session_that_is_starting_does_not_begin_in_the_drain(
    starting_harness: RaceHarness,
) -> None:
    """C2, C3: also one with history; the successor runs its message without a note."""
    harness = starting_harness
    session_id = await harness.only_session()
    lane = harness.gateway.lanes.get(session_id)
    assert lane is not None and lane.task is not None and lane.state is LaneState.STARTING
    harness.say("work", chat="other")
    await harness.model.wait_for_request(2)
    stopping = asyncio.create_task(stop_gateway(harness, StopKind.STOP))
    await wait_for_state(harness, "draining: 1 turn")
    harness.store.read_gate.go.set()
    await lane.task
    harness.model.say("worked")
    stopped = await stopping
    assert (stopped.interrupted, len(harness.model.requests)) == (0, 2)
    await harness.start()
    request = await harness.model.wait_for_request(3)
    assert request.messages[-1] == UserMessage(text="and now?")
    assert note_texts(request.messages) == []


@pytest.mark.parametrize("kind", [StopKind.STOP, StopKind.RESTART])
async def test_a_session_that_is_starting_is_not_marked(
    starting_harness: RaceHarness, kind: StopKind
) -> None:
    """F5, C3: nothing of it was cut, though it has a row that could be marked."""
    harness = starting_harness
    stopped = await stop_gateway(harness, kind, now=True)
    assert stopped.interrupted == 0
    harness.store.read_gate.go.set()
    await harness.start()
    request = await harness.model.wait_for_request(2)
    assert note_texts(request.messages) == []
    found = await only_session_row(harness)
    assert (found.resume_pending, found.interruptions) == (False, 0)


async def test_a_drain_timeout_interrupts_the_turn(harness: GatewayHarness) -> None:
    """C2, C3."""
    await restart_with_timeouts(harness, drain=0.05)
    harness.say("work")
    await harness.model.wait_for_request(1)
    stopped = await stop_gateway(harness, StopKind.STOP)
    assert stopped.interrupted == 1
    await harness.start()


async def test_a_second_signal_ends_the_drain(harness: GatewayHarness) -> None:
    """C1: a second signal ends the drain."""
    await restart_with_timeouts(harness, drain=LONG_TIMEOUT)
    harness.say("work")
    await harness.model.wait_for_request(1)
    hurried = asyncio.Event()
    order = stop_order(harness, StopKind.SIGNAL)
    stopping = asyncio.create_task(harness.gateway.stop(order, urgent=hurried))
    await wait_for_state(harness, "draining: 1 turn")
    hurried.set()
    async with asyncio.timeout(10):
        await stopping
    assert harness.gateway.interrupted == 1
    await harness.stop()
    set_stop_timeouts(harness)
    await harness.start()


async def test_drain_progress_is_reported_when_the_number_changes(harness: GatewayHarness) -> None:
    """C2: at the start, with each change, and at the end; not on every check."""
    await restart_with_timeouts(harness, drain=LONG_TIMEOUT)
    for chat in ("one", "two"):
        harness.say("work", chat=chat)
    await harness.model.wait_for_request(2)
    harness.states.clear()
    stopping = asyncio.create_task(stop_gateway(harness, StopKind.STOP))
    await wait_for_state(harness, "draining: 2 turns")
    harness.model.say("worked")
    await wait_for_state(harness, "draining: 1 turn")
    harness.model.say("worked")
    await stopping
    reported = [state for state in harness.states if state.startswith("draining")]
    end = "draining: 0 turns"
    assert reported == ["draining: 2 turns", "draining: 1 turn", end, end]
    await harness.start()


@pytest.fixture
async def album_harness(tmp_path: Path) -> AsyncIterator[GatewayHarness]:
    """A harness whose vendor splits messages: an album waits for further parts."""
    harness = GatewayHarness(tmp_path / "state.db")
    harness.service = ChatService(settle=LONG_TIMEOUT)
    await harness.start()
    yield harness
    await harness.stop()


async def test_a_session_that_is_still_starting_is_neither_interrupted_nor_marked(
    album_harness: GatewayHarness,
) -> None:
    """C3, F5: its message stays in the inbox and runs in the successor, without a note."""
    album_harness.say("part of an album", group="album")
    async with asyncio.timeout(30):
        while album_harness.gateway.lanes.count(LaneState.STARTING) != 1:
            await asyncio.sleep(0.005)
    async with asyncio.timeout(10):
        stopped = await stop_gateway(album_harness, StopKind.RESTART)
    assert (stopped.interrupted, stopped.parked) == (0, 0)
    album_harness.service = ChatService()
    await album_harness.start()
    request = await album_harness.model.wait_for_request(1)
    assert [message.text for message in request.messages] == ["part of an album"]
    await wait_for_open_turns(album_harness)
    assert (await only_session_row(album_harness)).interruptions == 0
    album_harness.model.say("seen")


async def test_an_agent_gets_the_reason_for_its_interruption_once(
    harness: GatewayHarness, call: Call
) -> None:
    """C3, H7: once per agent, with the reason; the turn stays open."""
    tool = harness.held_tools[ReplayClass.NEVER]
    tool.go.clear()
    harness.model.say([call("never")])
    harness.say("work")
    await tool.wait_until_started(1)
    turn = next(iter(harness.gateway.lanes)).running_turn
    assert turn is not None
    agent = turn.context.agent
    reasons: list[str] = []
    interrupt = agent._interrupt
    assert interrupt is not None

    def record_reason(reason: str) -> None:
        reasons.append(reason)
        interrupt(reason)

    agent.set_interrupt(record_reason)
    await stop_gateway(harness, StopKind.STOP)
    assert reasons == ["Gateway shutting down"]
    assert len(tool.cancelled) == 1
    await harness.start()
    request = await harness.model.wait_for_request(2)
    [result] = [m for m in request.messages if isinstance(m, ToolMessage)]
    assert result.outcome is ToolOutcome.CANCELLED


async def test_a_restart_gives_its_own_reason_to_agents(harness: GatewayHarness) -> None:
    """C3: `Gateway restarting`."""
    assert stop_order(harness, StopKind.RESTART).agent_notice == "Gateway restarting"
    assert stop_order(harness, StopKind.REPLACE).agent_notice == "Gateway restarting"
    harness.say("work")
    await harness.model.wait_for_request(1)
    turn = next(iter(harness.gateway.lanes)).running_turn
    assert turn is not None
    await restart_gateway(harness, now=True)
    assert turn.interrupt_reason == "Gateway restarting"


async def test_wait_until_idle_returns_when_no_turn_runs(harness: GatewayHarness) -> None:
    """C2: `restart --when-idle` waits for this; a turn that waits for an approval does not run."""
    harness.say("work")
    await harness.model.wait_for_request(1)
    idle = asyncio.create_task(harness.gateway.lanes.wait_until_idle())
    await wait_for_open_turns(harness)
    assert not idle.done()
    harness.model.say("worked")
    async with asyncio.timeout(10):
        await idle
    assert harness.gateway.lanes.count(LaneState.RUNNING) == 0
