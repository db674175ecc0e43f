"""Tests of races in a lane: commands and messages that arrive between two of its steps."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from functools import partial
from pathlib import Path

import msgspec
import pytest
from tests.support.approvals import RM
from tests.support.gateway_harness import Call, Until
from tests.support.race_harness import GatedStore, RaceHarness
from tests.support.stops import open_turn

from holdfast.core.config.settings import CrashRecovery, GatewaySettings
from holdfast.core.messages.inbox import BusyMode, InboxState
from holdfast.core.messages.transcript import AssistantMessage
from holdfast.core.people.approval import ApprovalState
from holdfast.core.turns.model import Completed, ModelEvent, ModelRequest
from holdfast.core.turns.stop import TurnExitReason
from holdfast.core.turns.tool import ReplayClass
from holdfast.core.turns.turn import Usage
from holdfast.core.turns.turn_state import LaneState, TurnState
from holdfast.gateway.turns.lanes import Lanes
from holdfast.testing.scripted_model import ScriptedClient, ScriptedModel
from holdfast.testing.simulated.events import Faults
from holdfast.testing.simulated.platform import SimulatedPlatform


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[RaceHarness]:
    harness = RaceHarness(tmp_path / "state.db")
    await harness.start()
    yield harness
    await harness.stop()


async def test_stop_ends_a_waiting_turn_without_an_agent(harness: RaceHarness, call: Call) -> None:
    """F9: /stop needs no agent, and no model that can be leased."""
    accepted = await harness.start_waiting_turn(call)
    harness.gateway.cache.clear()
    harness.model.unavailable = True
    assert (await harness.end_of(await harness.accept("/stop"))).text == "Stopped."
    assert (await harness.end_of(accepted)).state is InboxState.SUPERSEDED
    (row,) = await harness.ended_approvals()
    assert row.state is ApprovalState.WITHDRAWN


async def test_the_turn_after_a_stopped_wait_sees_its_call_as_not_started(
    harness: RaceHarness, call: Call
) -> None:
    """H7: each call has its result, also for the agent cached from before the wait."""
    await harness.start_waiting_turn(call)
    await harness.end_of(await harness.accept("/stop"))
    harness.model.say("hello")
    assert (await harness.end_of(await harness.accept("hi"))).text == "hello"
    assert (await harness.result()).text == "Not started."


async def test_a_stop_works_when_the_store_refused_to_begin_the_turn(
    harness: RaceHarness, until: Until
) -> None:
    """K2: the message and the one queued after it have ended, and the command is answered."""
    harness.store.refusals = 1
    first = await harness.accept("one")
    await harness.model.wait_for_request(1)
    second = await harness.accept("two", busy_mode=BusyMode.QUEUE)
    assert (await harness.end_of(await harness.accept("/stop"))).text == "Stopped."
    assert (await harness.end_of(first)).state is InboxState.SUPERSEDED
    assert (await harness.end_of(second)).state is InboxState.SUPERSEDED
    await until(lambda: len(harness.gateway.lanes) == 0)
    assert len(harness.model.requests) == 1


async def test_new_works_when_the_store_refused_to_begin_the_turn(
    harness: RaceHarness, until: Until
) -> None:
    """K2: /new itself ends what is queued in the store; the end is not retried forever."""
    harness.store.refusals = 1
    first = await harness.accept("one")
    await harness.model.wait_for_request(1)
    assert (await harness.end_of(await harness.accept("/new"))).text == "A new conversation begins."
    assert (await harness.end_of(first)).state is InboxState.SUPERSEDED
    await until(lambda: len(harness.gateway.lanes) == 0)


async def test_stop_and_then_new_end_a_turn_that_waits(
    harness: RaceHarness, call: Call, until: Until
) -> None:
    """G3: /new ends the /stop that is still running, and the end of the turn does not wait."""
    accepted = await harness.start_waiting_turn(call)
    harness.store.read_gate.close()
    await harness.accept("/stop")
    await harness.store.read_gate.reached.wait()
    assert (await harness.end_of(await harness.accept("/new"))).text == "A new conversation begins."
    harness.store.read_gate.go.set()
    assert (await harness.end_of(accepted)).state is InboxState.SUPERSEDED
    await until(lambda: len(harness.gateway.lanes) == 0)
    assert set(await harness.ledger()) <= {"answered", "superseded"}


async def test_a_turn_that_failed_over_and_then_waited_reports_the_fallback(
    harness: RaceHarness, call: Call
) -> None:
    """A5: the user is told that another model took part."""
    harness.model.failovers = 1
    harness.model.say([call("shell", RM)], "done")
    harness.say("clean up")
    await harness.pending_approvals()
    harness.say("yes")
    texts = await harness.texts(4)
    assert "second answered this time: The first is ill." in texts
    assert texts[-1] == "done"


async def test_a_withdrawn_interrupt_leaves_the_approval_pending(
    harness: RaceHarness, call: Call, until: Until
) -> None:
    """J3: the approval can still be answered, so it stays pending."""
    accepted = await harness.start_waiting_turn(call)
    (lane,) = harness.gateway.lanes
    harness.gateway.cache.clear()
    harness.store.read_gate.close()
    await harness.accept("rather this", busy_mode=BusyMode.INTERRUPT)
    await harness.store.read_gate.reached.wait()
    (route,) = lane.routes
    [row] = harness.gateway.lanes.take_waiting(lane.session_id, route)
    harness.store.read_gate.go.set()
    await until(lambda: lane.state is LaneState.WAITING)
    harness.model.say("done")
    assert "Approved" in (await harness.end_of(await harness.accept("/approve"))).text
    assert (await harness.end_of(accepted)).text == "done"
    harness.model.say("that")
    harness.gateway.lanes.readmit([row], lane.session_id)
    await until(lambda: len(harness.gateway.lanes) == 0)


async def test_a_message_stopped_while_it_fails_ends_once(
    harness: RaceHarness, until: Until
) -> None:
    """G3: if no agent can be built, /stop in that instant neither ends it twice nor fails."""
    harness.model.unavailable = True
    harness.store.command_gate.close()
    accepted = await harness.accept("one")
    await harness.store.command_gate.reached.wait()
    stop = await harness.accept("/stop")
    harness.store.command_gate.go.set()
    assert (await harness.end_of(accepted)).state is InboxState.FAILED
    assert (await harness.end_of(stop)).text == "Nothing is running."
    await until(lambda: len(harness.gateway.lanes) == 0)


async def test_a_stop_while_a_waiting_turn_fails_is_answered_and_stops_nothing_else(
    harness: RaceHarness, call: Call
) -> None:
    """F9: the stop ends that turn; the next message is answered normally."""
    accepted = await harness.start_waiting_turn(call)
    harness.gateway.cache.clear()
    harness.model.unavailable = True
    (row,) = await harness.pending_approvals()
    harness.store.read_gate.close()
    assert "Approved" in (await harness.end_of(await harness.accept(f"/approve {row.id}"))).text
    await harness.store.read_gate.reached.wait()
    stop = await harness.accept("/stop")
    harness.store.read_gate.go.set()
    assert (await harness.end_of(stop)).text == "Stopped."
    assert (await harness.end_of(accepted)).state is InboxState.SUPERSEDED
    harness.model.unavailable = False
    harness.model.say("hello")
    assert (await harness.end_of(await harness.accept("hi"))).text == "hello"


async def test_a_stopped_turn_is_closing_only_once_its_end_is_decided(
    harness: RaceHarness, call: Call
) -> None:
    """F9: without an agent, its end needs the transcript."""
    accepted = await harness.start_waiting_turn(call)
    (lane,) = harness.gateway.lanes
    turn = lane.turn
    assert turn is not None
    harness.store.read_gate.close()
    await harness.accept("/stop")
    await harness.store.read_gate.reached.wait()
    assert (turn.state, turn.ending, turn.answering) == (
        TurnState.STOPPING,
        None,
        accepted.row.id,
    )
    assert lane.state is LaneState.RUNNING
    harness.store.read_gate.go.set()
    assert (await harness.end_of(accepted)).state is InboxState.SUPERSEDED
    assert turn.state is TurnState.ENDED


async def test_a_turn_that_is_left_while_it_fails_stays_open(
    harness: RaceHarness, call: Call
) -> None:
    """H6: if no agent can be built and the gateway stops in that instant, the turn is the next
    process's."""
    await harness.start_waiting_turn(call)
    turn = harness.gateway.turns.restore(await open_turn(harness))
    harness.store.read_gate.close()
    failing = asyncio.create_task(turn.fail("there is no agent"))
    await harness.store.read_gate.reached.wait()
    reason = TurnExitReason.SHUTDOWN_TIMEOUT
    left = turn.leave(partial(harness.gateway.sessions.mark_turn, reason=reason))
    assert left is not None
    harness.store.read_gate.go.set()
    await failing
    await left
    assert (turn.state, turn.ending) == (TurnState.PARKED, None)


