"""Expiry: sessions that are over, agents that nobody needs, rows that are kept no longer."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tests.support.gateway_harness import Clock, GatewayHarness, ManualClock, Until

from holdfast.core.config.settings import RetentionSettings, SessionSettings, Settings
from holdfast.core.ids import SessionId
from holdfast.core.people.audit import AuditEntry, AuditFilter, AuditKind
from holdfast.core.sessions.reset import ResetMode, ResetRule
from holdfast.core.sessions.session import ProcessRow

HOUR = 3600.0
DAY = 24 * HOUR


def setting(harness: GatewayHarness, **tables: msgspec.Struct) -> Settings:
    return msgspec.structs.replace(harness.settings, **tables)


class Held:
    """A harness whose time is held, and whose watcher looks when the test says so."""

    def __init__(self, harness: GatewayHarness, clock: ManualClock) -> None:
        self.harness = harness
        self.clock = clock

    async def start(self, **tables: msgspec.Struct) -> None:
        self.harness.settings = setting(self.harness, **tables)
        await self.harness.start()

    async def said(self, text: str = "hi", *, chat: str = "one") -> SessionId:
        self.harness.model.say("yes")
        accepted = await self.harness.accept(text, chat=chat)
        await self.harness.end_of(accepted)
        row = await self.harness.store.inbox_row(accepted.row.id)
        assert row is not None and row.session_id is not None
        while self.harness.gateway.lanes.get(row.session_id) is not None:
            await asyncio.sleep(0)
        return row.session_id

    async def ended(self, session_id: SessionId) -> bool:
        row = await self.harness.store.session(session_id)
        assert row is not None
        return row.ended_at is not None

    async def look(self) -> float:
        return await self.harness.gateway.expiry.run_once()


@pytest.fixture
async def held(tmp_path: Path) -> AsyncIterator[Held]:
    clock = ManualClock()
    harness = GatewayHarness(tmp_path / "state.db")
    harness.clock = clock
    yield Held(harness, clock)
    await harness.stop()


IDLE = SessionSettings(reset=ResetMode.IDLE, idle_minutes=60)


async def test_a_session_that_has_expired_is_ended_closed_and_out_of_the_cache(held: Held) -> None:
    """A13: its agent is closed and its cache entry is removed."""
    await held.start(sessions=IDLE)
    harness = held.harness
    session = await held.said()
    other = await held.said(chat="two")
    assert session in harness.gateway.services.cache
    held.clock.at += HOUR - 1
    assert await held.look() <= held.clock.at + 1
    assert not await held.ended(session)
    await held.said("still here", chat="two")
    held.clock.at += 1
    await held.look()
    assert await held.ended(session) and session not in harness.gateway.services.cache
    assert harness.runners.ended == [session]
    assert not await held.ended(other) and other in harness.gateway.services.cache
    await held.look()
    assert harness.runners.ended == [session]  # once
    assert await held.said() != session


async def test_the_next_check_is_due_when_the_next_session_expires(held: Held) -> None:
    await held.start(sessions=IDLE)
    held.clock.at += 120  # past the first look of the retention
    await held.look()
    first = held.clock.at
    await held.said()
    held.clock.at += 600
    await held.said(chat="two")
    assert await held.look() == first + HOUR
    held.clock.at = first + HOUR
    assert await held.look() == first + 600 + HOUR


async def test_a_platform_rule_overrides_the_default(held: Held) -> None:
    rule = ResetRule(platform="api", reset=ResetMode.NONE)
    await held.start(sessions=msgspec.structs.replace(IDLE, rules=(rule,)))
    session = await held.said()
    held.clock.at += 100 * DAY
    await held.look()
    assert not await held.ended(session)


async def test_a_session_with_running_work_is_not_ended(held: Held) -> None:
    await held.start(sessions=IDLE)
    harness = held.harness
    served = await held.said()
    harness.runners.running[served] = [
        ProcessRow(session_id=served, id="p", command="serve", started_at=1.0)
    ]
    begun = await harness.accept("long work", chat="two")
    await harness.model.wait_for_request(2)
    (lane,) = harness.gateway.lanes
    held.clock.at += 2 * HOUR
    assert await held.look() == held.clock.at + 60  # what is spared is looked at again
    assert not await held.ended(served) and not await held.ended(lane.session_id)
    harness.model.say("done")
    assert (await harness.end_of(begun)).text == "done"
    harness.runners.running.clear()
    await held.look()
    assert await held.ended(served)


async def test_a_message_that_was_accepted_before_keeps_its_session(held: Held) -> None:
    """Decided in the order of all writes, whatever the watcher has read before."""
    await held.start()
    store = held.harness.store
    session = await held.said()
    row = await store.session(session)
    assert row is not None
    held.harness.model.say("late but in time")
    accepting = asyncio.create_task(held.harness.accept("in time"))
    await asyncio.sleep(0)
    ended = await store.expire_session(session, active_at=row.active_at, at=held.clock.at)
    await held.harness.end_of(await accepting)
    assert not ended and not await held.ended(session)


async def test_idle_agents_are_evicted(held: Held) -> None:
    """A7: entries idle longer than `idle_ttl` go; the conversation does not."""
    await held.start()
    session = await held.said()
    cache = held.harness.gateway.services.cache
    held.clock.at += 120
    assert await held.look() == held.clock.at - 120 + HOUR
    held.clock.at += HOUR
    await held.look()
    assert session not in cache and held.harness.runners.ended == []
    assert await held.said("again") == session


async def test_the_expiry_task_wakes_when_a_session_becomes_idle(held: Held, until: Until) -> None:
    """It slept until tomorrow; a conversation that is over sooner wakes it."""
    held.harness.clock = Clock()  # the true one: it is the sleep that is tested
    cache = msgspec.structs.replace(held.harness.settings.cache, idle_ttl=0.2)
    await held.start(cache=cache)
    session = await held.said()
    await until(lambda: session not in held.harness.gateway.services.cache)


async def test_old_messages_are_pruned_and_still_counted(held: Held) -> None:
    """G2: ids are kept for 30 days and longer; G3: the ledger still balances."""
    await held.start(retention=RetentionSettings(inbox_days=30, outbox_days=30))
    harness = held.harness
    session = await held.said("first", chat="one")
    old = await harness.accept("/status", event_id="same", chat="one")
    await harness.end_of(old)
    held.clock.at += 30 * DAY - 1
    await held.look()
    assert (await harness.accept("/status", event_id="same", chat="one")).duplicate
    before = await harness.ledger()
    held.clock.at += DAY
    await held.look()
    assert await harness.store.inbox_row(old.row.id) is None
    assert await harness.store.deliveries_for_message(old.row.id) == []
    assert await harness.ledger() == before
    assert len(await harness.transcript(session)) == 2


@pytest.mark.parametrize(("days", "left"), [(30, ["audit.pruned"]), (0, ["token.added"] * 2)])
async def test_audit_entries_are_pruned_after_their_retention(
    held: Held, days: int, left: list[str]
) -> None:
    await held.start(retention=RetentionSettings(audit_days=days))
    store = held.harness.store
    for _ in range(2):
        at, kind = held.clock.at, AuditKind.TOKEN_ADDED
        await store.record_audit(AuditEntry(kind=kind, actor="operator", at=at))
    for _ in range(31):
        held.clock.at += DAY
        await held.look()
    kinds = [row.kind for row in await store.audit(AuditFilter(), limit=10)]
    assert kinds == left
    assert (await store.verify_audit()).broken == ()


async def test_sessions_are_kept_forever_by_default(held: Held) -> None:
    await held.start()
    session = await held.said()
    held.clock.at += 4000 * DAY
    await held.look()
    assert await held.harness.store.session(session) is not None


async def test_unused_sessions_are_deleted_after_their_retention(held: Held) -> None:
    await held.start(retention=RetentionSettings(sessions_days=30))
    old, served = await held.said("bathyscaphe"), await held.said(chat="two")
    held.harness.runners.running[served] = [
        ProcessRow(session_id=served, id="p", command="serve", started_at=1.0)
    ]
    held.clock.at += 30 * DAY
    await held.look()
    assert await held.harness.store.session(old) is not None
    held.clock.at += DAY
    young = await held.said(chat="three")
    await held.look()
    store = held.harness.store
    assert await store.session(old) is None
    assert await store.session(young) is not None and await store.session(served) is not None
    files = [path.read_bytes() for path in held.harness.path.parent.iterdir()]
    assert not any(b"bathyscaphe" in content for content in files)


async def test_a_clock_that_is_set_ahead_deletes_nothing(held: Held) -> None:
    """G2: what it makes old is old when it says so for another day; and set back, it puts nothing
    off for longer than usual."""
    keeping = RetentionSettings(sessions_days=30, inbox_days=30, outbox_days=30)
    await held.start(retention=keeping)
    harness, true = held.harness, held.clock.at
    session = await held.said()
    old = await harness.accept("/status", event_id="same")
    await harness.end_of(old)
    held.clock.at = true + 120
    await held.look()
    held.clock.at = true + 4000 * DAY
    await held.look()
    held.clock.at = true + DAY
    assert await held.look() <= held.clock.at + DAY
    await harness.stop()
    held.clock.at = true + 4000 * DAY
    await harness.start()
    held.clock.at += 120
    await held.look()
    assert await harness.store.session(session) is not None
    assert (await harness.accept("/status", event_id="same")).duplicate
    held.clock.at += DAY
    await held.look()
    assert await harness.store.inbox_row(old.row.id) is None
    assert await harness.store.session(session) is None
