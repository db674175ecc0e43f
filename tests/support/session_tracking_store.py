"""A store that records which sessions each write touches."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import apsw

from holdfast.store.sqlite.store import SqliteStore

T = TypeVar("T")


class SessionTrackingStore(SqliteStore):
    """Records in `touched` which sessions each write touched, by the name of the write."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.touched: dict[str, set[frozenset[str]]] = {}
        self._names: set[str] = set()
        self._queue = self._submit
        self._submit = self._watch
        self._watching = False

    def _watch(self, work: Callable[[apsw.Cursor], T]) -> asyncio.Future[T]:
        def run(cursor: apsw.Cursor) -> T:
            if not self._watching:
                self._install(cursor.connection)
            self._names.clear()
            result = work(cursor)
            found = frozenset(self._names)
            self.touched.setdefault(_name(work), set()).add(found)
            return result

        return self._queue(run)

    def _install(self, db: apsw.Connection) -> None:
        self._watching = True
        db.create_scalar_function("holdfast_watched", self._record_session, 1)
        for table, change, row in _changes(db):
            db.execute(
                f"CREATE TEMP TRIGGER watched_{table}_{change} AFTER {change} ON main.{table}"
                f" BEGIN SELECT holdfast_watched({row}); END"
            )

    def _record_session(self, *session_id: Any) -> None:
        self._names |= {name for name in session_id if name}


def _changes(db: apsw.Connection) -> Iterator[tuple[str, str, str]]:
    found = db.execute(
        "SELECT t.name FROM main.sqlite_schema t, pragma_table_info(t.name) c"
        " WHERE t.type = 'table' AND c.name = 'session_id'"
    ).fetchall()
    for column, tables in (("session_id", [str(name) for (name,) in found]), ("id", ["sessions"])):
        for table in tables:
            for change, row in (("INSERT", "new"), ("UPDATE", "old"), ("DELETE", "old")):
                yield table, change, f"{row}.{column}"


def _name(work: Callable[..., Any]) -> str:
    while isinstance(work, partial) and "work" in work.keywords:
        work = work.keywords["work"]  # an audited write: its audit row is in the same commit
    done = work.func if isinstance(work, partial) else work
    return f"{done.__module__.rpartition('.')[2]}.{done.__name__}"
