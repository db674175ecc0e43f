"""Chapter F, the session's part: marks to resume it, its suspension, and what they decide."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest
from tests.support.gateway_harness import GatewayHarness, ManualClock, Until

from holdfast.core.config.settings import SessionSettings
from holdfast.core.ids import SessionId
from holdfast.core.messages.inbox import RouteTarget
from holdfast.core.messages.source import Source, build_session_key
from holdfast.core.sessions.reset import ResetMode, ResetReason
from holdfast.core.sessions.session import SessionRow
from holdfast.gateway.sessions.resolver import SessionStore

SOURCE = Source(platform="simulated", chat_id="home", user_id="ann")
KEY = build_session_key(SOURCE)
NOBODY = build_session_key(Source(platform="simulated", chat_id="elsewhere", user_id="ann"))
HOUR = 3600.0


@pytest.fixture
async def kept(tmp_path: Path) -> AsyncIterator[GatewayHarness]:
    """A harness whose clock is moved by hand, and whose conversations end after an hour."""
    harness = GatewayHarness(tmp_path / "state.db")
    harness.clock = ManualClock()
    sessions = SessionSettings(reset=ResetMode.IDLE, idle_minutes=60)
    harness.settings = msgspec.structs.replace(harness.settings, sessions=sessions)
    await harness.start()
    yield harness
    await harness.stop()


def later(harness: GatewayHarness, seconds: float) -> None:
    assert isinstance(harness.clock, ManualClock)
    harness.clock.at += seconds


async def talked(harness: GatewayHarness) -> SessionRow:
    """One exchange, after which nothing runs."""
    harness.model.say("hello")
    harness.say("hi")
    await harness.sent(1)
    async with asyncio.timeout(30):
        while len(harness.gateway.lanes):
            await asyncio.sleep(0.001)
    return await row(harness)


async def row(harness: GatewayHarness) -> SessionRow:
    pointed = await harness.store.route_target(KEY)
    assert pointed is not None
    found = await harness.store.session(pointed.session_id)
    assert found is not None
    return found


async def has_begun(harness: GatewayHarness) -> bool:
    """Whether a turn is in the log: the model may be asked before it is."""
    return bool(await harness.store.open_turns())


def marks(row: SessionRow) -> tuple[Any, ...]:
    return row.resume_pending, row.resume_reason, row.last_resume_marked_at


def sessions_of(harness: GatewayHarness) -> SessionStore:
    return harness.gateway.sessions


async def test_marks_survive_a_round_trip_through_the_store(kept: GatewayHarness) -> None:
    """F1: all four fields, also by another process."""
    await talked(kept)
    assert await sessions_of(kept).mark_resume_pending(KEY)
    assert await sessions_of(kept).suspend_session(KEY)
    at = kept.clock.now()
    await kept.stop()
    await kept.start()
    found = await row(kept)
    assert marks(found) == (True, "restart_timeout", at)
    assert found.suspended


async def test_records_from_before_these_fields_load_as_nothing_pending(
    kept: GatewayHarness,
) -> None:
    """F1: their columns are NULL."""
    await talked(kept)
    found = await row(kept)
    assert marks(found) == (False, None, None)
    assert (found.suspended, found.was_auto_reset, found.auto_reset_reason) == (False, False, None)


@pytest.mark.parametrize("bad", ["'yesterday'", "9e999", "-1", "x'00ff'", "NULL"])
async def test_a_malformed_timestamp_drops_that_timestamp_alone(
    kept: GatewayHarness, bad: str
) -> None:
    """F1: flag and reason are kept, and so is everything else."""
    before = await talked(kept)
    await sessions_of(kept).mark_resume_pending(KEY, reason="shutdown_timeout")
    await kept.stop()
    with apsw.Connection(str(kept.path)) as file:
        file.execute(f"UPDATE sessions SET last_resume_marked_at = {bad}")
    file.close()
    await kept.start()
    found = await row(kept)
    assert marks(found) == (True, "shutdown_timeout", None)
    assert (found.id, found.active_at, found.title) == (before.id, before.active_at, before.title)


async def test_marking_sets_flag_reason_and_time(kept: GatewayHarness) -> None:
    """F2: True; False for an unknown key."""
    await talked(kept)
    later(kept, 5)
    assert await sessions_of(kept).mark_resume_pending(KEY, reason="shutdown_timeout") is True
    assert marks(await row(kept)) == (True, "shutdown_timeout", kept.clock.now())
    assert await sessions_of(kept).mark_resume_pending(NOBODY) is False


async def test_a_suspended_session_cannot_be_marked(kept: GatewayHarness) -> None:
    """F2: False, and no change."""
    await talked(kept)
    assert await sessions_of(kept).suspend_session(KEY) is True
    assert await sessions_of(kept).mark_resume_pending(KEY) is False
    assert marks(await row(kept)) == (False, None, None)


async def test_clearing_clears_all_three_once(kept: GatewayHarness) -> None:
    """F2: True; False when nothing is pending or the key is unknown."""
    await talked(kept)
    await sessions_of(kept).mark_resume_pending(KEY)
    assert await sessions_of(kept).clear_resume_pending(KEY) is True
    assert marks(await row(kept)) == (False, None, None)
    assert await sessions_of(kept).clear_resume_pending(KEY) is False
    assert await sessions_of(kept).clear_resume_pending(NOBODY) is False


async def test_an_unknown_key_cannot_be_suspended(kept: GatewayHarness) -> None:
    """F2: `suspend_session` says so."""
    assert await sessions_of(kept).suspend_session(NOBODY) is False


async def test_a_session_marked_for_resume_is_not_reset(kept: GatewayHarness) -> None:
    """F3: the same id, no auto-reset, before any policy; and the flag stays."""
    before = await talked(kept)
    await sessions_of(kept).mark_resume_pending(KEY)
    later(kept, 30 * HOUR)
    found = await sessions_of(kept).get_or_create_session(SOURCE)
    assert (found.id, found.was_auto_reset) == (before.id, False)
    assert marks(found)[:2] == (True, "restart_timeout")


async def test_only_a_turn_that_completes_clears_the_flag(kept: GatewayHarness) -> None:
    """F3: a message that goes to a marked session keeps the mark until it is answered."""
    before = await talked(kept)
    await sessions_of(kept).mark_resume_pending(KEY)
    later(kept, 30 * HOUR)
    kept.say("go on")
    await kept.model.wait_for_request(2)
    assert (await row(kept)).resume_pending
    kept.model.say("done")
    await kept.sent(2)
    found = await row(kept)
    assert (found.id, found.resume_pending, found.resume_reason) == (before.id, False, None)


async def test_a_suspended_session_is_replaced_by_a_fresh_one(kept: GatewayHarness) -> None:
    """F4: a new id, `was_auto_reset`, and why; suspended wins over resume-pending."""
    before = await talked(kept)
    await sessions_of(kept).mark_resume_pending(KEY)
    await sessions_of(kept).suspend_session(KEY)
    found = await sessions_of(kept).get_or_create_session(SOURCE)
    assert found.id != before.id
    assert found.was_auto_reset
    assert found.auto_reset_reason == "suspended"
    assert found.previous == before.id
    assert (await sessions_of(kept).get_or_create_session(SOURCE)).id == found.id


async def test_a_queued_message_runs_in_the_fresh_session(kept: GatewayHarness) -> None:
    """F4: a session that is suspended under its turn is left by what was said after it."""
    kept.say("work")
    await kept.model.wait_for_request(1)
    lane = next(iter(kept.gateway.lanes))
    kept.say("/queue and then")
    async with asyncio.timeout(30):
        while not lane.queued:
            await asyncio.sleep(0.001)
    assert await sessions_of(kept).suspend_session(KEY)
    await kept.model.wait_for_request(2)
    assert kept.model.requests[1].messages[-1].text == "and then"
    kept.model.say("both", "both")
    await kept.sent(3)
    assert (await row(kept)).id != lane.session_id


async def test_a_turn_interrupted_by_a_crash_is_marked_until_it_completes(
    harness: GatewayHarness, until: Until
) -> None:
    """F3, F8: recovery marks it with the reason `crash`."""
    harness.say("work")
    await harness.model.wait_for_request(1)
    await until(lambda: has_begun(harness))
    await harness.die()
    await harness.start()
    await harness.model.wait_for_request(2)
    found = await row(harness)
    assert (found.resume_pending, found.resume_reason) == (True, "crash")
    assert found.last_resume_marked_at is not None
    harness.model.say("done")
    await harness.sent(1)
    assert marks(await row(harness)) == (False, None, None)


async def test_a_stop_clears_the_marks_of_its_turn(harness: GatewayHarness, until: Until) -> None:
    """F9: /stop clears the marks of the turn it ends."""
    harness.say("work")
    await harness.model.wait_for_request(1)
    await until(lambda: has_begun(harness))
    await harness.die()
    await harness.start()
    await harness.model.wait_for_request(2)
    harness.say("/stop")
    await harness.sent(1)
    assert marks(await row(harness)) == (False, None, None)


async def test_concurrent_requests_for_one_key_get_one_session(kept: GatewayHarness) -> None:
    """`get_or_create_session` is single-flight per key, also next to a message."""
    ask = sessions_of(kept).get_or_create_session
    found = await asyncio.gather(*(ask(SOURCE) for _ in range(20)))
    assert len({each.id for each in found}) == 1
    kept.model.say("hello")
    kept.say("hi")
    await kept.sent(1)
    assert (await row(kept)).id == found[0].id
    assert len(await kept.store.sessions(limit=10)) == 1


async def test_a_session_that_exists_only_in_its_lane_is_found(
    kept: GatewayHarness,
) -> None:
    """Its first turn may not have reached the store yet."""
    kept.say("hi")
    await kept.model.wait_for_request(1)
    found = await sessions_of(kept).get_or_create_session(SOURCE)
    assert found.id == next(iter(kept.gateway.lanes)).session_id
    kept.model.say("hello")
    await kept.sent(1)


def test_a_route_target_says_whether_its_session_can_continue() -> None:
    """F4: suspended and ended are no place to go on."""
    here = RouteTarget(session_id=SessionId("s"), active_at=1.0)
    assert here.can_continue
    assert not msgspec.structs.replace(here, suspended=True).can_continue
    assert not msgspec.structs.replace(here, ended=True).can_continue
    assert ResetReason("suspended") is ResetReason.SUSPENDED
