"""A store that records which sessions each command touches."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import apsw

from holdfast.core.ports.command import Command
from holdfast.store.sqlite.store import SqliteStore

T = TypeVar("T")

PERSONS_TABLES = {"approval_rules"}  # their session says where a rule was made, not whose it is


class TrackedWrite(NamedTuple):
    """A write, and the (table, session) pairs of the rows that it changed."""

    name: str
    command: Command[Any] | None  # None: a statement of a test
    rows: frozenset[tuple[str, str]]

    @property
    def sessions(self) -> set[str]:
        return {session for _, session in self.rows}

    @property
    def names_its_session(self) -> bool:
        """Whether the scope of the command is the session of every row that has one."""
        sessions = {session for table, session in self.rows if table not in PERSONS_TABLES}
        scope = None if self.command is None else self.command.scope.session_id
        return sessions <= {scope}


class SessionTrackingStore(SqliteStore):
    """Records in `tracked` what each write changed, in commit order."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.tracked: list[TrackedWrite] = []
        self._rows: set[tuple[str, str]] = set()
        self._queue = self._submit
        self._submit = self._watch
        self._watching = False

    @property
    def touched(self) -> dict[str, set[frozenset[str]]]:
        """The sessions that each write has touched, by the name of its command."""
        found: dict[str, set[frozenset[str]]] = {}
        for write in self.tracked:
            found.setdefault(write.name, set()).add(frozenset(write.sessions))
        return found

    def _watch(
        self, work: Callable[[apsw.Cursor], T], command: Command[T] | None = None
    ) -> asyncio.Future[T]:
        name = work.__name__ if command is None else type(command).__name__

        def run(cursor: apsw.Cursor) -> T:
            if not self._watching:
                self._install(cursor.connection)
            self._rows.clear()
            result = work(cursor)
            self.tracked.append(TrackedWrite(name, command, frozenset(self._rows)))
            return result

        return self._queue(run, command)

    def _install(self, db: apsw.Connection) -> None:
        self._watching = True
        db.create_scalar_function("holdfast_watched", self._record_row, 2)
        for table, change, row in _changes(db):
            db.execute(
                f"CREATE TEMP TRIGGER watched_{table}_{change}_{row.partition('.')[0]}"
                f" AFTER {change} ON main.{table}"
                f" BEGIN SELECT holdfast_watched('{table}', {row}); END"
            )

    def _record_row(self, *found: Any) -> None:
        table, session_id = found
        if session_id:
            self._rows.add((table, session_id))


def _changes(db: apsw.Connection) -> Iterator[tuple[str, str, str]]:
    found = db.execute(
        "SELECT t.name FROM main.sqlite_schema t, pragma_table_info(t.name) c"
        " WHERE t.type = 'table' AND c.name = 'session_id'"
    ).fetchall()
    for column, tables in (("session_id", [str(name) for (name,) in found]), ("id", ["sessions"])):
        for table in tables:
            for change, row in (
                ("INSERT", "new"),
                ("UPDATE", "old"),
                ("UPDATE", "new"),
                ("DELETE", "old"),
            ):
                yield table, change, f"{row}.{column}"
