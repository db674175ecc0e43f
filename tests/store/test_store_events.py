"""The events of the store's port: who is told about a command, when, and in which order (law 4)."""

import asyncio
import gc
import logging
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.stores import OpenStore, StoreImplementation, future_of

from holdfast.core.crash_points import CrashPoint
from holdfast.core.errors import StoreError
from holdfast.core.ids import DeliveryId, SessionId, SessionKey
from holdfast.core.people.audit import AuditEntry, AuditFilter, AuditKind
from holdfast.core.ports.command import GATEWAY_SCOPE, Command, Committed, WriteFailed
from holdfast.core.ports.store import Store
from holdfast.core.ports.store_commands import (
    BeginAttempt,
    OpenSession,
    RecordAudit,
    RenameSession,
    SetMeta,
    SuspendSession,
)
from holdfast.core.ports.store_queries import GetMeta, GetSession, ListAudit

SESSION = SessionId("s")
OPEN = OpenSession(session_id=SESSION, route=SessionKey("r"), at=1.0)
RENAME = RenameSession(session_id=SESSION, title="new")
FAILING = BeginAttempt(delivery_id=DeliveryId("none"), scope=GATEWAY_SCOPE, at=1.0)
ENTRY = AuditEntry(kind=AuditKind.SESSION_RENAMED, actor="ann", at=1.0, session_id=SESSION)


class Recorder:
    """Subscribes to a store and records its events."""

    def __init__(self, store: Store, *commands: type[Command[Any]]) -> None:
        self.committed: list[Committed] = []
        self.failed: list[WriteFailed] = []
        store.events.on_committed(self.committed.append, *commands)
        store.events.on_failed(self.failed.append, *commands)

    @property
    def keys(self) -> list[str]:
        """The keys of the metadata that were committed."""
        return [each.command.key for each in self.committed if isinstance(each.command, SetMeta)]


def set_meta(key: object, value: str = "x") -> SetMeta:
    return SetMeta(key=str(key), value=value)


async def audit_rows(store: Store) -> int:
    return len(await store.read(ListAudit(where=AuditFilter(), limit=100)))


async def test_events_arrive_in_commit_order_with_their_results(store: Store) -> None:
    """Law 4: also of commands that share a commit, and beside one that fails."""
    recorder = Recorder(store)
    writes: list[asyncio.Future[Any]] = [future_of(store.write(set_meta(n))) for n in range(50)]
    writes.append(future_of(store.write(FAILING)))
    writes.append(future_of(store.write(OPEN)))
    writes += [future_of(store.write(set_meta(n))) for n in range(50, 100)]
    await asyncio.gather(*writes, return_exceptions=True)
    assert recorder.keys == [str(number) for number in range(100)]
    assert recorder.committed[50] == Committed(OPEN, SESSION)
    assert [each.command for each in recorder.failed] == [FAILING]


async def test_a_subscriber_is_called_after_the_commit_and_before_the_awaiting_code(
    implementation: StoreImplementation, store: Store, path: Path
) -> None:
    """Law 4: another process finds the row by then."""
    order: list[tuple[str, str | None]] = []
    store.events.on_committed(
        lambda _: order.append(("told", implementation.read_meta(path).get("key")))
    )

    async def write() -> None:
        await store.write(set_meta("key", "value"))
        order.append(("resumed", None))

    await write()
    assert order == [("told", "value"), ("resumed", None)]


async def test_no_subscriber_is_called_before_the_commit(open_store: OpenStore, path: Path) -> None:
    """Law 4: what a subscriber does cannot be undone with the commit."""
    reached, go = threading.Event(), threading.Event()

    def hold(point: CrashPoint) -> None:
        if point is CrashPoint.BEFORE_COMMIT:
            reached.set()
            go.wait(10)

    async with open_store(path, crash=hold) as store:
        recorder = Recorder(store)
        write = future_of(store.write(set_meta("key")))
        await asyncio.to_thread(reached.wait, 10)
        await asyncio.sleep(0.05)
        assert recorder.committed == []
        go.set()
        await write
        assert recorder.keys == ["key"]


