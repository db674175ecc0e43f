"""The writer: group commit, savepoints, the queue, closing and copying (K2, K4, C7)."""

import asyncio
import os
import stat
import threading
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

from holdfast.core.crash_points import CrashPoint
from holdfast.core.errors import StoreError
from holdfast.core.ids import DeliveryId, PrincipalId
from holdfast.core.messages.inbox import Accepted, Inbound, InboxState
from holdfast.core.messages.source import Source, build_session_key
from holdfast.core.ops.backup import CopyProgress
from holdfast.core.ports.command import GATEWAY_SCOPE
from holdfast.core.ports.store_commands import AcceptMessage, BeginAttempt, SetMeta
from holdfast.core.ports.store_queries import (
    CheckIntegrity,
    CountInbox,
    GetInboxRow,
    GetMeta,
)
from holdfast.store.sqlite import writer
from holdfast.store.sqlite.store import SqliteStore
from holdfast.store.sqlite.writes import gateway_state


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    async with SqliteStore(tmp_path / "state.db") as opened:
        yield opened


def message(number: int, chat: str = "c") -> Inbound:
    source = Source(platform="sim", chat_id=chat, user_id="u")
    return Inbound(source=source, event_id=f"{chat}-{number}", message_id=str(number), text="hi")


def accept(store: SqliteStore, inbound: Inbound) -> asyncio.Future[Accepted]:
    return store.write(
        AcceptMessage(
            inbound=inbound,
            route=build_session_key(inbound.source),
            principal=PrincipalId("u"),
            at=1.0,
        )
    )


async def test_concurrent_writes_share_a_commit(tmp_path: Path) -> None:
    """K2: concurrent writers share an fsync."""
    commits: list[CrashPoint] = []

    def crash(point: CrashPoint) -> None:
        commits.append(point)

    async with SqliteStore(tmp_path / "state.db", crash=crash) as store:
        await asyncio.gather(*(accept(store, message(n)) for n in range(500)))
    assert commits.count(CrashPoint.BEFORE_COMMIT) == commits.count(CrashPoint.AFTER_COMMIT)
    assert commits.count(CrashPoint.AFTER_COMMIT) < 100