async def test_an_approval_that_fails_during_recovery_is_not_waited_for(
    harness: RaceHarness, call: Call, until: Until
) -> None:
    """J3: its account is gone, which is known before all open turns have resumed."""
    await harness.stop()
    harness.extra_platforms = [SimulatedPlatform(harness.service, account="other")]
    gateway = GatewaySettings(crash_recovery=CrashRecovery.SUSPEND)
    allowed = harness.settings.platforms["simulated"]
    accounts = msgspec.structs.replace(allowed, accounts={"other": allowed})
    harness.settings = msgspec.structs.replace(
        harness.settings, gateway=gateway, platforms={"simulated": accounts}
    )
    await harness.start()
    harness.held_tools[ReplayClass.NEVER].go.clear()
    harness.model.say([call(ReplayClass.NEVER)])
    await harness.accept("never done")
    await harness.held_tools[ReplayClass.NEVER].wait_until_started(1)
    harness.say("clean up", account="other")
    await harness.model.wait_for_request(2)
    harness.service.set_faults(Faults(disconnected=True))
    harness.model.say([call("shell", RM)])
    await harness.pending_approvals()
    await harness.die()

    harness.extra_platforms, harness.open_store = [], open_gated_at_suspension
    harness.model.say("then not")
    starting = asyncio.create_task(harness.start())
    await until(
        lambda: isinstance(harness.store, GatedStore) and harness.store.suspend_gate.is_reached
    )
    await until(lambda: len(harness.gateway.outbox) == 0)
    harness.store.suspend_gate.go.set()
    await starting
    (row,) = await harness.ended_approvals()
    assert row.state is ApprovalState.UNDELIVERABLE