async def test_a_commit_that_fails_is_published_as_failed_for_each_of_its_commands(
    open_store: OpenStore, path: Path
) -> None:
    """Law 4, K2: none of them is told as committed; the next one is."""
    errors = [OSError("pulled out")]

    def fail(point: CrashPoint) -> None:
        if point is CrashPoint.BEFORE_COMMIT and errors:
            raise errors.pop()

    async with open_store(path, crash=fail) as store:
        recorder = Recorder(store)
        with pytest.raises(StoreError, match="pulled out"):
            await store.write(set_meta("first"))
        await store.write(set_meta("second"))
    assert recorder.keys == ["second"]
    (failed,) = recorder.failed
    assert failed.command == set_meta("first")
    assert isinstance(failed.error, StoreError)


async def test_a_command_that_fails_is_published_with_its_error(store: Store) -> None:
    """Law 4: as failed, and not as committed; before its awaiter resumes."""
    recorder = Recorder(store)
    with pytest.raises(StoreError) as raised:
        await store.write(FAILING)
    assert recorder.committed == []
    assert [(each.command, str(each.error)) for each in recorder.failed] == [
        (FAILING, str(raised.value))
    ]


async def test_a_failure_without_an_awaiter_is_published_and_not_reported_as_unread(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """A subscriber may be the only one to learn of it."""
    recorder = Recorder(store)
    store.write(FAILING)
    await store.write(set_meta("next"))
    gc.collect()
    assert len(recorder.failed) == 1
    assert [record for record in caplog.records if record.name == "asyncio"] == []


async def test_a_subscriber_that_raises_stops_neither_the_others_nor_the_writer(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """Law 4: it is logged with the command that it failed for."""
    told: list[str] = []

    def fail(event: object) -> None:
        told.append("failing")
        raise ValueError("a bug")

    store.events.on_committed(fail)
    store.events.on_failed(fail)
    recorder = Recorder(store)
    with caplog.at_level(logging.ERROR):
        await store.write(OPEN)
        with pytest.raises(StoreError):
            await store.write(FAILING)
        await store.write(set_meta("key"))
    assert told == ["failing"] * 3
    assert [each.command for each in recorder.committed] == [OPEN, set_meta("key")]
    assert [each.command for each in recorder.failed] == [FAILING]
    logged = [record for record in caplog.records if record.exc_info]
    assert [
        type(command).__name__ in record.getMessage()
        for command, record in zip((OPEN, FAILING, set_meta("key")), logged, strict=True)
    ] == [True] * 3
    assert await store.read(GetMeta(key="key")) == "x"


async def test_the_log_names_a_failed_subscriber_that_has_arguments_bound(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """Its arguments are whole components, which say nothing."""

    def fail(component: object, event: object) -> None:
        raise ValueError("a bug")

    store.events.on_committed(partial(fail, store))
    with caplog.at_level(logging.ERROR):
        await store.write(OPEN)
    [logged] = [record.getMessage() for record in caplog.records if record.exc_info]
    assert "fail failed after the commit" in logged
    assert repr(store) not in logged


async def test_a_command_whose_caller_was_cancelled_is_published(store: Store) -> None:
    """K2: cancelling the awaiter does not cancel the write, nor what follows from it."""
    recorder = Recorder(store)

    async def write(command: Command[Any]) -> None:
        await store.write(command)

    tasks = [asyncio.create_task(write(command)) for command in (set_meta("key"), FAILING)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert all(task.cancelled() for task in tasks)
    await store.write(set_meta("after"))
    assert recorder.keys == ["key", "after"]
    assert [each.command for each in recorder.failed] == [FAILING]


async def test_a_subscriber_to_some_types_is_told_about_those_only(store: Store) -> None:
    """Also one that subscribes after the store has published."""
    early = Recorder(store, SetMeta, BeginAttempt)
    await store.write(OPEN)
    await store.write(set_meta("key"))
    late = Recorder(store, OpenSession, RenameSession)
    await store.write(RENAME)
    with pytest.raises(StoreError):
        await store.write(FAILING)
    with pytest.raises(StoreError):
        await store.write(RenameSession(session_id=SessionId("none"), title="x"))
    assert [each.command for each in early.committed] == [set_meta("key")]
    assert [each.command for each in early.failed] == [FAILING]
    assert [each.command for each in late.committed] == [RENAME]
    assert [type(each.command) for each in late.failed] == [RenameSession]


async def test_a_subscriber_may_write(store: Store) -> None:
    """Its command is committed after the one that it was told about."""
    recorder = Recorder(store)

    def write(_: Committed) -> None:
        store.write(set_meta("second"))

    store.events.on_committed(write, OpenSession)
    await store.write(OPEN)
    await store.write(set_meta("third"))
    assert recorder.keys == ["second", "third"]


async def test_closing_publishes_what_was_queued(open_store: OpenStore, path: Path) -> None:
    """C7: nothing that is committed by the close goes untold."""
    async with open_store(path) as store:
        recorder = Recorder(store)
        for number in range(100):
            store.write(set_meta(number))
    assert recorder.keys == [str(number) for number in range(100)]


async def test_a_command_has_its_audit_row_in_its_own_commit(
    open_store: OpenStore, path: Path
) -> None:
    """K2: both are there, or neither is; the event is that of the command."""
    commits = 0
    errors: list[Exception] = []

    def count(point: CrashPoint) -> None:
        nonlocal commits
        if point is CrashPoint.BEFORE_COMMIT and errors:
            raise errors.pop()
        commits += point is CrashPoint.AFTER_COMMIT

    async with open_store(path, crash=count) as store:
        await store.write(OPEN)
        recorder = Recorder(store)
        errors.append(OSError("pulled out"))
        with pytest.raises(StoreError):
            await store.write(RENAME, audit=ENTRY)
        row = await store.read(GetSession(session_id=SESSION))
        assert row is not None and row.title != "new"
        assert await audit_rows(store) == 0
        before = commits
        await store.write(RENAME, audit=ENTRY)
        assert commits == before + 1
        row = await store.read(GetSession(session_id=SESSION))
        assert row is not None and row.title == "new"
        assert await audit_rows(store) == 1
        assert [each.command for each in recorder.committed] == [RENAME]


async def test_an_event_says_whether_the_audit_has_new_rows(store: Store) -> None:
    """K2: also of commands that share a commit, and beside one that fails."""
    await store.write(OPEN)
    recorder = Recorder(store)
    missing = RenameSession(session_id=SessionId("none"), title="x")
    writes: list[asyncio.Future[Any]] = [
        future_of(store.write(set_meta("before"))),
        future_of(store.write(RENAME, audit=ENTRY)),
        future_of(store.write(RENAME)),
        future_of(store.write(missing, audit=ENTRY)),
        future_of(store.write(SuspendSession(session_id=SESSION), audit=ENTRY)),
        future_of(store.write(SuspendSession(session_id=SESSION), audit=ENTRY)),
        future_of(store.write(RecordAudit(entry=ENTRY))),
    ]
    await asyncio.gather(*writes, return_exceptions=True)
    assert [each.audited for each in recorder.committed] == [False, True, False, True, False, True]
    assert await audit_rows(store) == 3


async def test_a_command_that_changes_nothing_has_no_audit_row(store: Store) -> None:
    """K2: its result is False; it is published with that."""
    await store.write(OPEN)
    assert await store.write(SuspendSession(session_id=SESSION), audit=ENTRY)
    recorder = Recorder(store)
    assert not await store.write(SuspendSession(session_id=SESSION), audit=ENTRY)
    with pytest.raises(StoreError):
        await store.write(RenameSession(session_id=SessionId("none"), title="x"), audit=ENTRY)
    assert await audit_rows(store) == 1
    assert [each.result for each in recorder.committed] == [False]
