"""The implementations of the store that the tests run with.

The contract suite (`tests/store`) runs for each of them. So does every test of the gateway and
every fault test: `implementation` is the one of the present test, see `each_store`.
"""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import apsw
import pytest
from tests.support.store_file import open_read_only
from tests.support.tracking_store import SqliteTrackingStore, TrackingStore

from holdfast.core.ports.command import Command, Query
from holdfast.core.ports.store import HomeStore, Store
from holdfast.store.implementations import STORES, OpenStore
from holdfast.store.sqlite.command_handlers import COMMAND_HANDLERS
from holdfast.store.sqlite.query_handlers import QUERY_HANDLERS
from holdfast.store.sqlite.store import SqliteStore

T = TypeVar("T")

Row = dict[str, Any]


class StoredRows(Protocol):
    """The rows of a store as of one moment, found without the process that owns it."""

    def table(self, name: str) -> list[Row]:
        """All rows of that table, in the order of its key."""
        ...


class StoreImplementation(NamedTuple):
    """`open` makes a store, and `open_tracking` one that records the owners of the rows that it
    writes. `stored_rows` reads what another process has written, and `copy_durable` copies it to
    another path, as it would be found after a `kill -9` right now. `commands` and `queries`: the
    types that have a handler."""

    name: str
    open: OpenStore
    open_tracking: Callable[[Path], TrackingStore]
    stored_rows: Callable[[Path], AbstractContextManager[StoredRows]]
    copy_durable: Callable[[Path, Path], None]
    commands: Callable[[Store], Collection[type[Command[Any]]]]
    queries: Callable[[Store], Collection[type[Query[Any]]]]

    def read_meta(self, path: Path) -> Mapping[str, str]:
        """The metadata, as a process finds it that does not own the store."""
        with self.stored_rows(path) as rows:
            return {row["key"]: row["value"] for row in rows.table("meta")}


class _SqliteRows:
    def __init__(self, cursor: apsw.Cursor) -> None:
        self._cursor = cursor

    def table(self, name: str) -> list[Row]:
        names = [row[1] for row in self._cursor.execute(f"PRAGMA table_info({name})")]
        found = self._cursor.execute(f"SELECT * FROM {name}")
        return [dict(zip(names, row, strict=True)) for row in found]


@contextmanager
def _sqlite_rows(path: Path) -> Iterator[StoredRows]:
    with open_read_only(path) as cursor:
        cursor.execute("BEGIN")
        yield _SqliteRows(cursor)


def _copy_sqlite(path: Path, to: Path) -> None:
    with open_read_only(path) as cursor:
        # An open read transaction prevents a WAL reset, so both copies are of one moment.
        cursor.execute("BEGIN; SELECT count(*) FROM sqlite_schema")
        for suffix in ("", "-wal"):
            shutil.copy(f"{path}{suffix}", f"{to}{suffix}")


def _sqlite_queries(store: Store) -> Collection[type[Query[Any]]]:
    assert isinstance(store, SqliteStore)
    return QUERY_HANDLERS.keys() | store._long_reads.keys()


IMPLEMENTATIONS: Mapping[str, StoreImplementation] = {
    each.name: each
    for each in (
        StoreImplementation(
            name="sqlite",
            open=STORES["sqlite"],
            open_tracking=SqliteTrackingStore,
            stored_rows=_sqlite_rows,
            copy_durable=_copy_sqlite,
            commands=lambda _: COMMAND_HANDLERS.keys(),
            queries=_sqlite_queries,
        ),
    )
}

_current = next(iter(IMPLEMENTATIONS))


def implementation() -> StoreImplementation:
    """The one that the present test runs with."""
    return IMPLEMENTATIONS[_current]


def open_store(path: Path, **options: Any) -> HomeStore:
    """A store of that implementation; `options` are those of `OpenStore`."""
    return implementation().open(path, **options)


def store_variables() -> dict[str, str]:
    """The environment of a process that is to run with that implementation."""
    return {"HOLDFAST_STORE": _current}


@pytest.fixture(params=[*IMPLEMENTATIONS], autouse=True)
def each_store(request: pytest.FixtureRequest) -> Iterator[StoreImplementation]:
    """Imported by the `conftest.py` of a folder, it runs each test there once for each
    implementation."""
    global _current
    before, _current = _current, request.param
    yield implementation()
    _current = before


def future_of(write: Awaitable[T]) -> asyncio.Future[T]:
    """The future of a write that the test does not await at once."""
    return asyncio.ensure_future(write)
