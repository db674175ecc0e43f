"""Maintenance: scheduled backups, their status, and the check of a store after an unclean stop."""

import asyncio
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.faults.backup_homes import leave_in_wal, make_backup, make_home

from holdfast.core.config.settings import BackupSettings
from holdfast.core.errors import HoldfastError, StoreDamaged
from holdfast.core.ops.status import BackupStatus
from holdfast.core.ports.store_commands import SetMeta
from holdfast.service.maintenance import BackupCommand, BackupScheduler, Maintenance
from holdfast.store.sqlite.store import SqliteStore
from holdfast.system.lock import HomeLock

HOUR = 3600.0


class FakeTime:
    """A clock that sleeping moves; during the fourth sleep it jumps by `jump`."""

    def __init__(self, now: float = 1e9, *, jump: float = 0) -> None:
        self.at = now
        self._jump = jump
        self.sleeps: list[float] = []

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.at += seconds + (self._jump if len(self.sleeps) == 4 else 0)
        await asyncio.sleep(0)


class NoMinuteHistory:
    async def open(self) -> None: ...
    async def close(self) -> None: ...


class FakeBackupMaker:
    """Makes `count` backups and then blocks; records when each was made."""

    def __init__(self, time: FakeTime, *, count: int, failures: int = 0) -> None:
        self._time, self._count, self._failures = time, count, failures
        self.made: list[float] = []
        self.done = asyncio.Event()

    async def make(self) -> dict[str, Any]:
        if len(self.made) == self._count:
            self.done.set()
            await asyncio.Event().wait()
        self.made.append(self._time.now())
        if len(self.made) <= self._failures:
            raise HoldfastError("the disk is full")
        return {"path": f"/b/{len(self.made)}.tar.gz", "bytes": 7, "made_at": self._time.now()}


async def no_wait() -> None:
    """No turn runs."""


async def run_until_done(backups: BackupScheduler, maker: FakeBackupMaker) -> None:
    task = asyncio.ensure_future(backups.run())
    async with asyncio.timeout(20):
        await maker.done.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def make_scheduler(
    folder: Path, time: FakeTime, maker: FakeBackupMaker, *, every_hours: float = 24
) -> BackupScheduler:
    settings = BackupSettings(every_hours=every_hours)
    return BackupScheduler(
        settings, folder=folder, maker=maker, wait_until_idle=no_wait, clock=time, sleep=time.sleep
    )


async def test_a_backup_is_made_soon_after_the_first_start_and_then_every_day(
    tmp_path: Path,
) -> None:
    time = FakeTime()
    start, maker = time.at, FakeBackupMaker(time, count=3)
    backups = make_scheduler(tmp_path, time, maker)
    await run_until_done(backups, maker)
    assert [at - start for at in maker.made] == [600, 600 + 24 * HOUR, 600 + 48 * HOUR]
    assert backups.status.name == "3.tar.gz" and backups.status.bytes == 7


def test_a_restart_does_not_postpone_the_next_backup(tmp_path: Path) -> None:
    """Due by the newest backup, not by the start of this process."""
    home = make_home(tmp_path)
    newest = make_backup(home)
    time = FakeTime(newest.stat().st_mtime + 20 * HOUR)

    async def run() -> list[float]:
        start, maker = time.at, FakeBackupMaker(time, count=1)
        await run_until_done(make_scheduler(home / "backups", time, maker), maker)
        return [at - start for at in maker.made]

    [after] = asyncio.run(run())
    assert 3.9 * HOUR < after < 4.1 * HOUR