@pytest.fixture
def long_deferral(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but another write, or closing, commits a deferred one."""
    monkeypatch.setattr(writer, "_MAX_DEFERRAL", 600.0)


def write_meta(store: SqliteStore, key: str, *, deferred: bool) -> asyncio.Future[None]:
    write = partial(gateway_state.set_meta, key=key, value="value")
    return store._writer.submit(write, deferred=deferred)


@pytest.mark.usefixtures("long_deferral")
async def test_a_deferred_write_is_committed_with_the_next_one(store: SqliteStore) -> None:
    """K2: one transaction for both, in the order in which they were submitted."""
    before = store.status.commits
    deferred = [write_meta(store, key, deferred=True) for key in ("a", "b")]
    await asyncio.sleep(0.1)  # nothing is to happen; it would within a hundredth of this
    assert store.status.commits == before and await store.read(GetMeta(key="a")) is None
    order: list[str] = []
    for future in deferred:
        future.add_done_callback(lambda _: order.append("deferred"))
    urgent = write_meta(store, "c", deferred=False)
    urgent.add_done_callback(lambda _: order.append("urgent"))
    await asyncio.gather(*deferred, urgent)
    assert store.status.commits == before + 1
    assert order == ["deferred", "deferred", "urgent"]
    assert [await store.read(GetMeta(key=key)) for key in "abc"] == ["value"] * 3


async def test_a_deferred_write_is_committed_on_its_own_after_a_while(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K2: its awaiter resumes when it is durable, and that is soon; a second one beside it does
    not delay it."""
    monkeypatch.setattr(writer, "_MAX_DEFERRAL", 0.2)
    before = store.status.commits
    async with asyncio.timeout(30):
        await write_meta(store, "a", deferred=True)
    assert store.status.commits == before + 1
    first = write_meta(store, "b", deferred=True)
    async with asyncio.timeout(30):
        while not first.done():
            write_meta(store, "c", deferred=True)
            await asyncio.sleep(0.01)
    assert await store.read(GetMeta(key="b")) == "value"


@pytest.mark.usefixtures("long_deferral")
async def test_closing_the_store_commits_deferred_writes(tmp_path: Path) -> None:
    """K2: also where no one awaits them."""
    async with SqliteStore(tmp_path / "state.db") as store:
        write = write_meta(store, "a", deferred=True)
    assert write.done() and write.exception() is None
    async with SqliteStore(tmp_path / "state.db") as store:
        assert await store.read(GetMeta(key="a")) == "value"


@pytest.mark.usefixtures("long_deferral")
async def test_truncating_the_wal_commits_deferred_writes_first(store: SqliteStore) -> None:
    write = write_meta(store, "a", deferred=True)
    await store.erase_deleted()
    assert write.done() and await store.read(GetMeta(key="a")) == "value"


async def test_a_failed_write_does_not_undo_its_neighbour(tmp_path: Path) -> None:
    """K2: the writes before and after it are done once each, in one transaction, although the
    shared transaction had to be rolled back."""
    commits: list[CrashPoint] = []
    gate = threading.Event()

    def crash(point: CrashPoint) -> None:
        gate.wait(10)
        commits.append(point)

    async with SqliteStore(tmp_path / "state.db", crash=crash) as store:
        first = store.write(SetMeta(key="before", value="1"))
        after_the_gate: list[asyncio.Future[Any]] = [
            store.write(SetMeta(key="good", value="1")),
            store.write(
                BeginAttempt(
                    delivery_id=DeliveryId("no such delivery"), scope=GATEWAY_SCOPE, at=1.0
                )
            ),
            accept(store, message(1)),
            store.write(SetMeta(key="bad", value="\ud800")),
            store.write(SetMeta(key="last", value="1")),
        ]
        gate.set()
        await first
        outcomes = await asyncio.gather(*after_the_gate, return_exceptions=True)
        assert [isinstance(outcome, StoreError) for outcome in outcomes] == [
            False,
            True,
            False,
            True,
            False,
        ]
        assert len(commits) <= 4  # two commits at the most: the neighbours shared one
        assert await store.read(GetMeta(key="good")) == await store.read(GetMeta(key="last")) == "1"
        assert await store.read(GetMeta(key="bad")) is None
        assert (await store.read(CountInbox()))[InboxState.QUEUED] == 1
        assert isinstance(outcomes[2], Accepted)
        assert await store.read(GetInboxRow(inbox_id=outcomes[2].row.id)) == outcomes[2].row


async def test_closing_writes_what_is_queued(tmp_path: Path) -> None:
    """C7: the queue is drained, the WAL checkpointed, every handle and thread closed."""
    path = tmp_path / "state.db"
    async with SqliteStore(path) as store:
        writes = [store.write(SetMeta(key=f"key {number}", value="value")) for number in range(200)]
    assert all(write.done() and write.exception() is None for write in writes)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["state.db"]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("store")]
    open_files = [os.readlink(link) for link in _links("/proc/self/fd")]
    assert not [name for name in open_files if name.startswith(str(path))]
    async with SqliteStore(path) as again:
        assert await again.read(GetMeta(key="key 199")) == "value"


def _links(folder: str) -> list[str]:
    paths = (os.path.join(folder, name) for name in os.listdir(folder))
    return [path for path in paths if os.path.islink(path)]


async def test_the_wal_is_checkpointed_when_the_writer_is_idle(
    store: SqliteStore, tmp_path: Path
) -> None:
    """K2: the WAL does not grow without limit, and no write waits for the checkpoint."""
    big = "x" * 100_000
    for number in range(60):
        await store.write(SetMeta(key=f"key {number}", value=big))
    grown = (tmp_path / "state.db-wal").stat().st_size
    assert grown > 4_000_000
    async with asyncio.timeout(30):
        while (tmp_path / "state.db").stat().st_size < grown // 2:
            await asyncio.sleep(0.01)
    await store.write(SetMeta(key="small", value="x"))
    await store.write(SetMeta(key="small", value="y"))
    assert (tmp_path / "state.db-wal").stat().st_size <= grown


