"""Tests of resume marks and suspension of a session, and what they decide (F1 to F4, F9)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import msgspec
import pytest
from tests.support.gateway_harness import GatewayHarness, ManualClock, Until

from holdfast.core.config.settings import SessionSettings
from holdfast.core.ids import SessionId
from holdfast.core.messages.inbox import RouteTarget
from holdfast.core.messages.source import Source, build_session_key
from holdfast.core.ports.store_queries import (
    GetRouteTarget,
    GetSession,
    ListOpenTurns,
    ListSessions,
)
from holdfast.core.sessions.reset import ResetMode, ResetReason
from holdfast.core.sessions.session import SessionRow
from holdfast.gateway.sessions.resolver import SessionStore

SOURCE = Source(platform="simulated", chat_id="home", user_id="ann")
KEY = build_session_key(SOURCE)
UNKNOWN_KEY = build_session_key(Source(platform="simulated", chat_id="elsewhere", user_id="ann"))
HOUR = 3600.0


@pytest.fixture
async def expiring_harness(tmp_path: Path) -> AsyncIterator[GatewayHarness]:
    """A harness with a manual clock whose sessions are reset after an idle hour."""
    harness = GatewayHarness(tmp_path / "state.db")
    harness.clock = ManualClock()
    sessions = SessionSettings(reset=ResetMode.IDLE, idle_minutes=60)
    harness.settings = msgspec.structs.replace(harness.settings, sessions=sessions)
    await harness.start()
    yield harness
    await harness.stop()


def advance(harness: GatewayHarness, seconds: float) -> None:
    assert isinstance(harness.clock, ManualClock)
    harness.clock.at += seconds


async def exchange_messages(harness: GatewayHarness) -> SessionRow:
    """Send a message, wait for the reply and the end of its lane, and return its session."""
    harness.model.say("hello")
    harness.say("hi")
    await harness.sent(1)
    async with asyncio.timeout(30):
        while len(harness.gateway.lanes):
            await asyncio.sleep(0.001)
    return await current_session(harness)


async def current_session(harness: GatewayHarness) -> SessionRow:
    target = await harness.store.read(GetRouteTarget(key=KEY))
    assert target is not None
    found = await harness.store.read(GetSession(session_id=target.session_id))
    assert found is not None
    return found


async def turn_is_open(harness: GatewayHarness) -> bool:
    """Whether a turn is in the store: the model may be asked before it is."""
    return bool(await harness.store.read(ListOpenTurns()))


def resume_marks(row: SessionRow) -> tuple[bool, str | None, float | None]:
    return row.resume_pending, row.resume_reason, row.last_resume_marked_at


def sessions_of(harness: GatewayHarness) -> SessionStore:
    return harness.gateway.sessions


async def test_marks_survive_a_round_trip_through_the_store(
    expiring_harness: GatewayHarness,
) -> None:
    """F1: all four fields, also by another process."""
    await exchange_messages(expiring_harness)
    assert await sessions_of(expiring_harness).mark_resume_pending(KEY)
    assert await sessions_of(expiring_harness).suspend_session(KEY)
    at = expiring_harness.clock.now()
    await expiring_harness.stop()
    await expiring_harness.start()
    found = await current_session(expiring_harness)
    assert resume_marks(found) == (True, "restart_timeout", at)
    assert found.suspended


async def test_records_from_before_these_fields_load_as_nothing_pending(
    expiring_harness: GatewayHarness,
) -> None:
    """F1: their columns are NULL."""
    await exchange_messages(expiring_harness)
    found = await current_session(expiring_harness)
    assert resume_marks(found) == (False, None, None)
    assert (found.suspended, found.was_auto_reset, found.auto_reset_reason) == (False, False, None)


@pytest.mark.parametrize("bad", ["'yesterday'", "9e999", "-1", "x'00ff'", "NULL"])
async def test_a_malformed_timestamp_drops_that_timestamp_alone(
    expiring_harness: GatewayHarness, bad: str
) -> None:
    """F1: flag and reason stay, and so does everything else."""
    before = await exchange_messages(expiring_harness)
    await sessions_of(expiring_harness).mark_resume_pending(KEY, reason="shutdown_timeout")
    await expiring_harness.stop()
    with apsw.Connection(str(expiring_harness.path)) as file:
        file.execute(f"UPDATE sessions SET last_resume_marked_at = {bad}")
    file.close()
    await expiring_harness.start()
    found = await current_session(expiring_harness)
    assert resume_marks(found) == (True, "shutdown_timeout", None)
    assert (found.id, found.active_at, found.title) == (before.id, before.active_at, before.title)


async def test_marking_sets_flag_reason_and_time(expiring_harness: GatewayHarness) -> None:
    """F2: True; False for an unknown key."""
    await exchange_messages(expiring_harness)
    advance(expiring_harness, 5)
    assert (
        await sessions_of(expiring_harness).mark_resume_pending(KEY, reason="shutdown_timeout")
        is True
    )
    assert resume_marks(await current_session(expiring_harness)) == (
        True,
        "shutdown_timeout",
        expiring_harness.clock.now(),
    )
    assert await sessions_of(expiring_harness).mark_resume_pending(UNKNOWN_KEY) is False


async def test_a_suspended_session_cannot_be_marked(expiring_harness: GatewayHarness) -> None:
    """F2: False, and no change."""
    await exchange_messages(expiring_harness)
    assert await sessions_of(expiring_harness).suspend_session(KEY) is True
    assert await sessions_of(expiring_harness).mark_resume_pending(KEY) is False
    assert resume_marks(await current_session(expiring_harness)) == (False, None, None)


async def test_clearing_clears_all_three_once(expiring_harness: GatewayHarness) -> None:
    """F2: True; False when nothing is pending or the key is unknown."""
    await exchange_messages(expiring_harness)
    await sessions_of(expiring_harness).mark_resume_pending(KEY)
    assert await sessions_of(expiring_harness).clear_resume_pending(KEY) is True
    assert resume_marks(await current_session(expiring_harness)) == (False, None, None)
    assert await sessions_of(expiring_harness).clear_resume_pending(KEY) is False
    assert await sessions_of(expiring_harness).clear_resume_pending(UNKNOWN_KEY) is False


async def test_resuming_a_session_clears_its_mark_and_its_note(
    expiring_harness: GatewayHarness,
) -> None:
    """F2, F6: its next turn has no note about an interruption before that."""
    before = await exchange_messages(expiring_harness)
    await sessions_of(expiring_harness).mark_resume_pending(KEY)
    expiring_harness.say("/new")
    await expiring_harness.sent(2)
    expiring_harness.say(f"/resume {before.id}")
    await expiring_harness.sent(3)
    assert (await current_session(expiring_harness)).id == before.id
    assert resume_marks(await current_session(expiring_harness)) == (False, None, None)
    target = await expiring_harness.store.read(GetRouteTarget(key=KEY))
    assert target is not None and not target.interruption_note_pending


async def test_an_unknown_key_cannot_be_suspended(expiring_harness: GatewayHarness) -> None:
    """F2: `suspend_session` returns False."""
    assert await sessions_of(expiring_harness).suspend_session(UNKNOWN_KEY) is False


async def test_a_session_marked_for_resume_is_not_reset(expiring_harness: GatewayHarness) -> None:
    """F3: the same id, no auto-reset, before any policy; and the flag stays."""
    before = await exchange_messages(expiring_harness)
    await sessions_of(expiring_harness).mark_resume_pending(KEY)
    advance(expiring_harness, 30 * HOUR)
    found = await sessions_of(expiring_harness).get_or_create_session(SOURCE)
    assert (found.id, found.was_auto_reset) == (before.id, False)
    assert resume_marks(found)[:2] == (True, "restart_timeout")


async def test_only_a_turn_that_completes_clears_the_flag(expiring_harness: GatewayHarness) -> None:
    """F3: a message that goes to a marked session keeps the mark until it is answered."""
    before = await exchange_messages(expiring_harness)
    await sessions_of(expiring_harness).mark_resume_pending(KEY)
    advance(expiring_harness, 30 * HOUR)
    expiring_harness.say("go on")
    await expiring_harness.model.wait_for_request(2)
    assert (await current_session(expiring_harness)).resume_pending
    expiring_harness.model.say("done")
    await expiring_harness.sent(2)
    found = await current_session(expiring_harness)
    assert (found.id, found.resume_pending, found.resume_reason) == (before.id, False, None)


async def test_a_suspended_session_is_replaced_by_a_fresh_one(
    expiring_harness: GatewayHarness,
) -> None:
    """F4: a new id, `was_auto_reset`, and why; suspended wins over resume-pending."""
    before = await exchange_messages(expiring_harness)
    await sessions_of(expiring_harness).mark_resume_pending(KEY)
    await sessions_of(expiring_harness).suspend_session(KEY)
    found = await sessions_of(expiring_harness).get_or_create_session(SOURCE)
    assert found.id != before.id
    assert found.was_auto_reset
    assert found.auto_reset_reason == "suspended"
    assert found.previous == before.id
    assert (await sessions_of(expiring_harness).get_or_create_session(SOURCE)).id == found.id


async def test_a_queued_message_runs_in_the_fresh_session(expiring_harness: GatewayHarness) -> None:
    """F4: messages after the suspension leave the session, though its turn still runs."""
    expiring_harness.say("work")
    await expiring_harness.model.wait_for_request(1)
    lane = next(iter(expiring_harness.gateway.lanes))
    expiring_harness.say("/queue and then")
    async with asyncio.timeout(30):
        while not lane.queued:
            await asyncio.sleep(0.001)
    assert await sessions_of(expiring_harness).suspend_session(KEY)
    await expiring_harness.model.wait_for_request(2)
    assert expiring_harness.model.requests[1].messages[-1].text == "and then"
    expiring_harness.model.say("both", "both")
    await expiring_harness.sent(3)
    assert (await current_session(expiring_harness)).id != lane.session_id


async def test_a_turn_interrupted_by_a_crash_is_marked_until_it_completes(
    harness: GatewayHarness, until: Until
) -> None:
    """F3, F8: recovery marks it with the reason `crash`."""
    harness.say("work")
    await harness.model.wait_for_request(1)
    await until(lambda: turn_is_open(harness))
    await harness.die()
    await harness.start()
    await harness.model.wait_for_request(2)
    found = await current_session(harness)
    assert (found.resume_pending, found.resume_reason) == (True, "crash")
    assert found.last_resume_marked_at is not None
    harness.model.say("done")
    await harness.sent(1)
    assert resume_marks(await current_session(harness)) == (False, None, None)


async def test_a_stop_clears_the_marks_of_its_turn(harness: GatewayHarness, until: Until) -> None:
    """F9: /stop clears the marks of the turn it ends."""
    harness.say("work")
    await harness.model.wait_for_request(1)
    await until(lambda: turn_is_open(harness))
    await harness.die()
    await harness.start()
    await harness.model.wait_for_request(2)
    harness.say("/stop")
    await harness.sent(1)
    assert resume_marks(await current_session(harness)) == (False, None, None)


async def test_concurrent_requests_for_one_key_get_one_session(
    expiring_harness: GatewayHarness,
) -> None:
    """`get_or_create_session` is single-flight per key, also next to a message."""
    ask = sessions_of(expiring_harness).get_or_create_session
    found = await asyncio.gather(*(ask(SOURCE) for _ in range(20)))
    assert len({each.id for each in found}) == 1
    expiring_harness.model.say("hello")
    expiring_harness.say("hi")
    await expiring_harness.sent(1)
    assert (await current_session(expiring_harness)).id == found[0].id
    assert len(await expiring_harness.store.read(ListSessions(limit=10))) == 1


async def test_a_session_that_exists_only_in_its_lane_is_found(
    expiring_harness: GatewayHarness,
) -> None:
    """Its first turn may not have reached the store yet."""
    expiring_harness.say("hi")
    await expiring_harness.model.wait_for_request(1)
    found = await sessions_of(expiring_harness).get_or_create_session(SOURCE)
    assert found.id == next(iter(expiring_harness.gateway.lanes)).session_id
    expiring_harness.model.say("hello")
    await expiring_harness.sent(1)


def test_a_route_target_says_whether_its_session_can_continue() -> None:
    """F4: suspended and ended sessions cannot."""
    target_row = RouteTarget(session_id=SessionId("s"), active_at=1.0)
    assert target_row.can_continue
    assert not msgspec.structs.replace(target_row, suspended=True).can_continue
    assert not msgspec.structs.replace(target_row, ended=True).can_continue
    assert ResetReason("suspended") is ResetReason.SUSPENDED