async def test_a_failed_backup_is_reported_and_retried_within_the_hour(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    time = FakeTime()
    maker = FakeBackupMaker(time, count=1, failures=1)
    backups = make_scheduler(tmp_path, time, maker)
    task = asyncio.ensure_future(run_until_done(backups, maker))
    async with asyncio.timeout(20):
        await maker.done.wait()
    assert backups.status.problem == "the disk is full" and "the disk is full" in caplog.text
    assert time.at - maker.made[0] == HOUR
    await task


async def test_a_slow_refresh_does_not_overwrite_a_newer_status(tmp_path: Path) -> None:
    """A slow refresh, and one that begins after a backup was made."""
    time, begun, go = FakeTime(), threading.Event(), threading.Event()

    def newest(folder: Path) -> BackupStatus:
        if begun.is_set():
            return BackupStatus(name="made.tar.gz", made_at=time.at)
        begun.set()
        assert go.wait(60)
        return BackupStatus()

    settings, maker = BackupSettings(), FakeBackupMaker(time, count=0)
    backups = BackupScheduler(
        settings,
        folder=tmp_path,
        maker=maker,
        wait_until_idle=no_wait,
        clock=time,
        find_newest=newest,
    )
    slow = asyncio.create_task(backups.refresh())
    await asyncio.to_thread(begun.wait, 60)
    quick = asyncio.create_task(backups.refresh())
    await asyncio.wait({quick}, timeout=0.3)
    go.set()
    await asyncio.gather(slow, quick)
    assert backups.status.name == "made.tar.gz"


def test_a_manual_backup_counts_as_the_last_one(tmp_path: Path) -> None:
    """K4: it is the last one from then on, and the next is due by it; removed, it is not."""
    home = make_home(tmp_path)

    async def run() -> None:
        time = FakeTime()
        backups = make_scheduler(home / "backups", time, FakeBackupMaker(time, count=0))
        await backups.refresh()
        assert (backups.status.name, backups.status.next_at) == ("", time.at + 600)
        made = await asyncio.to_thread(make_backup, home)
        time.at = made.stat().st_mtime + HOUR
        await backups.refresh()
        assert backups.status.name == made.name and backups.status.bytes == made.stat().st_size
        assert backups.status.next_at == pytest.approx(time.at + 23 * HOUR, abs=120)
        made.unlink()
        await backups.refresh()
        assert (backups.status.name, backups.status.next_at) == ("", time.at + 600)

    asyncio.run(run())


@pytest.mark.parametrize("jump", [-400 * 24 * HOUR, 400 * 24 * HOUR])
async def test_a_clock_jump_delays_no_backup_beyond_the_interval(
    tmp_path: Path, jump: float
) -> None:
    """K4: set back by a year, the next one is not a year away."""
    time = FakeTime(2e9, jump=jump)
    maker = FakeBackupMaker(time, count=3)
    await run_until_done(make_scheduler(tmp_path, time, maker), maker)
    assert sum(time.sleeps) <= 600 + 4 * 24 * HOUR and len(time.sleeps) > 4


async def test_a_backup_waits_until_no_turn_runs(tmp_path: Path) -> None:
    time = FakeTime()
    idle, maker = asyncio.Event(), FakeBackupMaker(time, count=1)

    async def wait_for_idle() -> None:
        await idle.wait()

    backups = BackupScheduler(
        BackupSettings(),
        folder=tmp_path,
        maker=maker,
        wait_until_idle=wait_for_idle,
        clock=time,
        sleep=time.sleep,
    )
    task = asyncio.ensure_future(run_until_done(backups, maker))
    async with asyncio.timeout(20):
        while backups.status.next_at is None or time.at < backups.status.next_at:
            await asyncio.sleep(0)
    for _ in range(20):
        await asyncio.sleep(0)
    assert maker.made == []
    idle.set()
    await task
    assert len(maker.made) == 1


async def test_no_backup_is_made_when_backups_are_off(tmp_path: Path) -> None:
    time = FakeTime()
    backups = make_scheduler(tmp_path, time, FakeBackupMaker(time, count=0), every_hours=0)
    await backups.run()
    assert backups.status.next_at is None


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield make_home(tmp_path)


def test_a_failed_backup_command_reports_its_error(home: Path) -> None:
    """No gateway serves the home, and this process has its lock: what it prints is the error."""
    program = BackupCommand(home, folder=home / "backups", keep=2, environ={})
    with HomeLock(home), pytest.raises(HoldfastError, match="is in use"):
        asyncio.run(program.make())


def overwrite_first_page(path: Path, table: str) -> None:
    """Damage a table that opening the store does not read."""
    db = apsw.Connection(str(path), apsw.SQLITE_OPEN_READONLY)
    page, size = db.execute(
        "SELECT rootpage, page_size FROM sqlite_schema, pragma_page_size WHERE name = ?", (table,)
    ).fetchall()[0]
    db.close()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)


@pytest.mark.parametrize("damaged", [False, True])
async def test_a_store_is_checked_after_an_unclean_stop(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damaged: bool
) -> None:
    """K3: in the background, after an unclean stop; damage stops the writing."""
    path = tmp_path / "state.db"
    async with SqliteStore(path) as store:
        await store.write(SetMeta(key="key", value="value"))
    if damaged:
        overwrite_first_page(path, "jobs")
    leave_in_wal(tmp_path, "late", "left")
    time = FakeTime()
    async with SqliteStore(path) as store:
        with caplog.at_level(logging.INFO):
            backups = make_scheduler(tmp_path, time, FakeBackupMaker(time, count=0))
            maintenance = Maintenance(store, backups=backups, minute_history=NoMinuteHistory())
            maintenance.start()
            async with asyncio.timeout(20):
                ends = ("check of state.db passed", "is damaged")
                while not any(text in caplog.text for text in ends):
                    await asyncio.sleep(0.01)
            await maintenance.close()
        assert ("is damaged" in caplog.text) == damaged
        if damaged:
            with pytest.raises(StoreDamaged):
                await store.write(SetMeta(key="after", value="x"))
        else:
            await store.write(SetMeta(key="after", value="x"))
