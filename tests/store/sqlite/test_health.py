"""The health of the store: what its commits and failures leave behind for those who look."""

from pathlib import Path

import pytest

from holdfast.core.errors import StoreError
from holdfast.store.sqlite.store import SqliteStore
from holdfast.store.sqlite.writer import WriterStatistics


class Ticking:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        return self.at


def test_a_failure_counts_until_something_is_committed_again() -> None:
    now = Ticking()
    health = WriterStatistics(now)
    assert health.status(waiting=0).committed_ago is None
    begun = health.begin_commit()
    now.at += 0.25
    health.commit_succeeded(begun)
    now.at += 2
    health.commit_failed(OSError("the disk is full"))
    now.at += 1
    facts = health.status(waiting=4)
    assert facts.failing and facts.error == "the disk is full"
    assert (facts.commits, facts.failures, facts.waiting) == (1, 1, 4)
    assert (facts.committed_ago, facts.failed_ago, facts.slowest) == (3.0, 1.0, 0.25)
    health.commit_succeeded(health.begin_commit())
    assert not health.status(waiting=0).failing


async def test_a_store_reports_its_schema_and_its_commits(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "state.db") as store:
        before = store.status
        await store.set_meta("a", "b")
        facts = store.status
    assert before.schema > 0 and facts.schema == before.schema
    assert facts.commits == before.commits + 1
    assert facts.committed_ago is not None and facts.commit_seconds > 0
    assert not facts.failing


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
