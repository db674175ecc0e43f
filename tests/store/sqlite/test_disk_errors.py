"""Disk errors: each failed write raises, no write is lost silently, and the store recovers (K2)."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from holdfast.core.crash_points import CrashPoint
from holdfast.core.errors import StoreError, StoreUnusable
from holdfast.core.ports.store_commands import SetMeta
from holdfast.core.ports.store_queries import CheckIntegrity, GetMeta, GetSearchStatus
from holdfast.store.sqlite.store import SqliteStore


class FailingVfs(apsw.VFS):
    """A VFS whose operations fail as `fault` says: "full", "write", "sync" or "read"."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "")
        self.name = name
        self.fault = ""
        self.faults_raised = 0
        self.synced = 0

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return FailingVfsFile(self, name, flags)

    def raise_fault(self, *faults: str) -> None:
        if self.fault in faults:
            self.faults_raised += 1
            if self.fault == "full":
                raise apsw.FullError("database or disk is full")
            raise apsw.IOError("disk I/O error")


class FailingVfsFile(apsw.VFSFile):
    def __init__(
        self, disk: FailingVfs, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> None:
        super().__init__("", name, flags)
        self.disk = disk

    def xRead(self, amount: int, offset: int) -> bytes:
        self.disk.raise_fault("read")
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:
        self.disk.raise_fault("full", "write")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        self.disk.raise_fault("sync")
        super().xSync(flags)
        self.disk.synced += 1


@pytest.fixture
def disk() -> Iterator[FailingVfs]:
    disk = FailingVfs("a failing disk")
    yield disk
    disk.unregister()


FAULTS = pytest.mark.parametrize(
    ("fault", "message"), [("full", "is full"), ("write", "disk failed"), ("sync", "disk failed")]
)


async def test_every_commit_is_synced_and_concurrent_writes_share_a_sync(
    disk: FailingVfs, tmp_path: Path
) -> None:
    """K2: synced before its awaiter resumes; concurrent writes share the sync."""
    async with SqliteStore(tmp_path / "state.db", vfs=disk.name) as store:
        for number in range(5):
            before = disk.synced
            await store.write(SetMeta(key=f"key {number}", value="x"))
            assert disk.synced > before
        before = disk.synced
        await asyncio.gather(
            *(store.write(SetMeta(key=f"many {number}", value="x")) for number in range(300))
        )
        assert 0 < disk.synced - before < 60


@FAULTS
async def test_a_write_that_the_disk_refuses_fails_and_the_next_one_works(
    disk: FailingVfs, tmp_path: Path, fault: str, message: str
) -> None:
    """K2: a failed COMMIT fails its awaiter; what was durable stays, and no restart is needed."""
    path = tmp_path / "state.db"
    async with SqliteStore(path, vfs=disk.name) as store:
        await store.write(SetMeta(key="before", value="kept"))
        disk.fault = fault
        for _ in range(3):
            with pytest.raises(StoreError, match=message) as refusal:
                await store.write(SetMeta(key="during", value="lost"))
            assert str(path) in str(refusal.value)
        assert await store.read(GetMeta(key="before")) == "kept"
        disk.fault = ""
        await store.write(SetMeta(key="after", value="kept"))
        assert await store.read(GetMeta(key="during")) is None
        assert await store.read(CheckIntegrity()) == []
    assert disk.faults_raised
    async with SqliteStore(path) as store:
        assert (
            await store.read(GetMeta(key="before"))
            == await store.read(GetMeta(key="after"))
            == "kept"
        )
        assert await store.read(GetMeta(key="during")) is None


@FAULTS
async def test_every_write_of_a_failed_commit_fails(
    disk: FailingVfs, tmp_path: Path, fault: str, message: str
) -> None:
    """K2: no awaiter resumes as if its write had succeeded."""
    committed, gate = threading.Event(), threading.Event()

    def crash(point: CrashPoint) -> None:
        if point is CrashPoint.AFTER_COMMIT:
            committed.set()
            gate.wait(10)

    async with SqliteStore(tmp_path / "state.db", vfs=disk.name, crash=crash) as store:
        first = store.write(SetMeta(key="before", value="kept"))
        await asyncio.to_thread(committed.wait, 10)
        sharing = [store.write(SetMeta(key=f"key {number}", value="x")) for number in range(20)]
        disk.fault = fault
        gate.set()
        await first
        outcomes = await asyncio.gather(*sharing, return_exceptions=True)
        disk.fault = ""
        assert all(isinstance(outcome, StoreError) for outcome in outcomes)
        assert message in str(outcomes[0])
        for number in range(20):
            assert await store.read(GetMeta(key=f"key {number}")) is None
        assert await store.read(GetMeta(key="before")) == "kept"


async def test_a_disk_error_in_mid_transaction_loses_no_write_silently(
    disk: FailingVfs, tmp_path: Path
) -> None:
    """K2: a write too big for the cache is written before the commit, and SQLite rolls back the
    whole transaction; every other write of it gets its real outcome."""
    async with SqliteStore(tmp_path / "state.db", vfs=disk.name) as store:
        disk.fault = "full"
        writes = [store.write(SetMeta(key=f"key {number}", value="x")) for number in range(5)]
        writes.append(store.write(SetMeta(key="huge", value="x" * 40_000_000)))
        writes += [store.write(SetMeta(key=f"key {number}", value="x")) for number in range(5, 10)]
        outcomes = await asyncio.gather(*writes, return_exceptions=True)
        disk.fault = ""
        del outcomes[5]
        await store.write(SetMeta(key="after", value="kept"))
        for number, outcome in enumerate(outcomes):
            if isinstance(outcome, StoreError):
                assert "is full" in str(outcome)
            expected = None if isinstance(outcome, StoreError) else "x"
            assert await store.read(GetMeta(key=f"key {number}")) == expected
        assert await store.read(GetMeta(key="huge")) is None
        assert await store.read(GetMeta(key="after")) == "kept"
        assert await store.read(CheckIntegrity()) == []


@FAULTS
async def test_closing_on_a_failing_disk_keeps_what_was_durable(
    disk: FailingVfs, tmp_path: Path, fault: str, message: str
) -> None:
    """C7: the checkpoint failed, and the WAL still has everything."""
    async with SqliteStore(tmp_path / "state.db", vfs=disk.name) as store:
        await store.write(SetMeta(key="before", value="kept"))
        disk.fault = fault
    disk.fault = ""
    async with SqliteStore(tmp_path / "state.db", vfs=disk.name) as store:
        assert await store.read(GetMeta(key="before")) == "kept"
        assert await store.read(CheckIntegrity()) == []


@FAULTS
async def test_a_handle_that_fails_to_close_keeps_no_other_open(
    disk: FailingVfs, tmp_path: Path, fault: str, message: str
) -> None:
    """C7: neither of the database nor of the search index."""
    async with SqliteStore(tmp_path / "state.db", vfs=disk.name) as store:
        await store.write(SetMeta(key="before", value="kept"))
        await store.read(GetSearchStatus())
        assert {path.name for path in _open_files(tmp_path)} >= {"state.db", "search.db"}
        disk.fault = fault
    assert not _open_files(tmp_path)


def _open_files(folder: Path) -> list[Path]:
    """The files in a folder that this process has open."""
    links = Path("/proc/self/fd").iterdir()
    return [link.resolve() for link in links if link.resolve().parent == folder]


@FAULTS
async def test_a_failed_wal_checkpoint_stops_no_write(
    disk: FailingVfs, tmp_path: Path, caplog: pytest.LogCaptureFixture, fault: str, message: str
) -> None:
    """K2: a failed checkpoint is logged, and retried later."""
    armed: list[str] = []

    def crash(point: CrashPoint) -> None:
        if point is CrashPoint.AFTER_COMMIT and armed:  # before the writer is idle and checkpoints
            disk.fault = armed.pop()

    async with SqliteStore(tmp_path / "state.db", vfs=disk.name, crash=crash) as store:
        armed.append(fault)
        await store.write(SetMeta(key="big", value="x" * 5_000_000))
        async with asyncio.timeout(30):
            while "WAL checkpoint" not in caplog.text:
                await asyncio.sleep(0.01)
        disk.fault = ""
        await store.write(SetMeta(key="after", value="kept"))
        assert await store.read(GetMeta(key="after")) == "kept"


@FAULTS
async def test_a_store_that_cannot_be_created_can_be_created_later(
    disk: FailingVfs, tmp_path: Path, fault: str, message: str
) -> None:
    """K5: no partial file blocks the next start."""
    disk.fault = fault
    with pytest.raises(StoreUnusable, match=message):
        async with SqliteStore(tmp_path / "state.db", vfs=disk.name):
            pass
    disk.fault = ""
    async with SqliteStore(tmp_path / "state.db", vfs=disk.name) as store:
        await store.write(SetMeta(key="key", value="value"))
        assert await store.read(GetMeta(key="key")) == "value"


async def test_a_failed_copy_is_reported_and_the_store_stays_usable(
    disk: FailingVfs, tmp_path: Path
) -> None:
    """K4: no backup is made of a partial file."""
    async with SqliteStore(tmp_path / "state.db", vfs=disk.name) as store:
        await store.write(SetMeta(key="big", value="x" * 5_000_000))
        disk.fault = "read"
        with pytest.raises(StoreError, match="disk failed"):
            await store.copy_to(tmp_path / "copy.db", progress=lambda copied: None)
        disk.fault = ""
        await store.write(SetMeta(key="after", value="kept"))
        assert await store.read(CheckIntegrity()) == []
