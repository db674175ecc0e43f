"""A store that records which sessions each command touches."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import apsw

from holdfast.core.ports.command import Command
from holdfast.core.ports.store import HomeStore
from holdfast.store.sqlite.store import SqliteStore

T = TypeVar("T")

PERSONS_TABLES = {"approval_rules"}  # their session says where a rule was made, not whose it is


class TrackedWrite(NamedTuple):
    """A write. `rows`: the (table, session) pairs of the rows that it inserted, changed or deleted;
    `moved`: those of rows that belonged to another session before it."""

    name: str
    command: Command[Any] | None  # None: a statement of a test
    rows: frozenset[tuple[str, str]]
    moved: frozenset[tuple[str, str]]

    @property
    def sessions(self) -> set[str]:
        return {session for _, session in self.rows | self.moved}

    @property
    def of_other_sessions(self) -> set[tuple[str, str]]:
        """The pairs whose session is none of those that the command names."""
        named = () if self.command is None else self.command.scope.sessions
        return {
            (table, session)
            for table, session in self.rows | self.moved
            if table not in PERSONS_TABLES and session not in named
        }


class TrackingStore(HomeStore, Protocol):
    """Records in `tracked` what each write changed, in commit order."""

    tracked: list[TrackedWrite]

    async def __aenter__(self) -> "TrackingStore": ...


class SqliteTrackingStore(SqliteStore):
    """Implements `TrackingStore` by triggers on every table whose rows have a session."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.tracked: list[TrackedWrite] = []
        self._rows: set[tuple[str, str]] = set()
        self._moved: set[tuple[str, str]] = set()
        self._queue = self._submit
        self._submit = self._watch
        self._watching = False

    def _watch(
        self,
        work: Callable[[apsw.Cursor], T],
        command: Command[T] | None = None,
        *,
        deferred: bool = False,
    ) -> asyncio.Future[T]:
        name = "a statement" if command is None else type(command).__name__

        def run(cursor: apsw.Cursor) -> T:
            if not self._watching:
                self._install(cursor.connection)
            self._rows.clear()
            self._moved.clear()
            result = work(cursor)
            rows, moved = frozenset(self._rows), frozenset(self._moved - self._rows)
            self.tracked.append(TrackedWrite(name, command, rows, moved))
            return result

        return self._queue(run, command, deferred=deferred)

    def _install(self, db: apsw.Connection) -> None:
        self._watching = True
        db.create_scalar_function("holdfast_watched", self._record_row, 3)
        for table, column in _session_columns(db):
            for change, before, after in (
                ("INSERT", "NULL", f"new.{column}"),
                ("UPDATE", f"old.{column}", f"new.{column}"),
                ("DELETE", "NULL", f"old.{column}"),
            ):
                db.execute(
                    f"CREATE TEMP TRIGGER watched_{table}_{change} AFTER {change} ON main.{table}"
                    f" BEGIN SELECT holdfast_watched('{table}', {before}, {after}); END"
                )

    def _record_row(self, *found: Any) -> None:
        table, before, after = found
        if after:
            self._rows.add((table, after))
        if before and before != after:
            self._moved.add((table, before))


def _session_columns(db: apsw.Connection) -> Iterator[tuple[str, str]]:
    """Each table whose rows have a session, and the column that names it."""
    found = db.execute(
        "SELECT t.name FROM main.sqlite_schema t, pragma_table_info(t.name) c"
        " WHERE t.type = 'table' AND c.name = 'session_id'"
    )
    yield from [(str(table), "session_id") for (table,) in found]
    yield "sessions", "id"
