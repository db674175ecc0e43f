"""Checks a database file without writing to it: whether its header is that of a store of ours,
and SQLite's `quick_check`."""

import struct
from pathlib import Path

import apsw

from holdfast.store.sqlite import errors

APPLICATION_ID = 0x686F6C64  # "hold"
SEARCH_FILE = "search.db"  # built from a store, so it never exists before one
_HEADER = 100
_MAGIC = b"SQLite format 3\0"
_FIRST_PAGE = 4096
_IN_MAIN = "*** in database main ***\n"  # the prefix of SQLite's report


def check_header(path: Path, *, known: int, vfs: str | None) -> None:
    """Refuse a file that is not a store by its first bytes, before SQLite opens it.

    Read through SQLite's own file layer: a plain open and close of the file would drop the locks of
    all connections that this process has to it.
    """
    if not path.parent.is_dir():
        raise errors.folder_missing(path)
    if path.exists() and not path.is_file():
        raise errors.not_a_file(path)
    header, size = _read_header(path, vfs)
    if size == 0:
        _check_empty(path)
        return
    if not header.startswith(_MAGIC) or len(header) < _HEADER:
        raise errors.not_a_database(path)
    if size <= _FIRST_PAGE and path.with_name(path.name + "-journal").exists():
        return  # its creation was interrupted: SQLite rolls it back, and it is checked after that
    _check_ids(path, header, known)
    if not has_wal(path):
        _check_size(path, header, size)


def _check_empty(path: Path) -> None:
    """Accepts an empty file in a new home or after an interrupted start, but not after data."""
    if has_wal(path):
        raise errors.main_file_missing(path, _wal_path(path))
    if path.exists() and path.with_name(SEARCH_FILE).exists():
        raise errors.main_file_emptied(path, SEARCH_FILE)


def _wal_path(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def has_wal(path: Path) -> bool:
    return _wal_path(path).exists() and _wal_path(path).stat().st_size > 0


def _read_header(path: Path, vfs: str | None) -> tuple[bytes, int]:
    if not path.exists() or path.stat().st_size == 0:
        return b"", 0
    flags = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY
    try:
        file = apsw.VFSFile(vfs or "", str(path), [flags, 0])
    except (apsw.Error, OSError) as error:
        raise errors.to_open_error(error, path) from error
    try:
        size = file.xFileSize()
        return file.xRead(min(_HEADER, size), 0), size
    except (apsw.Error, OSError) as error:
        raise errors.to_open_error(error, path) from error
    finally:
        file.xClose()


def _check_ids(path: Path, header: bytes, known: int) -> None:
    version, application = _uint(header, 60), _uint(header, 68)
    if application != APPLICATION_ID:
        raise errors.foreign_database(path, application)
    if version > known:
        raise errors.newer_schema(path, version, known)


def _check_size(path: Path, header: bytes, size: int) -> None:
    page = struct.unpack_from(">H", header, 16)[0]
    page = 65536 if page == 1 else page
    pages = _uint(header, 28)
    if size < pages * page:
        raise errors.damaged_file(path, f"it should have {pages * page} bytes and has {size}")


def _uint(header: bytes, offset: int) -> int:
    value: int = struct.unpack_from(">I", header, offset)[0]
    return value


def quick_check(cursor: apsw.Cursor) -> list[str]:
    """The problems that SQLite finds in the file."""
    try:
        rows = cursor.execute("PRAGMA quick_check")
        # One row may have a hundred lines, each with a problem of its own.
        lines = [line for row in rows for line in str(row[0]).removeprefix(_IN_MAIN).splitlines()]
    except apsw.CorruptError as error:
        return [str(error)]
    return [] if lines == ["ok"] else lines
