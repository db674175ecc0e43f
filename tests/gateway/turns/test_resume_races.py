"""Tests of a stop in the instant in which a turn resumes: it interrupts nothing (F6, F7, H6)."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.gateway.turns.turn_helpers import LONG_TIMEOUT
from tests.support.controlled_store import Commit, ControlledStore, Intercepted
from tests.support.gateway_harness import Call, GatewayHarness, Until
from tests.support.stops import (
    note_texts,
    only_session_row,
    set_stop_timeouts,
    start_gateway,
    stop_gateway,
    wait_for_open_turns,
)
from tests.support.stores import open_store

from holdfast.core.messages.transcript import UserMessage
from holdfast.core.ports.command import Command
from holdfast.core.ports.store_commands import ContinueTurn, ResumeTurn, SavePrompt
from holdfast.core.ports.store_queries import ListOpenTurns
from holdfast.core.turns.stop import StopKind, TurnExitReason
from holdfast.core.turns.tool import ReplayClass
from holdfast.core.turns.turn import TurnRowState
from holdfast.core.turns.turn_state import LaneState, TurnState
from holdfast.gateway.turns.transcript_notes import interruption_note
from holdfast.testing.simulated.events import BotMessage


class UnconfirmedResumeStore(ControlledStore):
    """A store that commits the resume of a turn, or its new prompt, and confirms that only
    once `go` is set."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.go = asyncio.Event()
        self.committed = asyncio.Event()

    def intercept(self, command: Command[Any], commit: Commit) -> Intercepted:
        if not isinstance(command, ContinueTurn | ResumeTurn | SavePrompt):
            return None
        return self._confirm_later(commit())

    async def _confirm_later(self, durable: asyncio.Future[Any]) -> None:
        await durable
        self.committed.set()
        await self.go.wait()


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[GatewayHarness]:
    harness = GatewayHarness(tmp_path / "state.db")
    set_stop_timeouts(harness)
    await harness.start()
    yield harness
    await harness.stop()


async def park_turn(harness: GatewayHarness, call: Call) -> None:
    tool = harness.held_tools[ReplayClass.ATTACH]
    tool.go.clear()
    harness.model.say([call("attach")])
    harness.say("work")
    await tool.wait_until_started(1)
    stopped = await stop_gateway(harness, StopKind.RESTART)
    assert (stopped.parked, stopped.interrupted) == (1, 0)
    tool.known[tool.started[0]] = "done"


async def start_with_unconfirmed_resume(harness: GatewayHarness) -> UnconfirmedResumeStore:
    """Start; the resume of the turn is committed, but its lane does not know it yet."""
    harness.open_store = UnconfirmedResumeStore
    await start_gateway(harness)
    assert isinstance(harness.store, UnconfirmedResumeStore)
    async with asyncio.timeout(10):
        await harness.store.committed.wait()
    harness.open_store = open_store
    return harness.store


async def start_with_unconfirmed_prompt(harness: GatewayHarness) -> UnconfirmedResumeStore:
    """Start with a changed prompt; it is committed, but its lane does not know it yet."""
    agent = replace(harness.settings.agent, instructions="Be brief.")
    harness.settings = replace(harness.settings, agent=agent)
    return await start_with_unconfirmed_resume(harness)


@pytest.mark.parametrize("kind", [StopKind.RESTART, StopKind.STOP, StopKind.SIGNAL])
async def test_a_parked_turn_stopped_while_it_resumes_is_still_parked(
    harness: GatewayHarness, call: Call, kind: StopKind
) -> None:
    """H6, F6, F7: two restarts in a row interrupt nothing, add no note and are not counted."""
    await park_turn(harness, call)
    await start_with_unconfirmed_resume(harness)
    stopped = await stop_gateway(harness, kind)
    assert stopped.interrupted == 0
    await start_gateway(harness)
    request = await harness.model.wait_for_request(2)
    assert note_texts(request.messages) == []
    assert (await only_session_row(harness)).interruptions == 0


@pytest.mark.parametrize("kind", [StopKind.RESTART, StopKind.STOP])
async def test_an_interrupted_turn_stopped_while_it_resumes_has_one_note_and_one_count(
    harness: GatewayHarness, kind: StopKind
) -> None:
    """F6, F7: never two notes for one interruption."""
    harness.say("work")
    await harness.model.wait_for_request(1)
    await wait_for_open_turns(harness)
    await stop_gateway(harness, StopKind.RESTART)
    await start_with_unconfirmed_resume(harness)
    await stop_gateway(harness, kind)
    await start_gateway(harness)
    request = await harness.model.wait_for_request(2)
    assert note_texts(request.messages) == [interruption_note("restart_timeout").text]
    assert (await only_session_row(harness)).interruptions == 1


