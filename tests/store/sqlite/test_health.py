"""The status of the store: its commits and failures."""

from pathlib import Path

import apsw
import pytest

from holdfast.core.errors import StoreError
from holdfast.core.ports.store_commands import SetMeta
from holdfast.store.sqlite.store import SqliteStore
from holdfast.store.sqlite.writer import WriterStatistics


class ManualTime:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        return self.at


def test_a_failure_counts_until_something_is_committed_again() -> None:
    now = ManualTime()
    health = WriterStatistics(now)
    assert health.status(waiting=0).committed_ago is None
    begun = health.begin_commit()
    now.at += 0.25
    health.commit_succeeded(begun)
    now.at += 2
    health.commit_failed(OSError("the disk is full"))
    now.at += 1
    status = health.status(waiting=4)
    assert status.failing and status.error == "the disk is full"
    assert (status.commits, status.failures, status.waiting) == (1, 1, 4)
    assert (status.committed_ago, status.failed_ago, status.slowest) == (3.0, 1.0, 0.25)
    health.commit_succeeded(health.begin_commit())
    assert not health.status(waiting=0).failing


async def test_a_store_reports_its_schema_and_its_commits(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "state.db") as store:
        before = store.status
        await store.write(SetMeta(key="a", value="b"))
        status = store.status
    assert before.schema > 0 and status.schema == before.schema
    assert status.commits == before.commits + 1
    assert status.committed_ago is not None and status.commit_seconds > 0
    assert not status.failing


async def test_a_rejected_write_does_not_count_as_a_store_failure(tmp_path: Path) -> None:
    def refuse(_: object) -> None:
        raise StoreError("there is no such row")

    def break_(_: object) -> None:
        raise OSError("the disk is gone")

    async with SqliteStore(tmp_path / "state.db") as store:
        with pytest.raises(StoreError):
            await store._writer.submit(refuse)
        assert store.status.failures == 0
        with pytest.raises(StoreError):
            await store._writer.submit(break_)
        assert store.status.failures == 1 and "the disk is gone" in store.status.error


async def test_sqlite_does_not_count_the_memory_that_it_takes(tmp_path: Path) -> None:
    """It would take a lock for each piece: 3 % of the CPU of a turn."""
    async with SqliteStore(tmp_path / "state.db"):
        assert apsw.memory_used() == 0
