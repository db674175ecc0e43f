"""Tests of expiry: idle sessions, unused agents and rows past their retention (A7, A13, G2)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tests.support.gateway_harness import GatewayHarness, ManualClock, Until, WallClock
from tests.support.memory_provider import RecordingMemoryProvider
from tests.support.stops import set_stop_timeouts

from holdfast.core.config.settings import (
    MemorySettings,
    RetentionSettings,
    SessionSettings,
    Settings,
)
from holdfast.core.ids import SessionId
from holdfast.core.people.audit import AuditEntry, AuditFilter, AuditKind
from holdfast.core.people.memory import MemoryHook
from holdfast.core.ports.store_commands import ExpireSession, RecordAudit
from holdfast.core.ports.store_queries import (
    GetInboxRow,
    GetSession,
    ListAudit,
    ListDeliveriesForMessage,
    VerifyAudit,
)
from holdfast.core.sessions.reset import ResetMode, ResetRule
from holdfast.core.sessions.session import ProcessRow

HOUR = 3600.0
DAY = 24 * HOUR


def settings_with(harness: GatewayHarness, **tables: msgspec.Struct) -> Settings:
    return msgspec.structs.replace(harness.settings, **tables)


class ExpiryHarness:
    """A harness with a manual clock, whose expiry runs when the test calls `check`."""

    def __init__(self, harness: GatewayHarness, clock: ManualClock) -> None:
        self.harness = harness
        self.clock = clock

    async def start(self, **tables: msgspec.Struct) -> None:
        self.harness.settings = settings_with(self.harness, **tables)
        await self.harness.start()

    async def exchange(self, text: str = "hi", *, chat: str = "one") -> SessionId:
        self.harness.model.say("yes")
        accepted = await self.harness.accept(text, chat=chat)
        await self.harness.end_of(accepted)
        row = await self.harness.store.read(GetInboxRow(inbox_id=accepted.row.id))
        assert row is not None and row.session_id is not None
        while self.harness.gateway.lanes.get(row.session_id) is not None:
            await asyncio.sleep(0)
        return row.session_id

    async def ended(self, session_id: SessionId) -> bool:
        row = await self.harness.store.read(GetSession(session_id=session_id))
        assert row is not None
        return row.ended_at is not None

    async def check(self) -> float:
        return await self.harness.gateway.expiry.run_once()


@pytest.fixture
async def expiry(tmp_path: Path) -> AsyncIterator[ExpiryHarness]:
    clock = ManualClock()
    harness = GatewayHarness(tmp_path / "state.db")
    harness.clock = clock
    yield ExpiryHarness(harness, clock)
    await harness.stop()


IDLE = SessionSettings(reset=ResetMode.IDLE, idle_minutes=60)


async def test_a_session_that_has_expired_is_ended_closed_and_out_of_the_cache(
    expiry: ExpiryHarness,
) -> None:
    """A13: its agent is closed and its cache entry is removed."""
    await expiry.start(sessions=IDLE)
    harness = expiry.harness
    session = await expiry.exchange()
    other = await expiry.exchange(chat="two")
    assert session in harness.gateway.cache
    expiry.clock.at += HOUR - 1
    assert await expiry.check() <= expiry.clock.at + 1
    assert not await expiry.ended(session)
    await expiry.exchange("still here", chat="two")
    expiry.clock.at += 1
    await expiry.check()
    assert await expiry.ended(session) and session not in harness.gateway.cache
    assert harness.runners.ended == [session]
    assert not await expiry.ended(other) and other in harness.gateway.cache
    await expiry.check()
    assert harness.runners.ended == [session]  # once
    assert await expiry.exchange() != session


async def test_the_next_check_is_due_when_the_next_session_expires(expiry: ExpiryHarness) -> None:
    await expiry.start(sessions=IDLE)
    expiry.clock.at += 120  # past the first check of the retention
    await expiry.check()
    first = expiry.clock.at
    await expiry.exchange()
    expiry.clock.at += 600
    await expiry.exchange(chat="two")
    assert await expiry.check() == first + HOUR
    expiry.clock.at = first + HOUR
    assert await expiry.check() == first + 600 + HOUR


async def test_a_platform_rule_overrides_the_default(expiry: ExpiryHarness) -> None:
    rule = ResetRule(platform="api", reset=ResetMode.NONE)
    await expiry.start(sessions=msgspec.structs.replace(IDLE, rules=(rule,)))
    session = await expiry.exchange()
    expiry.clock.at += 100 * DAY
    await expiry.check()
    assert not await expiry.ended(session)


async def test_a_session_with_running_work_is_not_ended(expiry: ExpiryHarness) -> None:
    await expiry.start(sessions=IDLE)
    harness = expiry.harness
    served = await expiry.exchange()
    harness.runners.running[served] = [
        ProcessRow(session_id=served, id="p", command="serve", started_at=1.0)
    ]
    begun = await harness.accept("long work", chat="two")
    await harness.model.wait_for_request(2)
    (lane,) = harness.gateway.lanes
    expiry.clock.at += 2 * HOUR
    assert await expiry.check() == expiry.clock.at + 60  # a session that is spared is checked again
    assert not await expiry.ended(served) and not await expiry.ended(lane.session_id)
    harness.model.say("done")
    assert (await harness.end_of(begun)).text == "done"
    harness.runners.running.clear()
    await expiry.check()
    assert await expiry.ended(served)


async def test_a_message_that_was_accepted_before_keeps_its_session(expiry: ExpiryHarness) -> None:
    """The order of writes decides, whatever expiry has read before."""
    await expiry.start()
    store = expiry.harness.store
    session = await expiry.exchange()
    row = await store.read(GetSession(session_id=session))
    assert row is not None
    expiry.harness.model.say("late but in time")
    accepting = asyncio.create_task(expiry.harness.accept("in time"))
    await asyncio.sleep(0)
    ended = await store.write(
        ExpireSession(session_id=session, active_at=row.active_at, at=expiry.clock.at)
    )
    await expiry.harness.end_of(await accepting)
    assert not ended and not await expiry.ended(session)


async def test_idle_agents_are_evicted(expiry: ExpiryHarness) -> None:
    """A7: entries idle longer than `idle_ttl` go; the conversation does not."""
    await expiry.start()
    session = await expiry.exchange()
    cache = expiry.harness.gateway.cache
    expiry.clock.at += 120
    assert await expiry.check() == expiry.clock.at - 120 + HOUR
    expiry.clock.at += HOUR
    await expiry.check()
    assert session not in cache and expiry.harness.runners.ended == []
    assert await expiry.exchange("again") == session


async def test_the_expiry_task_wakes_when_a_session_becomes_idle(
    expiry: ExpiryHarness, until: Until
) -> None:
    """It sleeps until the next day; a session that expires sooner wakes it."""
    expiry.harness.clock = WallClock()  # the real one: the sleep itself is tested
    cache = msgspec.structs.replace(expiry.harness.settings.cache, idle_ttl=0.2)
    await expiry.start(cache=cache)
    session = await expiry.exchange()
    await until(lambda: session not in expiry.harness.gateway.cache)


async def test_old_messages_are_pruned_and_still_counted(expiry: ExpiryHarness) -> None:
    """G2: ids are kept for 30 days and longer; G3: the ledger still balances."""
    await expiry.start(retention=RetentionSettings(inbox_days=30, outbox_days=30))
    harness = expiry.harness
    session = await expiry.exchange("first", chat="one")
    old = await harness.accept("/status", event_id="same", chat="one")
    await harness.end_of(old)
    expiry.clock.at += 30 * DAY - 1
    await expiry.check()
    assert (await harness.accept("/status", event_id="same", chat="one")).duplicate
    before = await harness.ledger()
    expiry.clock.at += DAY
    await expiry.check()
    assert await harness.store.read(GetInboxRow(inbox_id=old.row.id)) is None
    assert await harness.store.read(ListDeliveriesForMessage(inbox_id=old.row.id)) == []
    assert await harness.ledger() == before
    assert len(await harness.transcript(session)) == 2


@pytest.mark.parametrize(("days", "left"), [(30, ["audit.pruned"]), (0, ["token.added"] * 2)])
async def test_audit_entries_are_pruned_after_their_retention(
    expiry: ExpiryHarness, days: int, left: list[str]
) -> None:
    await expiry.start(retention=RetentionSettings(audit_days=days))
    store = expiry.harness.store
    for _ in range(2):
        at, kind = expiry.clock.at, AuditKind.TOKEN_ADDED
        await store.write(RecordAudit(entry=AuditEntry(kind=kind, actor="operator", at=at)))
    for _ in range(31):
        expiry.clock.at += DAY
        await expiry.check()
    kinds = [row.kind for row in await store.read(ListAudit(where=AuditFilter(), limit=10))]
    assert kinds == left
    assert (await store.read(VerifyAudit())).broken == ()


async def test_sessions_are_kept_forever_by_default(expiry: ExpiryHarness) -> None:
    await expiry.start()
    session = await expiry.exchange()
    expiry.clock.at += 4000 * DAY
    await expiry.check()
    assert await expiry.harness.store.read(GetSession(session_id=session)) is not None


async def test_unused_sessions_are_deleted_after_their_retention(expiry: ExpiryHarness) -> None:
    await expiry.start(retention=RetentionSettings(sessions_days=30))
    old, served = await expiry.exchange("bathyscaphe"), await expiry.exchange(chat="two")
    expiry.harness.runners.running[served] = [
        ProcessRow(session_id=served, id="p", command="serve", started_at=1.0)
    ]
    expiry.clock.at += 30 * DAY
    await expiry.check()
    assert await expiry.harness.store.read(GetSession(session_id=old)) is not None
    expiry.clock.at += DAY
    young = await expiry.exchange(chat="three")
    await expiry.check()
    store = expiry.harness.store
    assert await store.read(GetSession(session_id=old)) is None
    assert (
        await store.read(GetSession(session_id=young)) is not None
        and await store.read(GetSession(session_id=served)) is not None
    )
    files = [path.read_bytes() for path in expiry.harness.path.parent.iterdir()]
    assert not any(b"bathyscaphe" in content for content in files)


async def test_a_clock_that_is_set_ahead_deletes_nothing(expiry: ExpiryHarness) -> None:
    """G2: rows are deleted only if the clock says so for another day; set back, it delays nothing
    for longer than usual."""
    keeping = RetentionSettings(sessions_days=30, inbox_days=30, outbox_days=30)
    await expiry.start(retention=keeping)
    harness, true = expiry.harness, expiry.clock.at
    session = await expiry.exchange()
    old = await harness.accept("/status", event_id="same")
    await harness.end_of(old)
    expiry.clock.at = true + 120
    await expiry.check()
    expiry.clock.at = true + 4000 * DAY
    await expiry.check()
    expiry.clock.at = true + DAY
    assert await expiry.check() <= expiry.clock.at + DAY
    await harness.stop()
    expiry.clock.at = true + 4000 * DAY
    await harness.start()
    expiry.clock.at += 120
    await expiry.check()
    assert await harness.store.read(GetSession(session_id=session)) is not None
    assert (await harness.accept("/status", event_id="same")).duplicate
    expiry.clock.at += DAY
    await expiry.check()
    assert await harness.store.read(GetInboxRow(inbox_id=old.row.id)) is None
    assert await harness.store.read(GetSession(session_id=session)) is None


async def test_an_idle_session_ends_for_memory_and_again_only_after_new_messages(
    expiry: ExpiryHarness,
) -> None:
    """C5: `memory.end_after`, a day, after its last message. The session continues."""
    provider = RecordingMemoryProvider()
    expiry.harness.memory = [provider]
    await expiry.start(sessions=SessionSettings(reset=ResetMode.NONE))
    session = await expiry.exchange()
    expiry.clock.at += DAY - 1
    assert await expiry.check() <= expiry.clock.at + 60
    assert provider.end_ids == []
    expiry.clock.at += 1
    for _ in range(3):
        await expiry.check()
        await expiry.harness.gateway.memory.join()
        expiry.clock.at += 2 * DAY
    assert provider.ended == [session], "once"
    assert await expiry.exchange("I am back") == session
    await expiry.check()
    await expiry.harness.gateway.memory.join()
    assert provider.ended == [session]
    expiry.clock.at += DAY
    await expiry.check()
    await expiry.harness.gateway.memory.join()
    assert provider.ended == [session, session] and len(set(provider.end_ids)) == 2
    await expiry.harness.stop()
    assert provider.ended == [session, session], "a stop reports nothing new"


@pytest.mark.parametrize("how", ["killed", "off", "no provider", "running"])
async def test_which_idle_sessions_end_for_memory(
    expiry: ExpiryHarness, until: Until, how: str
) -> None:
    """C5: also after a kill, which reported nothing; not with `end_after = 0`, and not while a turn
    runs."""
    harness = expiry.harness
    wants = frozenset({MemoryHook.SYNC_TURN}) if how == "no provider" else frozenset(MemoryHook)
    provider = RecordingMemoryProvider(wants=wants)
    harness.memory = [provider]
    memory = MemorySettings(end_after=0 if how == "off" else HOUR)
    await expiry.start(sessions=SessionSettings(reset=ResetMode.NONE), memory=memory)
    session = await expiry.exchange()
    if how == "killed":
        harness.memory = []
        set_stop_timeouts(harness)
        await harness.die()
        provider.ended.clear()
        harness.memory = [provider]
        await harness.start()
    if how == "running":
        await harness.accept("work")
        await harness.model.wait_for_request(2)
    expiry.clock.at += HOUR
    await expiry.check()
    await harness.gateway.memory.join()
    assert provider.ended == ([session] if how == "killed" else [])
