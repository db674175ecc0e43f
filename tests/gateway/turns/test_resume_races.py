"""Chapters H and F, in the instant in which a turn goes on: a stop that comes then cuts nothing."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.gateway_harness import Call, GatewayHarness, Until
from tests.support.stops import (
    note_texts,
    only_session_row,
    set_stop_timeouts,
    start_gateway,
    stop_gateway,
    wait_for_open_turns,
)

from holdfast.core.messages.transcript import UserMessage
from holdfast.core.turns.stop import StopKind, TurnExitReason
from holdfast.core.turns.tool import ReplayClass
from holdfast.core.turns.turn import LaneState, TurnState
from holdfast.gateway.turns.transcript_notes import interruption_note
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.simulated.events import BotMessage

LONG = 60.0  # seconds: a window that no test waits for


class Hushed(SqliteStore):
    """A store that keeps that a turn goes on, or what it is to be asked with from then on, and says
    so only when it is let go."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.go = asyncio.Event()
        self.kept = asyncio.Event()

    def continue_turn(self, *arguments: Any, **more: Any) -> Any:
        return asyncio.ensure_future(self._later(super().continue_turn(*arguments, **more)))

    def resume_turn(self, *arguments: Any, **more: Any) -> Any:
        return asyncio.ensure_future(self._later(super().resume_turn(*arguments, **more)))

    def save_prompt(self, *arguments: Any, **more: Any) -> Any:
        return asyncio.ensure_future(self._later(super().save_prompt(*arguments, **more)))

    async def _later(self, durable: Awaitable[None]) -> None:
        await durable
        self.kept.set()
        await self.go.wait()


@pytest.fixture
async def hushed(tmp_path: Path) -> AsyncIterator[GatewayHarness]:
    harness = GatewayHarness(tmp_path / "state.db")
    set_stop_timeouts(harness)
    await harness.start()
    yield harness
    await harness.stop()


async def parked(harness: GatewayHarness, call: Call) -> None:
    lever = harness.held_tools[ReplayClass.ATTACH]
    lever.go.clear()
    harness.model.say([call("attach")])
    harness.say("work")
    await lever.wait_until_started(1)
    went = await stop_gateway(harness, StopKind.RESTART)
    assert (went.parked, went.interrupted) == (1, 0)
    lever.known[lever.started[0]] = "done"


async def going_on(harness: GatewayHarness) -> Hushed:
    """Started again; that its turn goes on is in the log, and its lane has not heard so yet."""
    harness.open_store = Hushed
    await start_gateway(harness)
    assert isinstance(harness.store, Hushed)
    async with asyncio.timeout(10):
        await harness.store.kept.wait()
    harness.open_store = SqliteStore
    return harness.store


async def keeping_a_prompt(harness: GatewayHarness) -> Hushed:
    """The same, where what its turn is to be asked with is in the log, and has changed."""
    agent = replace(harness.settings.agent, instructions="Be brief.")
    harness.settings = replace(harness.settings, agent=agent)
    return await going_on(harness)


@pytest.mark.parametrize("kind", [StopKind.RESTART, StopKind.STOP, StopKind.SIGNAL])
async def test_a_parked_turn_stopped_while_it_resumes_is_still_parked(
    hushed: GatewayHarness, call: Call, kind: StopKind
) -> None:
    """H6, F6, F7: two restarts in a row are no cut, have no note and are not counted."""
    await parked(hushed, call)
    await going_on(hushed)
    went = await stop_gateway(hushed, kind)
    assert went.interrupted == 0
    await start_gateway(hushed)
    request = await hushed.model.wait_for_request(2)
    assert note_texts(request.messages) == []
    assert (await only_session_row(hushed)).interruptions == 0


@pytest.mark.parametrize("kind", [StopKind.RESTART, StopKind.STOP])
async def test_an_interrupted_turn_stopped_while_it_resumes_has_one_note_and_one_count(
    hushed: GatewayHarness, kind: StopKind
) -> None:
    """F6, F7: never two notes for one cut."""
    hushed.say("work")
    await hushed.model.wait_for_request(1)
    await wait_for_open_turns(hushed)
    await stop_gateway(hushed, StopKind.RESTART)
    await going_on(hushed)
    await stop_gateway(hushed, kind)
    await start_gateway(hushed)
    request = await hushed.model.wait_for_request(2)
    assert note_texts(request.messages) == [interruption_note("restart_timeout").text]
    assert (await only_session_row(hushed)).interruptions == 1


