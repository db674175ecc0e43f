"""The implementations of the store port that the contract suite of this folder runs against."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from tests.support.store_file import open_read_only

from holdfast.core.crash_points import CrashHook, no_crash
from holdfast.core.ports.command import Command, Query
from holdfast.core.ports.store import Store
from holdfast.store.sqlite.command_handlers import COMMAND_HANDLERS
from holdfast.store.sqlite.query_handlers import QUERY_HANDLERS
from holdfast.store.sqlite.store import SqliteStore

T = TypeVar("T")


class OpenStore(Protocol):
    """Creates a store on that path. `crash` is called before and after each commit, and fails the
    commit if it raises before it."""

    def __call__(self, path: Path, *, crash: CrashHook = no_crash) -> Store: ...


class StoreImplementation(NamedTuple):
    """`read_meta`: the metadata on that path, as a process finds it that does not own the store.
    `commands` and `queries`: the types that have a handler."""

    open: OpenStore
    read_meta: Callable[[Path], Mapping[str, str]]
    commands: Callable[[Store], Collection[type[Command[Any]]]]
    queries: Callable[[Store], Collection[type[Query[Any]]]]


def _read_sqlite_meta(path: Path) -> Mapping[str, str]:
    with open_read_only(path) as cursor:
        return {
            str(key): str(value) for key, value in cursor.execute("SELECT key, value FROM meta")
        }


def _sqlite_queries(store: Store) -> Collection[type[Query[Any]]]:
    assert isinstance(store, SqliteStore)
    return QUERY_HANDLERS.keys() | store._long_reads.keys()


IMPLEMENTATIONS: Mapping[str, StoreImplementation] = {
    "sqlite": StoreImplementation(
        open=SqliteStore,
        read_meta=_read_sqlite_meta,
        commands=lambda _: COMMAND_HANDLERS.keys(),
        queries=_sqlite_queries,
    )
}


def future_of(write: Awaitable[T]) -> asyncio.Future[T]:
    """The future of a write that the test does not await at once."""
    return asyncio.ensure_future(write)
