"""Opens connections to the database file: the writer's (which migrates it), readers, and one to
a file that no process writes."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import apsw

from holdfast.store.backup.restore_plan import finish_restore
from holdfast.store.sqlite import errors
from holdfast.store.sqlite.file_check import APPLICATION_ID, check_header, has_wal, quick_check
from holdfast.store.sqlite.schema import Migration, apply_migration, load_migrations
from holdfast.store.sqlite.totals import WriterConnection, read_marks

BUSY_MS = 5000  # a predecessor that is closing locks the file for a moment
_CACHE_KB = 16 * 1024
_WAL_LIMIT = 64 * 1024 * 1024

C = TypeVar("C", bound=apsw.Connection)
Redact = Callable[[str], str]


def _stop_memory_statistics() -> None:
    """Without them, SQLite takes no lock and counts nothing for each piece of memory. They can only
    be switched off while no connection is open."""
    if not apsw.connections():
        apsw.shutdown()
        apsw.config(apsw.SQLITE_CONFIG_MEMSTATUS, False)
        apsw.initialize()


_stop_memory_statistics()


def no_redaction(text: str) -> str:
    """For connections without known secrets."""
    return text


def open_writer(path: Path, *, vfs: str | None, redact: Redact = no_redaction) -> WriterConnection:
    """A connection to a store file, migrated to the newest schema. Raises `StoreUnusable` for any
    other file, and writes nothing to it. An interrupted restore is finished first, and a file is
    checked before it is migrated: writing to a damaged one makes it worse.

    `redact` is applied to the texts of audit rows, in the thread that writes."""
    finish_restore(path.parent)
    known = load_migrations()
    check_header(path, known=len(known), vfs=vfs)
    _create_file(path)
    try:
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        db = _connect(path, flags, vfs, kind=WriterConnection)
        try:
            _prepare(db, path, known)
            read_marks(db)
            db.create_scalar_function("holdfast_redacted", lambda *text: redact(str(*text)), 1)
        except BaseException:
            db.close()
            raise
        return db
    except apsw.Error as error:
        raise errors.to_open_error(error, path) from error


def open_reader(path: Path, *, vfs: str | None) -> apsw.Connection:
    try:
        db = _connect(path, apsw.SQLITE_OPEN_READONLY, vfs, kind=apsw.Connection)
        _set_pragmas(db)
    except apsw.Error as error:
        raise errors.to_open_error(error, path) from error
    return db


def open_immutable(path: Path) -> apsw.Connection:
    """Open a file that no process writes, without creating any file next to it."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    return apsw.Connection(f"{path.absolute().as_uri()}?immutable=1", flags=flags)


def _create_file(path: Path) -> None:
    """Creates an empty file with our mode: SQLite gives the WAL and its index the same one."""
    if not path.exists():
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except OSError as error:
            raise errors.to_open_error(error, path) from error


def _connect(path: Path, flags: int, vfs: str | None, *, kind: type[C]) -> C:
    # apsw's cache remembers its last n *uses*: a run of one kind of request would push the
    # statements of the others out of a small cache. 512 is its maximum.
    return kind(str(path), flags=flags | apsw.SQLITE_OPEN_NOMUTEX, vfs=vfs, statementcachesize=512)


def _set_pragmas(db: apsw.Connection) -> None:
    db.set_busy_timeout(BUSY_MS)
    db.pragma("cache_size", -_CACHE_KB)
    # Savepoints keep copies of changed pages: in memory, not in a temporary file.
    db.pragma("temp_store", "memory")
    # Query planner stability guarantee. Without it, a SQLite with STAT4 (as apsw's is) prepares
    # many statements again whenever a bound value changes, to choose a plan by statistics that we
    # do not collect: the target of a route took 20 µs instead of 2, the last message 5.6 not 1.2.
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)


def _prepare(db: apsw.Connection, path: Path, known: list[Migration]) -> None:
    if db.readonly("main"):
        raise errors.read_only_file(path)
    # The last connection that closes would checkpoint the WAL: not into a file that is refused.
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, has_wal(path))
    _set_pragmas(db)
    version = db.pragma("user_version")
    _check_application_id(db, path, version, len(known))
    if 0 < version < len(known) and (problems := quick_check(db.cursor())):
        raise errors.damaged_file(path, problems[0])
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
    mode = db.pragma("journal_mode", "wal")
    if mode != "wal":
        raise errors.wal_unsupported(path, mode)
    db.pragma("synchronous", "full")
    db.pragma("journal_size_limit", _WAL_LIMIT)
    db.pragma("secure_delete", 1)  # deleted data is overwritten: we promise that it is gone
    db.wal_autocheckpoint(0)
    for migration in known[version:]:
        apply_migration(db, migration)


def _check_application_id(db: apsw.Connection, path: Path, version: int, known: int) -> None:
    """Check the ids again with the WAL applied; an empty file becomes a store here.

    The id is set before a WAL exists, so that the header of the file itself always has it.
    """
    application = db.pragma("application_id")
    tables = db.execute("SELECT count(*) FROM sqlite_schema").get
    if application == 0 and tables == 0 and version == 0:
        db.pragma("application_id", APPLICATION_ID)
    elif application != APPLICATION_ID:
        raise errors.foreign_database(path, application)
    elif version > known:
        raise errors.newer_schema(path, version, known)