@pytest.mark.parametrize("is_confirmed", [False, True])
async def test_an_interrupted_turn_whose_new_prompt_is_being_saved_has_not_resumed(
    harness: GatewayHarness, until: Until, is_confirmed: bool
) -> None:
    """F6, F7: a stop leaves its exit reason as it was, whether the saved prompt is confirmed before
    the process ends or not; so the successor adds its note, once."""
    harness.say("work")
    await harness.model.wait_for_request(1)
    await wait_for_open_turns(harness)
    await stop_gateway(harness, StopKind.RESTART)
    store = await start_with_unconfirmed_prompt(harness)
    [lane] = harness.gateway.lanes
    stopping = asyncio.create_task(stop_gateway(harness, StopKind.STOP))
    await until(lambda: lane.held)
    if is_confirmed:
        store.go.set()
    await stopping
    assert lane.turn is not None and lane.turn.state is TurnState.UNRESUMED
    assert harness.gateway.parked == 0
    await start_gateway(harness)
    request = await harness.model.wait_for_request(2)
    assert note_texts(request.messages) == [interruption_note("restart_timeout").text]
    assert (await only_session_row(harness)).interruptions == 1


async def test_stop_ends_a_turn_whose_new_prompt_is_being_saved(
    harness: GatewayHarness, call: Call, until: Until
) -> None:
    """F9, H3: also if the gateway stops before the save is confirmed, during a drain."""
    harness.say("work")
    await harness.model.wait_for_request(1)
    await wait_for_open_turns(harness)
    await stop_gateway(harness, StopKind.RESTART)
    set_stop_timeouts(harness, park=LONG_TIMEOUT)
    store = await start_with_unconfirmed_prompt(harness)
    [lane] = harness.gateway.lanes
    never = harness.held_tools[ReplayClass.NEVER]
    never.go.clear()
    harness.model.say([call("never")])
    harness.say("keep the drain open", chat="two")
    await never.wait_until_started(1)
    harness.say("/stop")
    await until(lambda: lane.turn is not None and lane.turn.state is TurnState.STOPPING)
    stopping = asyncio.create_task(stop_gateway(harness, StopKind.RESTART))
    await until(lambda: lane.held)
    store.go.set()
    await until(lambda: "Stopped." in [each.outgoing.text for each in sent_messages(harness)])
    never.go.set()
    await stopping
    await harness.start()
    assert [one.rows[-1].inbound.text for one in await harness.store.read(ListOpenTurns())] == [
        "keep the drain open"
    ]


def sent_messages(harness: GatewayHarness) -> Sequence[BotMessage]:
    return harness.service.ledger().sent


async def exit_reasons(harness: GatewayHarness) -> set[TurnExitReason | None]:
    return {one.exit_reason for one in await harness.store.read(ListOpenTurns())}


async def test_a_turn_that_resumes_while_the_gateway_stops_is_parked_again(
    harness: GatewayHarness, call: Call, until: Until
) -> None:
    """H6, C2: the successor runs its next step, however long the drain is."""
    await park_turn(harness, call)
    set_stop_timeouts(harness, park=LONG_TIMEOUT)
    store = await start_with_unconfirmed_resume(harness)
    never = harness.held_tools[ReplayClass.NEVER]
    never.go.clear()
    harness.model.say([call("never")])
    harness.say("keep the drain open", chat="two")
    await never.wait_until_started(1)
    stopping = asyncio.create_task(stop_gateway(harness, StopKind.RESTART))
    lanes = harness.gateway.lanes
    await until(
        lambda: any(lane.running_turn and lane.running_turn.context.parking for lane in lanes)
    )
    store.go.set()
    await until(lambda: lanes.count(LaneState.PARKED) == 1)
    async with asyncio.timeout(30):  # the lane shows it before its commit is done
        while TurnExitReason.PARKED not in await exit_reasons(harness):
            await asyncio.sleep(0.01)
    never.go.set()
    stopped = await stopping
    assert (stopped.parked, stopped.interrupted) == (2, 0)
    await start_gateway(harness)
    for number in (3, 4):
        request = await harness.model.wait_for_request(number)
        assert note_texts(request.messages) == []
        assert isinstance(request.messages[0], UserMessage)


async def test_a_resumed_turn_has_no_time_to_first_token(
    harness: GatewayHarness, call: Call, until: Until
) -> None:
    """H6: its first token came in an earlier process, or only after a restart."""
    await park_turn(harness, call)
    await start_gateway(harness)
    harness.model.say("so much for that")
    await harness.sent(1)
    harness.model.say("and this is new")
    harness.say("more")
    await harness.sent(2)
    counters = harness.gateway.counters
    await until(lambda: counters.totals().turns_by_state[TurnRowState.ANSWERED] == 2)
    assert (counters.totals().first_token.count, counters.totals().duration.count) == (1, 2)
