"""A store of SQLite that this process does not open: its files are read, and not written."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from holdfast.core.ports.store import ClosedStoreCheck
from holdfast.core.turns.stop import StopRow
from holdfast.store.backup.restore_plan import finish_restore
from holdfast.store.sqlite import errors
from holdfast.store.sqlite.connection import open_immutable, open_reader
from holdfast.store.sqlite.file_check import SEARCH_FILE, check_header, has_wal, quick_check
from holdfast.store.sqlite.schema import load_migrations
from holdfast.store.sqlite.writes.gateway_stops import last_stops


class ClosedSqliteStore:
    """Implements the `ClosedStore` port for the database file at that path. Owns nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def software(self) -> str:
        return f"SQLite {apsw.sqlite_lib_version()}"

    @property
    def newest_schema(self) -> int:
        return len(load_migrations())

    def exists(self) -> bool:
        return self._path.exists() or has_wal(self._path)

    def files(self) -> list[Path]:
        found = (SEARCH_FILE, self._path.name)
        return [file for name in found for file in sorted(self._path.parent.glob(f"{name}*"))]

    def last_changed(self) -> float | None:
        wal = self._path.with_name(self._path.name + "-wal")
        times = [file.stat().st_mtime for file in (self._path, wal) if file.exists()]
        return max(times, default=None)

    def check_openable(self) -> None:
        check_header(self._path, known=self.newest_schema, vfs=None)

    def check(self) -> ClosedStoreCheck:
        known = self.newest_schema
        with open_closed_store(self._path) as db:
            version = db.pragma("user_version")
            if version > known:
                raise errors.newer_schema(self._path, version, known)
            problems = quick_check(db.cursor())
        return ClosedStoreCheck(problems=problems, needs_migration=version < known)

    def read_last_stop(self) -> StopRow | None:
        if not self._path.is_file():
            return None
        # A file without a WAL is complete by itself. Opened with mode=ro, it would get a WAL.
        mode = "mode=ro" if has_wal(self._path) else "immutable=1"
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        try:
            db = apsw.Connection(f"{self._path.absolute().as_uri()}?{mode}", flags=flags)
            try:
                found = last_stops(db.cursor(), 1)
            finally:
                db.close()
        except apsw.Error:
            return None  # without this table, damaged, or just being replaced
        return found[0] if found else None


@contextmanager
def open_closed_store(path: Path) -> Iterator[apsw.Connection]:
    """A read-only connection to a file that no process has open. An interrupted restore is
    finished first."""
    finish_restore(path.parent)
    check_header(path, known=len(load_migrations()), vfs=None)
    # A file that was closed has no WAL, and none should be created next to it.
    db = open_reader(path, vfs=None) if has_wal(path) else open_immutable(path)
    try:
        yield db
    except apsw.Error as error:
        raise errors.to_store_error(error, path) from error
    finally:
        db.close()
