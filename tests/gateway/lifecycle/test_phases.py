"""Tests of the phases of a stop: names, order, deadlines, and failures of one phase (C1, C4)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.support.gateway_harness import Call, GatewayHarness, NoRunners
from tests.support.stops import (
    only_session_row,
    restart_with_timeouts,
    set_stop_timeouts,
    stop_gateway,
    stop_order,
    wait_for_open_turns,
)

from holdfast.core.ids import SessionId
from holdfast.core.messages.outbox import Outbound, Receipt
from holdfast.core.ports.capabilities import Capabilities
from holdfast.core.ports.platform import Intake
from holdfast.core.turns.stop import StopKind
from holdfast.core.turns.tool import ReplayClass
from holdfast.gateway.lifecycle.drain import DRAIN
from holdfast.gateway.lifecycle.phases import Phase, run_phases
from holdfast.gateway.subagents import SubagentStops

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
PROCESS_SECONDS = 4.25  # seconds of the 25: the store, the state, the lock


async def fails() -> None:
    raise ValueError("this phase is broken")


async def hangs() -> None:
    await asyncio.Event().wait()


def phases_of(harness: GatewayHarness, kind: StopKind) -> list[Phase]:
    """The phases of a stop in which each takes all its time."""
    took: dict[str, float] = {}
    order = stop_order(harness, kind)
    found = []
    for phase in harness.gateway.phases(order, urgent=asyncio.Event(), took=took):
        found.append(phase)
        took[phase.name] = phase.seconds
    return found


@pytest.mark.parametrize("kind", [kind for kind in StopKind if kind is not StopKind.CRASH])
async def test_the_phases_have_their_names_and_their_order(
    harness: GatewayHarness, kind: StopKind
) -> None:
    """C1: one list, whatever the kind of stop."""
    assert [phase.name for phase in phases_of(harness, kind)] == NAMES
    await stop_gateway(harness, kind)
    ran = harness.states[harness.states.index("connecting") + 1 :]
    assert [state for state in ran if state in NAMES] == NAMES
    await harness.start()


@pytest.mark.parametrize("kind", [StopKind.STOP, StopKind.RESTART])
async def test_all_phases_but_the_drain_fit_into_their_time(
    harness: GatewayHarness, kind: StopKind
) -> None:
    """C1: 25 seconds together, including what the process does after them."""
    await restart_with_timeouts(harness, drain=100, park=10)
    phases = phases_of(harness, kind)
    assert sum(phase.seconds for phase in phases if phase.name != DRAIN) <= 25 - PROCESS_SECONDS
    [drain] = [phase for phase in phases if phase.name == DRAIN]
    assert drain.seconds > 100 + (10 if kind.restarts else 0)


@pytest.fixture
async def no_wait_harness(tmp_path: Path) -> AsyncIterator[GatewayHarness]:
    """A harness whose stop timeouts are zero."""
    harness = GatewayHarness(tmp_path / "state.db")
    set_stop_timeouts(harness)
    await harness.start()
    yield harness
    await harness.stop()


async def start_mixed_work(harness: GatewayHarness, call: Call) -> None:
    """Start a turn in a model request, one in a command, and queue a message."""
    harness.held_tools[ReplayClass.ATTACH].go.clear()
    harness.model.say([call("attach")])
    harness.say("run it", chat="commands")
    await harness.held_tools[ReplayClass.ATTACH].wait_until_started(1)
    harness.say("think", chat="thoughts")
    await harness.model.wait_for_request(2)
    harness.say("/queue and then", chat="thoughts")
    await wait_for_open_turns(harness, 2)
    async with asyncio.timeout(30):
        while sum(lane.queued for lane in harness.gateway.lanes) < 1:
            await asyncio.sleep(0.005)


def _shorten(phase: Phase) -> Phase:
    """Shorten the phase that would wait in vain for tasks that a broken phase left behind."""
    return replace(phase, seconds=0.2) if phase.name == "cancel tasks" else phase


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("fault", "kind"), [(fails, StopKind.SIGNAL), (hangs, StopKind.RESTART)], ids=["fails", "hangs"]
)
async def test_a_broken_phase_skips_no_other_and_loses_nothing(
    no_wait_harness: GatewayHarness,
    call: Call,
    name: str,
    fault: Callable[[], Awaitable[None]],
    kind: StopKind,
) -> None:
    """C1, H3: the others run, and the next start answers each message once, from the store."""
    harness = no_wait_harness
    await start_mixed_work(harness, call)
    phases = [
        replace(phase, seconds=0.05, run=fault) if phase.name == name else _shorten(phase)
        for phase in phases_of(harness, kind)
    ]
    reported: list[str] = []
    await run_phases(phases, progress=reported.append)
    assert reported == NAMES
    await harness.die()
    tool = harness.held_tools[ReplayClass.ATTACH]
    tool.known = {tool.started[0]: "it ran"}
    tool.go.set()
    harness.model.say("one", "two", "three")
    await harness.start()
    await wait_for_replies(harness, 3)
    assert await harness.ledger() == {"answered": 3}
    assert len(tool.started) == 1
    replies = [s.outgoing.text for s in await harness.sent(3) if s.outgoing.text in REPLIES]
    assert sorted(replies) == sorted(REPLIES)


REPLIES = ("one", "two", "three")


async def wait_for_replies(harness: GatewayHarness, number: int) -> None:
    async with asyncio.timeout(30):
        while (await harness.ledger()).get("answered", 0) < number:
            await asyncio.sleep(0.005)
        while len([s for s in await harness.sent(0) if s.outgoing.text in REPLIES]) < number:
            await asyncio.sleep(0.005)


async def test_a_second_stop_waits_for_the_first(harness: GatewayHarness) -> None:
    """C1: idempotent; each phase runs once."""
    await asyncio.gather(*(harness.gateway.stop() for _ in range(3)))
    await harness.gateway.stop(stop_order(harness, StopKind.RESTART))
    assert harness.states.count("disconnect platforms") == 1
    await harness.stop()
    await harness.start()


async def test_cancelling_a_waiter_does_not_cancel_the_stop(harness: GatewayHarness) -> None:
    """C1: a stop that has begun completes."""
    first = asyncio.create_task(harness.gateway.stop())
    await asyncio.sleep(0)
    first.cancel()
    await harness.gateway.stop()
    assert harness.states[-1] == NAMES[-1]
    await harness.stop()
    await harness.start()


class HangingPlatform:
    """A platform whose connection a start waits for, and that never connects."""

    name = "slow"
    account = "default"

    capabilities = Capabilities(fetchable=True)

    def __init__(self) -> None:
        self.reached = asyncio.Event()

    def connect(self, intake: Intake) -> "HangingPlatform":
        return self

    async def send(self, outbound: Outbound) -> Receipt:
        raise AssertionError("it never connects")

    async def __aenter__(self) -> None:
        self.reached.set()
        await asyncio.Event().wait()

    async def __aexit__(self, *exc: object) -> None:
        raise AssertionError("it was never entered")


async def test_a_stop_during_startup_ends_what_was_started(harness: GatewayHarness) -> None:
    """C1: at any point of startup; parts that were never entered are skipped."""
    await harness.accept("work")
    await harness.model.wait_for_request(1)
    await wait_for_open_turns(harness)
    await harness.stop()
    platform = HangingPlatform()
    harness.extra_platforms = [platform]
    starting = asyncio.create_task(harness.start())
    await platform.reached.wait()
    await harness.model.wait_for_request(2)  # the interrupted turn has resumed meanwhile
    await harness.gateway.stop()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert len(harness.gateway.lanes) == 0
    await harness.stop()
    harness.extra_platforms = []
    harness.model.say("answered")
    await harness.start()
    await wait_for_answer(harness)


async def wait_for_answer(harness: GatewayHarness) -> None:
    async with asyncio.timeout(30):
        while await harness.ledger() != {"answered": 1}:
            await asyncio.sleep(0.005)


async def test_a_startup_that_cannot_be_cancelled_does_not_block_the_stop(
    harness: GatewayHarness,
) -> None:
    """C1, C5: the rest of the phase runs nevertheless, and memory learns which turns are open."""
    harness.say("work")
    await harness.model.wait_for_request(1)
    released = asyncio.Event()

    async def start_that_hangs() -> None:
        try:
            await released.wait()
        finally:
            await released.wait()  # a cancellation does not end it

    gateway = harness.gateway
    gateway._starting = asyncio.create_task(start_that_hangs())
    first = replace(phases_of(harness, StopKind.STOP)[0], seconds=0.05)
    assert first.name == "close intake"
    await run_phases([first], progress=harness.states.append)
    assert gateway.subagents._stops is SubagentStops.REQUESTED
    assert gateway._sessions_at_stop == {lane.session_id for lane in gateway.lanes} != set()
    released.set()


async def test_a_gateway_that_was_never_started_can_be_stopped(harness: GatewayHarness) -> None:
    """C1: nothing was entered, and nothing hangs."""
    fresh = harness.build_gateway()
    async with asyncio.timeout(20):
        await fresh.stop()


class StopRecordingRunners(NoRunners):
    """Runners that record among the phases when they are ended or detached."""

    def __init__(self, states: list[str]) -> None:
        super().__init__()
        self._states = states

    async def end_all(self) -> None:
        self._states.append("ended")

    async def detach(self) -> None:
        self._states.append("detached")


@pytest.fixture
async def recording_harness(harness: GatewayHarness) -> GatewayHarness:
    await harness.stop()
    harness.runners = StopRecordingRunners(harness.states)
    await harness.start()
    harness.states.clear()
    return harness


def runner_events(states: list[str]) -> list[str]:
    return [state for state in states if state in ("ended", "detached", "disconnect platforms")]


async def test_tools_are_killed_before_platforms_disconnect_if_turns_were_interrupted(
    recording_harness: GatewayHarness,
) -> None:
    """C4: a supervisor's kill timer finds no child process alive; a last sweep runs at the end."""
    await recording_harness.accept("work")
    await recording_harness.model.wait_for_request(1)
    await stop_gateway(recording_harness, StopKind.STOP)
    assert runner_events(recording_harness.states) == ["ended", "disconnect platforms", "ended"]
    recording_harness.model.say("done")
    await recording_harness.start()


