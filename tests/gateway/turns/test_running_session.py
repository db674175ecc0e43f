"""Tests of what a running session owns: a turn releases it, session choices persist (B1 to B3)."""

import ast
import asyncio
from pathlib import Path

from tests.gateway.turns.turn_helpers import running_turn, session_of
from tests.support.gateway_harness import GatewayHarness, Until

import holdfast
from holdfast.core.ids import SessionId
from holdfast.core.messages.inbox import BusyMode
from holdfast.core.ports.store_commands import DeleteSession
from holdfast.core.ports.store_queries import GetBusyMode, GetSession
from holdfast.core.turns.turn_state import TurnState

PACKAGE = Path(holdfast.__file__).parent


def _assigners(source: str, attribute: str) -> set[str]:
    """The functions that assign to an attribute of that name, on any object."""
    return {
        function.name
        for function in ast.walk(ast.parse(source))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and node.attr == attribute
    }


def test_the_turn_of_a_lane_is_set_and_dropped_by_its_loop() -> None:
    """B1: no other function sets or clears it, but for the one that restores a turn before it."""
    found = {
        (file.name, function)
        for file in PACKAGE.rglob("*.py")
        if "Lane" in (source := file.read_text())
        for function in _assigners(source, "turn")
    }
    loop = {("lane.py", name) for name in ("_begin_next", "_fail_next", "_do_next")}
    assert found == {("lane.py", "__init__"), ("lane.py", "restore"), *loop}


async def test_a_turn_that_ends_releases_everything_it_owns(
    harness: GatewayHarness, until: Until
) -> None:
    """B1, law 10: lease, steers, cancel scope and live state are in one object that is closed."""
    running = await harness.accept("one")
    await harness.model.wait_for_request(1)
    (lane,) = harness.gateway.lanes
    turn = running_turn(lane)
    agent = turn.context.agent
    harness.model.say("done")
    await harness.end_of(running)
    await until(lambda: len(harness.gateway.lanes) == 0)
    assert (lane.running_turn, lane.in_flight, turn.state) == (None, 0, TurnState.ENDED)
    assert not agent.interrupt("nothing runs"), "the agent is not leased"
    assert harness.gateway.cache.next_sweep() is not None, "and is not busy"


async def test_releasing_is_idempotent_and_leaves_others_alone(harness: GatewayHarness) -> None:
    """B2: also for an unknown session and an empty id."""
    harness.model.say("1", "2")
    one = session_of(await harness.end_of(await harness.accept("hi")))
    two = session_of(await harness.end_of(await harness.accept("hi", chat="other")))
    cache, closing = harness.gateway.cache, harness.gateway.teardown
    agent = cache._entries[one].agent
    for session_id in (SessionId(""), SessionId("s_unknown"), one, one):
        cache.drop(session_id)
        await closing.close(session_id)
    cache.release(agent)
    cache.release(agent)
    assert (one in cache, two in cache) == (False, True)
    assert harness.model.leased == 1


async def test_sessions_can_be_released_concurrently(harness: GatewayHarness) -> None:
    """B2: one session by many callers, and many sessions at once."""
    harness.model.say(*(["hello"] * 6))
    asked = [await harness.accept("hi", chat=f"c{n}") for n in range(6)]
    sessions = [session_of(await harness.end_of(one)) for one in asked]
    closed, open_sessions = sessions[:3], sessions[3:]
    await asyncio.gather(*(harness.gateway.teardown.close(s) for s in closed * 20))
    cache = harness.gateway.cache
    assert [s in cache for s in closed + open_sessions] == [False] * 3 + [True] * 3


async def model_override(harness: GatewayHarness) -> str | None:
    row = await harness.store.read(GetSession(session_id=await harness.only_session()))
    assert row is not None
    return row.model_override


async def test_session_choices_survive_turns_eviction_and_restarts(
    harness: GatewayHarness, until: Until
) -> None:
    """B3: the model and the busy mode stay chosen, through turns, eviction, /stop and a restart,
    until the user changes them."""
    await harness.end_of(await harness.accept("/model another"))
    await harness.end_of(await harness.accept("/busy queue"))
    await harness.accept("one")
    await harness.model.wait_for_request(1)
    await harness.end_of(await harness.accept("/stop"))
    await until(lambda: len(harness.gateway.lanes) == 0)
    harness.gateway.cache.clear()
    await harness.stop()
    await harness.start()
    session_id = await harness.only_session()
    assert await model_override(harness) == "another"
    assert await harness.store.read(GetBusyMode(session_id=session_id)) is BusyMode.QUEUE
    await harness.end_of(await harness.accept("/model default"))
    await harness.end_of(await harness.accept("/busy default"))
    assert await model_override(harness) is None
    assert await harness.store.read(GetBusyMode(session_id=session_id)) is None


async def test_a_deleted_session_leaves_no_choice_behind(harness: GatewayHarness) -> None:
    """B3: deletion that really deletes."""
    await harness.end_of(await harness.accept("/busy queue"))
    session_id = await harness.only_session()
    await harness.store.write(DeleteSession(session_id=session_id))
    assert await harness.store.read(GetBusyMode(session_id=session_id)) is None
