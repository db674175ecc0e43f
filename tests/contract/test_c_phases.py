"""Chapter C, the list itself: names, order, deadlines, and what a broken phase does to the rest."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.contract.conftest import Call, NoRunners, World
from tests.contract.stops import begun, leave, only, order_to, windows, with_windows

from holdfast.core.ports.capabilities import Capabilities
from holdfast.core.turns.stop import StopKind
from holdfast.core.turns.tool import ReplayClass
from holdfast.gateway.app import Gateway
from holdfast.gateway.lifecycle.phases import Phase, run_phases
from holdfast.gateway.lifecycle.stop import DRAIN, GatewayStop
from holdfast.gateway.lifespan import RunningGateway

NAMES = [
    "close intake",
    "notify",
    "drain",
    "mark",
    "interrupt",
    "kill tools",
    "finalise agents",
    "empty the cache",
    "flush outbox",
    "disconnect platforms",
    "cancel tasks",
    "kill tools again",
    "close auxiliary clients",
]
OF_THE_PROCESS = 6.0  # seconds of the 25: the store, the state, the lock


async def fails() -> None:
    raise ValueError("this phase is broken")


async def hangs() -> None:
    await asyncio.Event().wait()


def phases_of(world: World, kind: StopKind) -> list[Phase]:
    return world.running.phases(order_to(world, kind), hurried=asyncio.Event())


@pytest.mark.parametrize("kind", [kind for kind in StopKind if kind is not StopKind.CRASH])
async def test_the_phases_have_their_names_and_their_order(world: World, kind: StopKind) -> None:
    """C1: one list, whatever the reason."""
    assert [phase.name for phase in phases_of(world, kind)] == NAMES
    await leave(world, kind)
    ran = world.states[world.states.index("connecting") + 1 :]
    assert [state for state in ran if state in NAMES] == NAMES
    await world.start()


@pytest.mark.parametrize("kind", [StopKind.STOP, StopKind.RESTART])
async def test_all_phases_but_the_drain_fit_into_their_time(world: World, kind: StopKind) -> None:
    """C1: 25 seconds together, with room for what the process does besides."""
    await with_windows(world, drain=100, park=10)
    phases = phases_of(world, kind)
    assert sum(phase.seconds for phase in phases if phase.name != DRAIN) <= 25 - OF_THE_PROCESS
    [drain] = [phase for phase in phases if phase.name == DRAIN]
    assert drain.seconds > 100 + (10 if kind.restarts else 0)


@pytest.fixture
async def hasty(tmp_path: Path) -> AsyncIterator[World]:
    """A world whose stops wait for nothing."""
    world = World(tmp_path / "state.db")
    windows(world)
    await world.start()
    yield world
    await world.stop()


async def in_the_middle_of_everything(world: World, call: Call) -> None:
    """A turn that the model works on, one in a command, and a message that waits."""
    world.levers[ReplayClass.ATTACH].go.clear()
    world.model.say([call("attach")])
    world.say("run it", chat="commands")
    await world.levers[ReplayClass.ATTACH].was_pulled(1)
    world.say("think", chat="thoughts")
    await world.model.wait_for_request(2)
    world.say("/queue and then", chat="thoughts")
    await begun(world, 2)
    async with asyncio.timeout(30):
        while sum(lane.queued for lane in world.gateway.lanes) < 1:
            await asyncio.sleep(0.005)


def _brief(phase: Phase) -> Phase:
    """Where a broken phase has left tasks behind, this one waits for them in vain."""
    return replace(phase, seconds=0.2) if phase.name == "cancel tasks" else phase


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("fault", "kind"), [(fails, StopKind.SIGNAL), (hangs, StopKind.RESTART)], ids=["fails", "hangs"]
)
async def test_a_broken_phase_skips_no_other_and_loses_nothing(
    hasty: World, call: Call, name: str, fault: Callable[[], Awaitable[None]], kind: StopKind
) -> None:
    """C1, H3: the others run, and the next start answers each message once, from the log."""
    world = hasty
    await in_the_middle_of_everything(world, call)
    phases = [
        replace(phase, seconds=0.05, run=fault) if phase.name == name else _brief(phase)
        for phase in phases_of(world, kind)
    ]
    told: list[str] = []
    await run_phases(phases, progress=told.append)
    assert told == NAMES
    await world.die()
    lever = world.levers[ReplayClass.ATTACH]
    lever.known = {lever.pulled[0]: "it ran"}
    lever.go.set()
    world.model.say("one", "two", "three")
    await world.start()
    await settled(world, 3)
    assert await world.ledger() == {"answered": 3}
    assert len(lever.pulled) == 1
    replies = [s.outgoing.text for s in await world.sent(3) if s.outgoing.text in WORDS]
    assert sorted(replies) == sorted(WORDS)


WORDS = ("one", "two", "three")


async def settled(world: World, number: int) -> None:
    async with asyncio.timeout(30):
        while (await world.ledger()).get("answered", 0) < number:
            await asyncio.sleep(0.005)
        while len([s for s in await world.sent(0) if s.outgoing.text in WORDS]) < number:
            await asyncio.sleep(0.005)


async def test_whoever_stops_it_again_waits_for_the_same_stop(world: World) -> None:
    """C1: idempotent; each phase runs once."""
    await asyncio.gather(*(world.running.stop() for _ in range(3)))
    await world.running.stop(order_to(world, StopKind.RESTART))
    assert world.states.count("disconnect platforms") == 1
    await world.stop()
    await world.start()


async def test_cancelling_whoever_waits_does_not_cancel_the_stop(world: World) -> None:
    """C1: a stop that has begun goes through."""
    first = asyncio.create_task(world.running.stop())
    await asyncio.sleep(0)
    first.cancel()
    await world.running.stop()
    assert world.states[-1] == NAMES[-1]
    await world.stop()
    await world.start()


class Doorway:
    """A platform of this very process, which a start waits for, that stands in its own doorway."""

    name = "slow"
    account = "default"

    capabilities = Capabilities(fetchable=True)

    def __init__(self) -> None:
        self.reached = asyncio.Event()

    def connect(self, intake: Any) -> "Doorway":
        return self

    async def __aenter__(self) -> None:
        self.reached.set()
        await asyncio.Event().wait()

    async def __aexit__(self, *exc: object) -> None:
        raise AssertionError("it was never entered")


async def test_a_stop_in_the_middle_of_a_start_ends_what_was_begun(world: World) -> None:
    """C1: at any point of start-up; parts that were never entered are passed over."""
    await world.accept("work")
    await world.model.wait_for_request(1)
    await begun(world)
    await world.stop()
    doorway = Doorway()
    world.more_doors = [doorway]
    starting = asyncio.create_task(world.start())
    await doorway.reached.wait()
    await world.model.wait_for_request(2)  # the turn that was cut has gone on meanwhile
    await world.running.stop()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert len(world.gateway.lanes) == 0
    await world.stop()
    world.more_doors = []
    world.model.say("answered")
    await world.start()
    await settled_once(world)


async def settled_once(world: World) -> None:
    async with asyncio.timeout(30):
        while await world.ledger() != {"answered": 1}:
            await asyncio.sleep(0.005)


async def test_a_start_that_does_not_let_go_keeps_nobody_from_leaving(world: World) -> None:
    """C1, C5: the rest of the phase is done all the same, and memory hears of who is mid-turn."""
    world.say("work")
    await world.model.wait_for_request(1)
    stop = GatewayStop(
        order_to(world, StopKind.STOP),
        world.gateway,
        hurried=asyncio.Event(),
        cancel_start=hangs,
        stopped=asyncio.Event(),
    )
    first = replace(stop.phases()[0], seconds=0.05)
    assert first.name == "close intake"
    await run_phases([first], progress=world.states.append)
    assert world.gateway.services.subagents._detached
    assert stop._mid_turn == {lane.session_id for lane in world.gateway.lanes} != set()


async def test_a_gateway_that_was_never_started_can_be_stopped(world: World) -> None:
    """C1: nothing was entered, and nothing hangs."""
    fresh = RunningGateway(Gateway(world.gateway.dependencies))
    async with asyncio.timeout(20):
        await fresh.stop()


class Watched(NoRunners):
    """Tells when it was asked to end or to let go, among the phases."""

    def __init__(self, states: list[str]) -> None:
        super().__init__()
        self._states = states

    async def end_all(self) -> None:
        self._states.append("ended")

    async def detach(self) -> None:
        self._states.append("let go")


@pytest.fixture
async def watched(world: World) -> World:
    await world.stop()
    world.runners = Watched(world.states)
    await world.start()
    world.states.clear()
    return world


def marks_of(states: list[str]) -> list[str]:
    return [state for state in states if state in ("ended", "let go", "disconnect platforms")]


async def test_tools_die_before_the_platforms_where_turns_were_interrupted(watched: World) -> None:
    """C4: a supervisor's kill timer never finds children alive; a last sweep runs at the end."""
    await watched.accept("work")
    await watched.model.wait_for_request(1)
    await leave(watched, StopKind.STOP)
    assert marks_of(watched.states) == ["ended", "disconnect platforms", "ended"]
    watched.model.say("done")
    await watched.start()


async def test_on_the_graceful_path_only_the_last_sweep_runs(watched: World) -> None:
    """C4: nothing was interrupted."""
    await leave(watched, StopKind.STOP)
    assert marks_of(watched.states) == ["disconnect platforms", "ended"]
    await watched.start()


@pytest.mark.parametrize("kind", [StopKind.RESTART, StopKind.REPLACE])
async def test_a_restart_lets_the_runners_go(watched: World, call: Call, kind: StopKind) -> None:
    """C4, J2: with what runs in them, before any turn is cancelled, for the successor."""
    watched.levers[ReplayClass.NEVER].go.clear()
    watched.model.say([call("never")])
    await watched.accept("work")
    await watched.levers[ReplayClass.NEVER].was_pulled(1)
    cancelled = watched.levers[ReplayClass.NEVER].cancelled
    await leave(watched, kind, now=True)
    assert "ended" not in watched.states
    assert watched.states.index("let go") < watched.states.index("kill tools")
    assert len(cancelled) == 1
    watched.levers[ReplayClass.NEVER].go.set()
    await watched.start()
    await watched.model.wait_for_request(2)
    assert (await only(watched)).interruptions == 1
    watched.model.say("done")