class StopRecordingBrowsers:
    """Browsers that record among the phases when they are ended."""

    name = "browser"

    def __init__(self, states: list[str]) -> None:
        self._states = states

    async def end_session(self, session_id: SessionId) -> None: ...

    async def end_all(self) -> None:
        self._states.append("browsers ended")


@pytest.mark.parametrize("kind", [StopKind.STOP, StopKind.RESTART])
async def test_browsers_end_before_platforms_disconnect_if_turns_were_interrupted(
    harness: GatewayHarness, kind: StopKind
) -> None:
    """C4: with the other tools; a restart keeps the runners, but no browser."""
    await harness.stop()
    harness.browsers = StopRecordingBrowsers(harness.states)
    await harness.start()
    await harness.accept("work")
    await harness.model.wait_for_request(1)
    harness.states.clear()
    await stop_gateway(harness, kind, now=True)
    found = [s for s in harness.states if s in ("browsers ended", "disconnect platforms")]
    assert found == ["browsers ended", "disconnect platforms", "browsers ended"]
    harness.model.say("done")
    await harness.start()


async def test_on_the_graceful_path_only_the_last_sweep_runs(
    recording_harness: GatewayHarness,
) -> None:
    """C4: nothing was interrupted."""
    await stop_gateway(recording_harness, StopKind.STOP)
    assert runner_events(recording_harness.states) == ["disconnect platforms", "ended"]
    await recording_harness.start()


@pytest.mark.parametrize("kind", [StopKind.RESTART, StopKind.REPLACE])
async def test_a_restart_detaches_the_runners(
    recording_harness: GatewayHarness, call: Call, kind: StopKind
) -> None:
    """C4, J2: with their processes, before any turn is cancelled, for the successor."""
    recording_harness.held_tools[ReplayClass.NEVER].go.clear()
    recording_harness.model.say([call("never")])
    await recording_harness.accept("work")
    await recording_harness.held_tools[ReplayClass.NEVER].wait_until_started(1)
    cancelled = recording_harness.held_tools[ReplayClass.NEVER].cancelled
    await stop_gateway(recording_harness, kind, now=True)
    assert "ended" not in recording_harness.states
    assert recording_harness.states.index("detached") < recording_harness.states.index("kill tools")
    assert len(cancelled) == 1
    recording_harness.held_tools[ReplayClass.NEVER].go.set()
    await recording_harness.start()
    await recording_harness.model.wait_for_request(2)
    assert (await only_session_row(recording_harness)).interruptions == 1
    recording_harness.model.say("done")