async def test_the_database_is_readable_by_its_owner_only(
    store: SqliteStore, tmp_path: Path
) -> None:
    """K1: conversations are private; the WAL and its index have the same mode as the file."""
    await store.write(SetMeta(key="key", value="value"))
    modes = {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert modes == {0o600}


async def test_a_check_of_an_intact_file_finds_nothing(store: SqliteStore) -> None:
    """K3: `quick_check`, on a connection of its own, beside serving."""
    await store.write(SetMeta(key="key", value="value"))
    assert await store.read(CheckIntegrity()) == []


def locks_of(path: Path) -> int:
    """The POSIX locks that this process has on a file, as the kernel knows them."""
    inode = str(path.stat().st_ino)
    lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return sum(line[4] == str(os.getpid()) and line[5].endswith(f":{inode}") for line in lines)


async def test_a_copy_of_a_live_store_is_a_consistent_snapshot(
    store: SqliteStore, tmp_path: Path
) -> None:
    """K4: all acknowledged writes, none after a gap; and no write waits."""
    for number in range(20):
        await store.write(SetMeta(key=f"before {number}", value="x" * 200_000))
    progress: list[CopyProgress] = []
    copying = asyncio.ensure_future(store.copy_to(tmp_path / "copy.db", progress=progress.append))
    during = 0
    while not copying.done():
        await store.write(SetMeta(key=f"during {during:05}", value="x"))
        during += 1
    await copying
    assert during > 5 and progress[-1].done == progress[-1].total
    db = apsw.Connection(str(tmp_path / "copy.db"))
    keys = [str(key) for (key,) in db.execute("SELECT key FROM meta ORDER BY key")]
    assert db.execute("PRAGMA quick_check").get == "ok"
    db.close()
    assert keys[:20] == sorted(f"before {number}" for number in range(20))
    assert keys[20:] == [f"during {number:05}" for number in range(len(keys) - 20)]
    assert await store.read(GetMeta(key=f"during {during - 1:05}")) == "x"


async def test_a_copy_takes_no_lock_from_the_store(store: SqliteStore, tmp_path: Path) -> None:
    """K2: POSIX drops all locks of a process on a file when it closes any handle of it."""
    await store.write(SetMeta(key="key", value="value"))
    files = [tmp_path / "state.db", tmp_path / "state.db-shm"]
    before = await settled_locks(files)
    assert sum(before)
    await store.copy_to(tmp_path / "copy.db", progress=lambda copied: None)
    assert await settled_locks(files) == before


async def settled_locks(files: list[Path]) -> list[int]:
    """The locks that stay: a checkpoint takes another one for a moment."""
    found: list[int] = [locks_of(file) for file in files]
    before: list[int] = []
    while found != before:
        await asyncio.sleep(0.2)
        found, before = [locks_of(file) for file in files], found
    return found


async def test_a_cancelled_copy_ends_at_once(store: SqliteStore, tmp_path: Path) -> None:
    """K4: the store stays usable, and can be closed."""
    for number in range(20):
        await store.write(SetMeta(key=f"key {number}", value="x" * 200_000))
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    def progress(copied: CopyProgress) -> None:
        loop.call_soon_threadsafe(begun.set)

    copying = asyncio.ensure_future(store.copy_to(tmp_path / "copy.db", progress=progress))
    await begun.wait()
    copying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await copying
    await store.write(SetMeta(key="after", value="x"))


async def test_a_copy_replaces_no_file(store: SqliteStore, tmp_path: Path) -> None:
    """K4: an existing file is not overwritten."""
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(StoreError):
        await store.copy_to(tmp_path / "mine", progress=lambda copied: None)
    assert (tmp_path / "mine").read_text() == "precious"
