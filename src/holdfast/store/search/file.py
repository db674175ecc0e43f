"""The index's file: opened beside the store's, and made anew where it is not as it should be."""

import logging
import os
from pathlib import Path
from urllib.parse import quote

import apsw

from holdfast.store.sqlite.errors import DAMAGE_ERRORS

log = logging.getLogger(__name__)

INDEX_VERSION = 1
_BUSY_MS = 5000
_CACHE_KB = 8 * 1024
_FILE_SUFFIXES = ("", "-wal", "-shm", "-journal")

# `stamp` tells whether the message at a place is still the one that was indexed there: a
# conversation can be taken back and go on otherwise. FTS5's own secure-delete takes the words of
# what is deleted out of the index instead of marking them as gone.
_INDEX_SCHEMA = f"""
CREATE TABLE places (
    session_id TEXT PRIMARY KEY, seq INTEGER NOT NULL, stamp TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE entries (
    id INTEGER PRIMARY KEY, session_id TEXT NOT NULL, seq INTEGER NOT NULL,
    created_at REAL NOT NULL, UNIQUE (session_id, seq)
) STRICT;
CREATE VIRTUAL TABLE words USING fts5(said, done, tokenize = 'unicode61 remove_diacritics 2');
INSERT INTO words (words, rank) VALUES ('secure-delete', 1);
PRAGMA user_version = {INDEX_VERSION};
"""


def open_index(path: Path, *, state: Path, vfs: str | None) -> apsw.Connection:
    """A connection to the index, with the store attached as `state`, to be read alone.

    A file that is damaged, of another version or no index at all is replaced by an empty one.
    """
    try:
        db = _open_file(path)
    except DAMAGE_ERRORS as error:
        log.warning(
            "%s cannot be used (%s); it is made anew from the store.",
            path,
            error,
            extra={"action": "search_index_rebuilt"},
        )
        delete_index_files(path)
        db = _open_file(path)
    try:
        _attach_store(db, state, vfs)
    except BaseException:
        db.close()
        raise
    return db


def index_files(path: Path) -> list[Path]:
    """The file with all that SQLite keeps beside it."""
    return [path.with_name(path.name + suffix) for suffix in _FILE_SUFFIXES]


def delete_index_files(path: Path) -> None:
    for each in index_files(path):
        each.unlink(missing_ok=True)


def _open_file(path: Path) -> apsw.Connection:
    if not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI)
    try:
        db.set_busy_timeout(_BUSY_MS)
        db.pragma("journal_mode", "wal")
        # A power cut may cost the last entries, which are read again; never the file.
        db.pragma("synchronous", "normal")
        db.pragma("secure_delete", 1)
        db.pragma("cache_size", -_CACHE_KB)
        db.pragma("temp_store", "memory")
        _create_schema(db)
    except BaseException:
        db.close()
        raise
    return db


def _create_schema(db: apsw.Connection) -> None:
    version = db.pragma("user_version")
    if version == INDEX_VERSION:
        return
    if version != 0 or db.execute("SELECT count(*) FROM sqlite_schema").get:
        raise apsw.FormatError(f"it has version {version}, and version {INDEX_VERSION} is wanted")
    db.execute("BEGIN IMMEDIATE")
    db.execute(_INDEX_SCHEMA)
    db.execute("COMMIT")


def _attach_store(db: apsw.Connection, state: Path, vfs: str | None) -> None:
    more = f"&vfs={quote(vfs)}" if vfs else ""
    db.execute("ATTACH ? AS state", (f"file:{quote(str(state.absolute()))}?mode=ro{more}",))
