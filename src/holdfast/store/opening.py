"""Opening the file: whether it is ours to write, how connections are set, and migrations."""

import os
import re
import struct
from importlib import resources
from pathlib import Path

import apsw
import msgspec

from holdfast.core.errors import StoreUnusable
from holdfast.store import faults

APPLICATION_ID = 0x686F6C64  # "hold"
_HEADER = 100
_MAGIC = b"SQLite format 3\0"
_BUSY_MS = 5000  # a predecessor that is closing holds the file for a moment
_CACHE_KB = 16 * 1024
_LOG_LIMIT = 64 * 1024 * 1024


class Migration(msgspec.Struct, frozen=True):
    number: int
    sql: str


def migrations() -> list[Migration]:
    """The numbered steps of the schema, in order; a gap or a repeat is a broken package."""
    folder = resources.files("holdfast.store") / "migrations"
    found = [
        Migration(int(file.name[:4]), file.read_text(encoding="utf-8"))
        for file in folder.iterdir()
        if re.fullmatch(r"\d{4}_\w+\.sql", file.name)
    ]
    found.sort(key=lambda migration: migration.number)
    if [migration.number for migration in found] != list(range(1, len(found) + 1)):
        raise StoreUnusable("this installation is incomplete: store/migrations has a gap")
    return found


def open_writer(path: Path, *, vfs: str | None) -> apsw.Connection:
    """A connection to a file that is ours, at the newest schema; `StoreUnusable` otherwise,
    with nothing written."""
    known = migrations()
    inspect(path, known=len(known), vfs=vfs)
    _make(path)
    try:
        db = _connect(path, apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE, vfs)
        try:
            _prepare(db, path, known)
        except BaseException:
            db.close()
            raise
        return db
    except faults.DAMAGE as error:
        raise faults.damaged(path, str(error)) from error
    except apsw.Error as error:
        raise faults.cannot_open(path, error) from error


def open_reader(path: Path, *, vfs: str | None) -> apsw.Connection:
    try:
        db = _connect(path, apsw.SQLITE_OPEN_READONLY, vfs)
        _tune(db)
    except apsw.Error as error:
        raise faults.cannot_open(path, error) from error
    return db


def inspect(path: Path, *, known: int, vfs: str | None) -> None:
    """Refuses what is not ours by its first bytes, before SQLite may so much as touch it.

    Read through SQLite's own file layer: a plain open and close of the file would drop the
    locks of any connection this process has to it.
    """
    if not path.parent.is_dir():
        raise faults.no_folder(path)
    if path.exists() and not path.is_file():
        raise faults.not_a_file(path)
    header, size = _header(path, vfs)
    if size == 0:
        if _has_log(path):
            raise faults.lost(path, _log(path))
        return
    if not header.startswith(_MAGIC) or len(header) < _HEADER:
        raise faults.no_database(path)
    if path.with_name(path.name + "-journal").exists():
        return  # its creation was cut: SQLite rolls it back, and what is left is looked at then
    _inspect_header(path, header, known)
    if not _has_log(path):
        _inspect_size(path, header, size)


def _log(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def _has_log(path: Path) -> bool:
    return _log(path).exists() and _log(path).stat().st_size > 0


def _header(path: Path, vfs: str | None) -> tuple[bytes, int]:
    if not path.exists() or path.stat().st_size == 0:
        return b"", 0
    flags = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY
    try:
        file = apsw.VFSFile(vfs or "", str(path), [flags, 0])
    except (apsw.Error, OSError) as error:
        raise faults.cannot_open(path, error) from error
    try:
        size = file.xFileSize()
        return file.xRead(min(_HEADER, size), 0), size
    except (apsw.Error, OSError) as error:
        raise faults.cannot_open(path, error) from error
    finally:
        file.xClose()


def _inspect_header(path: Path, header: bytes, known: int) -> None:
    version, application = _uint(header, 60), _uint(header, 68)
    if application != APPLICATION_ID:
        raise faults.foreign(path, application)
    if version > known:
        raise faults.newer(path, version, known)


def _inspect_size(path: Path, header: bytes, size: int) -> None:
    page = struct.unpack_from(">H", header, 16)[0]
    page = 65536 if page == 1 else page
    pages = _uint(header, 28)
    if size < pages * page:
        raise faults.damaged(path, f"it should have {pages * page} bytes and has {size}")


def _uint(header: bytes, offset: int) -> int:
    value: int = struct.unpack_from(">I", header, offset)[0]
    return value


def _make(path: Path) -> None:
    """An empty file, made here for its mode: SQLite gives its log and index the same."""
    if not path.exists():
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except OSError as error:
            raise faults.cannot_open(path, error) from error


def _connect(path: Path, flags: int, vfs: str | None) -> apsw.Connection:
    # apsw's cache remembers its last n *uses*, so that a run of one kind of command pushes
    # the statements of the others out of a small one; 512 is its limit.
    return apsw.Connection(
        str(path), flags=flags | apsw.SQLITE_OPEN_NOMUTEX, vfs=vfs, statementcachesize=512
    )


def _tune(db: apsw.Connection) -> None:
    db.set_busy_timeout(_BUSY_MS)
    db.pragma("cache_size", -_CACHE_KB)
    # Savepoints copy the pages they change aside: into memory, not into a temporary file.
    db.pragma("temp_store", "memory")


def _prepare(db: apsw.Connection, path: Path, known: list[Migration]) -> None:
    if db.readonly("main"):
        raise faults.read_only(path)
    # A connection that closes last would fold the log into the file: not into a file that
    # is refused.
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, _has_log(path))
    _tune(db)
    version = db.pragma("user_version")
    _recognise(db, path, version, len(known))
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
    mode = db.pragma("journal_mode", "wal")
    if mode != "wal":
        raise faults.no_log(path, mode)
    db.pragma("synchronous", "full")
    db.pragma("journal_size_limit", _LOG_LIMIT)
    db.wal_autocheckpoint(0)
    for migration in known[version:]:
        migrate(db, migration)


def _recognise(db: apsw.Connection, path: Path, version: int, known: int) -> None:
    """What the log says counts besides the header; an empty file becomes ours here.

    The id is set before the log exists, so that the file's own first bytes always carry it.
    """
    application = db.pragma("application_id")
    tables = db.execute("SELECT count(*) FROM sqlite_schema").get
    if application == 0 and tables == 0 and version == 0:
        db.pragma("application_id", APPLICATION_ID)
    elif application != APPLICATION_ID:
        raise faults.foreign(path, application)
    elif version > known:
        raise faults.newer(path, version, known)


def migrate(db: apsw.Connection, migration: Migration) -> None:
    """All of it and its number, or nothing."""
    db.execute("BEGIN IMMEDIATE")
    try:
        db.execute(migration.sql)
        db.pragma("user_version", migration.number)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