@pytest.mark.parametrize("heard", [False, True])
async def test_an_interrupted_turn_whose_new_prompt_is_being_saved_has_not_resumed(
    hushed: GatewayHarness, until: Until, heard: bool
) -> None:
    """F6, F7: a stop leaves it with the word that it had, whether the prompt is heard to be kept
    before the process ends or not; so its note is told by the successor, once."""
    hushed.say("work")
    await hushed.model.wait_for_request(1)
    await wait_for_open_turns(hushed)
    await stop_gateway(hushed, StopKind.RESTART)
    store = await keeping_a_prompt(hushed)
    [lane] = hushed.gateway.lanes
    stopping = asyncio.create_task(stop_gateway(hushed, StopKind.STOP))
    await until(lambda: lane.held)
    if heard:
        store.go.set()
    await stopping
    await start_gateway(hushed)
    request = await hushed.model.wait_for_request(2)
    assert note_texts(request.messages) == [interruption_note("restart_timeout").text]
    assert (await only_session_row(hushed)).interruptions == 1


async def test_stop_ends_a_turn_whose_new_prompt_is_being_saved(
    hushed: GatewayHarness, call: Call, until: Until
) -> None:
    """F9, H3: also where the gateway goes before that is heard, while anybody is waited for."""
    hushed.say("work")
    await hushed.model.wait_for_request(1)
    await wait_for_open_turns(hushed)
    await stop_gateway(hushed, StopKind.RESTART)
    set_stop_timeouts(hushed, park=LONG)
    store = await keeping_a_prompt(hushed)
    [lane] = hushed.gateway.lanes
    never = hushed.held_tools[ReplayClass.NEVER]
    never.go.clear()
    hushed.model.say([call("never")])
    hushed.say("keep the window open", chat="two")
    await never.wait_until_started(1)
    hushed.say("/stop")
    await until(lambda: lane.dormant_turn is not None and lane.dormant_turn.stopped)
    stopping = asyncio.create_task(stop_gateway(hushed, StopKind.RESTART))
    await until(lambda: lane.held)
    store.go.set()
    await until(lambda: "Stopped." in [each.outgoing.text for each in sent(hushed)])
    never.go.set()
    await stopping
    await hushed.start()
    assert [one.rows[-1].inbound.text for one in await hushed.store.open_turns()] == [
        "keep the window open"
    ]


def sent(harness: GatewayHarness) -> Sequence[BotMessage]:
    return harness.service.ledger().sent


async def exit_reasons(harness: GatewayHarness) -> set[TurnExitReason | None]:
    return {one.exit_reason for one in await harness.store.open_turns()}


async def test_a_turn_that_resumes_while_the_gateway_stops_is_parked_again(
    hushed: GatewayHarness, call: Call, until: Until
) -> None:
    """H6, C2: its next step is the successor's, however long the window is."""
    await parked(hushed, call)
    set_stop_timeouts(hushed, park=LONG)
    store = await going_on(hushed)
    never = hushed.held_tools[ReplayClass.NEVER]
    never.go.clear()
    hushed.model.say([call("never")])
    hushed.say("keep the window open", chat="two")
    await never.wait_until_started(1)
    stopping = asyncio.create_task(stop_gateway(hushed, StopKind.RESTART))
    lanes = hushed.gateway.lanes
    await until(
        lambda: any(lane.running_turn and lane.running_turn.context.parking for lane in lanes)
    )
    store.go.set()
    await until(lambda: lanes.count(LaneState.PARKED) == 1)
    async with asyncio.timeout(30):  # the lane shows it before its commit is done
        while TurnExitReason.PARKED not in await exit_reasons(hushed):
            await asyncio.sleep(0.01)
    never.go.set()
    went = await stopping
    assert (went.parked, went.interrupted) == (2, 0)
    await start_gateway(hushed)
    for number in (3, 4):
        request = await hushed.model.wait_for_request(number)
        assert note_texts(request.messages) == []
        assert isinstance(request.messages[0], UserMessage)


async def test_a_resumed_turn_has_no_time_to_first_token(
    hushed: GatewayHarness, call: Call, until: Until
) -> None:
    """H6: that was said in an earlier life, or is said after a stop that nobody waited out."""
    await parked(hushed, call)
    await start_gateway(hushed)
    hushed.model.say("so much for that")
    await hushed.sent(1)
    hushed.model.say("and this is new")
    hushed.say("more")
    await hushed.sent(2)
    tally = hushed.gateway.services.counters
    await until(lambda: tally.totals().turns_by_state[TurnState.ANSWERED] == 2)
    assert (tally.totals().first_token.count, tally.totals().duration.count) == (1, 2)
