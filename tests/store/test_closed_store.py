"""Contract of `ClosedStore`: what is known of a store that this process does not open."""

import os
from pathlib import Path

import pytest
from tests.support.stores import OpenStore, StoreImplementation

from holdfast.core.errors import StoreUnusable
from holdfast.core.ports.store import ClosedStore
from holdfast.core.ports.store_commands import RecordStop
from holdfast.core.turns.stop import StopKind, StopOrder, StopRequester, StopRow
from holdfast.store.implementations import CLOSED_STORES, STORES


@pytest.fixture
def closed(implementation: StoreImplementation, path: Path) -> ClosedStore:
    return CLOSED_STORES[implementation.name](path)


def a_stop(name: str, at: float) -> StopRow:
    order = StopOrder(kind=StopKind.STOP, by=StopRequester.CLI, at=at)
    return StopRow(id=name, order=order, version="1", parked=2)


def files(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in sorted(folder.iterdir())}


def test_every_implementation_can_be_asked_while_it_is_closed() -> None:
    assert CLOSED_STORES.keys() == STORES.keys()


def test_a_home_without_a_store_has_none(closed: ClosedStore, tmp_path: Path) -> None:
    """K3: asking creates nothing, and does not stop a first start."""
    assert not closed.exists()
    assert closed.last_changed() is None
    assert closed.read_last_stop() is None
    assert closed.files() == []
    closed.check_openable()
    assert files(tmp_path) == {}


async def test_a_closed_store_is_checked_and_read_and_not_changed(
    closed: ClosedStore, open_store: OpenStore, path: Path, tmp_path: Path
) -> None:
    """K3, K5: its last stop is what `holdfast status` shows of a gateway that is down."""
    async with open_store(path) as store:
        await store.write(RecordStop(row=a_stop("first", 1.0)))
        await store.write(RecordStop(row=a_stop("second", 2.0)))
    before = files(tmp_path)
    closed.check_openable()
    checked = closed.check()
    assert (checked.problems, checked.needs_migration) == ([], False)
    assert closed.read_last_stop() == a_stop("second", 2.0)
    assert closed.exists()
    assert closed.last_changed() is not None
    assert files(tmp_path) == before


async def test_the_files_of_a_store_are_readable_by_their_owner_only(
    closed: ClosedStore, open_store: OpenStore, path: Path
) -> None:
    """`holdfast doctor` checks the mode of these: they are all that a store leaves in a home."""
    async with open_store(path):
        found = set(closed.files())
        assert {each for each in path.parent.iterdir() if each.is_file()} == found
        assert not [each for each in found if os.stat(each).st_mode & 0o077]


async def test_the_last_stop_is_read_while_a_gateway_has_the_store_open(
    closed: ClosedStore, open_store: OpenStore, path: Path
) -> None:
    """K2: without a lock, so that a start is not delayed."""
    async with open_store(path) as store:
        await store.write(RecordStop(row=a_stop("first", 1.0)))
        assert closed.read_last_stop() == a_stop("first", 1.0)
        await store.write(RecordStop(row=a_stop("second", 2.0)))
        assert closed.read_last_stop() == a_stop("second", 2.0)


def test_a_file_that_is_no_store_cannot_be_opened_and_has_no_last_stop(
    closed: ClosedStore, path: Path
) -> None:
    """K3: `holdfast status` answers all the same."""
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(StoreUnusable):
        closed.check_openable()
    assert closed.read_last_stop() is None


def test_the_database_is_named_for_people(closed: ClosedStore) -> None:
    name, version = closed.software.split(" ", 1)
    assert name and version[0].isdigit()
    assert closed.newest_schema > 0
