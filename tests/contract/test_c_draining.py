"""Chapter C, the turns that run when a gateway goes: waited for, interrupted, or never begun."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.contract.conftest import Call, World
from tests.contract.stops import (
    begun,
    leave,
    notes,
    only,
    order_to,
    restart,
    windows,
    with_windows,
)

from holdfast.core.messages.transcript import ToolMessage, ToolOutcome, UserMessage
from holdfast.core.turns.stop import StopKind
from holdfast.core.turns.tool import ReplayClass
from holdfast.core.turns.turn import LaneState
from holdfast.testing.simulated.service import ChatService

LONG = 60.0  # seconds: a window that no test waits for


async def told(world: World, state: str) -> None:
    async with asyncio.timeout(30):
        while state not in world.states:
            await asyncio.sleep(0.005)


async def test_nothing_is_awaited_by_default(world: World) -> None:
    """C2: `restart_drain_timeout` is 0; a turn that runs is interrupted, and answered later."""
    assert world.settings.gateway.restart_drain_timeout == 0
    world.say("work")
    await world.model.wait_for_request(1)
    async with asyncio.timeout(20):
        went = await leave(world, StopKind.STOP)
    assert (went.interrupted, went.parked) == (1, 0)
    world.model.say("worked")
    await world.start()
    async with asyncio.timeout(30):
        while await world.ledger() != {"answered": 1}:
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("kind", [StopKind.STOP, StopKind.SIGNAL, StopKind.RESTART])
async def test_a_turn_that_finishes_inside_the_window_is_not_interrupted(
    world: World, kind: StopKind
) -> None:
    """C2, F5: nor marked; its answer goes out before the platforms do."""
    await with_windows(world, drain=LONG, park=LONG)
    world.say("work")
    await world.model.wait_for_request(1)
    stopping = asyncio.create_task(leave(world, kind))
    await told(world, "draining: 1 turn")
    world.model.say("worked")
    went = await stopping
    assert (went.interrupted, went.parked) == (0, 0)
    assert "worked" in await world.texts(1)
    await world.start()
    assert await world.ledger() == {"answered": 1}
    assert not (await only(world)).resume_pending
    assert notes(await world.transcript((await only(world)).id)) == []


async def test_what_waits_behind_a_turn_is_not_begun_in_the_window(world: World) -> None:
    """C2: it is the successor's, without a note."""
    await with_windows(world, drain=LONG)
    world.say("first")
    await world.model.wait_for_request(1)
    world.say("/queue second")
    lane = next(iter(world.gateway.lanes))
    async with asyncio.timeout(30):
        while not lane.queued:
            await asyncio.sleep(0.005)
    stopping = asyncio.create_task(leave(world, StopKind.STOP))
    await told(world, "draining: 1 turn")
    world.model.say("one", "two")
    await stopping
    assert len(world.model.requests) == 1
    windows(world)
    await world.start()
    request = await world.model.wait_for_request(2)
    assert request.messages[-1] == UserMessage(text="second")
    assert notes(request.messages) == []


async def test_a_window_that_is_over_ends_in_an_interrupt(world: World) -> None:
    """C2, C3."""
    await with_windows(world, drain=0.05)
    world.say("work")
    await world.model.wait_for_request(1)
    went = await leave(world, StopKind.STOP)
    assert went.interrupted == 1
    await world.start()


async def test_whoever_hurries_ends_the_window_now(world: World) -> None:
    """C1: a second signal ends the drain."""
    await with_windows(world, drain=LONG)
    world.say("work")
    await world.model.wait_for_request(1)
    hurried = asyncio.Event()
    order = order_to(world, StopKind.SIGNAL)
    stopping = asyncio.create_task(world.running.stop(order, hurried=hurried))
    await told(world, "draining: 1 turn")
    hurried.set()
    async with asyncio.timeout(10):
        await stopping
    assert world.running.interrupted == 1
    await world.stop()
    windows(world)
    await world.start()