def open_gated_at_suspension(path: Path) -> GatedStore:
    store = GatedStore(path)
    store.suspend_gate.close()
    return store


class StoppingClient(ScriptedClient):
    """Stops the turn that calls it, once, and replies without having waited for anything."""

    def __init__(self, model: ScriptedModel, lanes: Lanes) -> None:
        super().__init__(model, name="stopping")
        self._lanes: Lanes | None = lanes

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        if self._lanes is None:
            async for event in super().stream(request):
                yield event
            return
        (lane,) = self._lanes
        assert lane.turn is not None
        self._lanes = None
        lane.turn.interrupt("its own model has stopped it")
        yield Completed(AssistantMessage(text="too late", model=self.name), Usage())


async def test_a_turn_that_is_stopped_by_its_own_code_does_not_stop_its_lane(
    harness: RaceHarness,
) -> None:
    """The cancel of an agent is for the agent alone, also where it arrives as the agent returns."""
    harness.model.say("hello", "still here")
    await harness.end_of(await harness.accept("hi"))
    (session_id,) = harness.gateway.cache
    agent = harness.gateway.cache.find(session_id)
    assert agent is not None
    agent.client = StoppingClient(harness.model, harness.gateway.lanes)
    stopped = await harness.end_of(await harness.accept("work"))
    assert (stopped.state, stopped.reason) == (InboxState.FAILED, "its own model has stopped it")
    assert (await harness.end_of(await harness.accept("and now?"))).text == "still here"