async def test_progress_is_told_when_the_number_changes(world: World) -> None:
    """C2: at the start, with each change, and at the end; not on every look."""
    await with_windows(world, drain=LONG)
    for chat in ("one", "two"):
        world.say("work", chat=chat)
    await world.model.wait_for_request(2)
    world.states.clear()
    stopping = asyncio.create_task(leave(world, StopKind.STOP))
    await told(world, "draining: 2 turns")
    world.model.say("worked")
    await told(world, "draining: 1 turn")
    world.model.say("worked")
    await stopping
    said = [state for state in world.states if state.startswith("draining")]
    end = "draining: 0 turns"
    assert said == ["draining: 2 turns", "draining: 1 turn", end, end]
    await world.start()


@pytest.fixture
async def patient(tmp_path: Path) -> AsyncIterator[World]:
    """A world whose vendor splits messages: one that may have more parts is waited for."""
    world = World(tmp_path / "state.db")
    world.service = ChatService(settle=LONG)
    await world.start()
    yield world
    await world.stop()


async def test_a_session_that_is_still_starting_is_neither_interrupted_nor_marked(
    patient: World,
) -> None:
    """C3, F5: its message stays in the inbox and runs in the successor, without a note."""
    patient.say("part of an album", group="album")
    async with asyncio.timeout(30):
        while patient.gateway.lanes.count(LaneState.STARTING) != 1:
            await asyncio.sleep(0.005)
    async with asyncio.timeout(10):
        went = await leave(patient, StopKind.RESTART)
    assert (went.interrupted, went.parked) == (0, 0)
    patient.service = ChatService()
    await patient.start()
    request = await patient.model.wait_for_request(1)
    assert [message.text for message in request.messages] == ["part of an album"]
    await begun(patient)
    assert (await only(patient)).interruptions == 0
    patient.model.say("seen")


async def test_an_agent_hears_once_why_it_is_interrupted(world: World, call: Call) -> None:
    """C3, H7: once per agent, with the reason; the turn stays open."""
    lever = world.levers[ReplayClass.NEVER]
    lever.go.clear()
    world.model.say([call("never")])
    world.say("work")
    await lever.was_pulled(1)
    agent = next(iter(world.gateway.lanes)).running_turn.agent
    heard: list[str] = []
    interrupt = agent._interrupt
    assert interrupt is not None

    def listen(reason: str) -> None:
        heard.append(reason)
        interrupt(reason)

    agent.set_interrupt(listen)
    await leave(world, StopKind.STOP)
    assert heard == ["Gateway shutting down"]
    assert len(lever.cancelled) == 1
    await world.start()
    request = await world.model.wait_for_request(2)
    [result] = [m for m in request.messages if isinstance(m, ToolMessage)]
    assert result.outcome is ToolOutcome.CANCELLED


async def test_a_restart_says_so_to_its_agents(world: World) -> None:
    """C3: `Gateway restarting`."""
    assert order_to(world, StopKind.RESTART).agent_notice == "Gateway restarting"
    assert order_to(world, StopKind.REPLACE).agent_notice == "Gateway restarting"
    world.say("work")
    await world.model.wait_for_request(1)
    turn = next(iter(world.gateway.lanes)).running_turn
    await restart(world, now=True)
    assert turn.interrupt_reason == "Gateway restarting"


async def test_whoever_waits_until_nothing_runs_hears_it(world: World) -> None:
    """C2: `restart --when-idle` waits for this, and not for one who waits for a person."""
    world.say("work")
    await world.model.wait_for_request(1)
    quiet = asyncio.create_task(world.gateway.lanes.wait_until_idle())
    await begun(world)
    assert not quiet.done()
    world.model.say("worked")
    async with asyncio.timeout(10):
        await quiet
    assert world.gateway.lanes.count(LaneState.RUNNING) == 0
