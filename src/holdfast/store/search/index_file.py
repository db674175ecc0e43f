"""The file of the search index (`search.db`): opened or rebuilt, brought up to date with the
store, and cleared of a session."""

import logging
import os
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import apsw
import msgspec

from holdfast.core.ids import SessionId
from holdfast.store.search.queries import searchable_text, separate_words
from holdfast.store.sqlite import rows
from holdfast.store.sqlite.errors import DAMAGE_ERRORS

log = logging.getLogger(__name__)

INDEX_VERSION = 1
_BATCH = 500  # messages in one transaction, which blocks the checkpoints of the store's WAL
_STAMP = "created_at || ':' || length(body)"
_BUSY_MS = 5000
_CACHE_KB = 8 * 1024
_FILE_SUFFIXES = ("", "-wal", "-shm", "-journal")

# `stamp` shows whether the message at a position is still the one that was indexed: a conversation
# can be undone and continue differently. FTS5's secure-delete removes the words of deleted entries
# from the index instead of marking them as deleted.
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
# Up to which of the store's `message_changes` everything is indexed; written after those entries,
# in the same file. No row: the index is being built, or is of a version without this table.
_POSITION_SCHEMA = """
CREATE TABLE IF NOT EXISTS position (
    one INTEGER PRIMARY KEY CHECK (one = 1), number INTEGER NOT NULL, token INTEGER NOT NULL
) STRICT;
"""


class ChangePosition(NamedTuple):
    """A row of the store's `message_changes`."""

    number: int
    token: int


def open_index(path: Path, *, state: Path, vfs: str | None) -> apsw.Connection:
    """A connection to the index, with the store attached read-only as `state`.

    A file that is damaged, of another version or not an index is replaced by an empty one.
    """
    try:
        db = _open_file(path)
    except DAMAGE_ERRORS as error:
        log.warning(
            "Search index %s cannot be used (%s); rebuilding it from the store.",
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
    """The file and all that SQLite keeps next to it."""
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
        # A power cut may cost the last entries, which are indexed again; never the file.
        db.pragma("synchronous", "normal")
        db.pragma("secure_delete", 1)
        db.pragma("cache_size", -_CACHE_KB)
        db.pragma("temp_store", "memory")
        db.register_fts5_function("row_count", lambda words, *_: words.row_count)
        _create_schema(db)
    except BaseException:
        db.close()
        raise
    return db


def _create_schema(db: apsw.Connection) -> None:
    version = db.pragma("user_version")
    if version == INDEX_VERSION:
        db.execute(_POSITION_SCHEMA)
        return
    if version != 0 or db.execute("SELECT count(*) FROM sqlite_schema").get:
        raise apsw.FormatError(f"it has version {version}, and version {INDEX_VERSION} is needed")
    db.execute("BEGIN IMMEDIATE")
    db.execute(_INDEX_SCHEMA)
    db.execute(_POSITION_SCHEMA)
    db.execute("COMMIT")


def _attach_store(db: apsw.Connection, state: Path, vfs: str | None) -> None:
    more = f"&vfs={quote(vfs)}" if vfs else ""
    db.execute("ATTACH ? AS state", (f"file:{quote(str(state.absolute()))}?mode=ro{more}",))


def saved_position(cursor: apsw.Cursor) -> ChangePosition | None:
    """Up to where the index has followed the store. None: that is not known, or the store is not
    the one that it followed: another copy of the file has other tokens from where the two differ,
    and a change from long ago has no row any more."""
    found = cursor.execute(
        "SELECT number, token FROM position JOIN state.message_changes USING (number, token)"
    ).fetchone()
    return None if found is None else ChangePosition(*found)


def save_position(cursor: apsw.Cursor, position: ChangePosition) -> None:
    cursor.execute("INSERT OR REPLACE INTO position VALUES (1, ?, ?)", position)


def last_change(cursor: apsw.Cursor) -> ChangePosition:
    (found,) = cursor.execute(
        "SELECT number, token FROM state.message_changes ORDER BY number DESC LIMIT 1"
    ).fetchall()
    return ChangePosition(*found)  # type: ignore[arg-type]  # as the columns are


def changes_since(
    cursor: apsw.Cursor, position: ChangePosition
) -> tuple[ChangePosition, dict[SessionId, bool]] | None:
    """The last change, and the sessions that have changed, in the order of their first change;
    True: messages of it were changed or deleted. The session of `position` is among them: while it
    stays the last one, what is added to it makes no new row. None: the row of `position` is gone.
    """
    found = cursor.execute(
        "SELECT number, token, session, rewritten FROM state.message_changes"
        " WHERE number >= ? ORDER BY number",
        (position.number,),
    ).fetchall()
    if not found or found[0][:2] != position:
        return None
    changed: dict[SessionId, bool] = {}
    for number, _, session, rewritten in found:
        session_id = SessionId(str(session))
        seen = number == position.number
        changed[session_id] = changed.get(session_id, False) or bool(rewritten and not seen)
    return ChangePosition(*found[-1][:2]), changed  # type: ignore[arg-type]  # as the columns are


def outdated_sessions(cursor: apsw.Cursor) -> list[SessionId]:
    """Sessions that are not fully indexed, and indexed sessions that do not exist any more. Reads
    all sessions: for an index whose position is not known."""
    found = cursor.execute(
        f"SELECT s.id FROM state.sessions s LEFT JOIN places p ON p.session_id = s.id"
        f" WHERE (SELECT seq || '/' || {_STAMP} FROM state.messages m"
        " WHERE m.session_id = s.id ORDER BY seq DESC LIMIT 1) IS NOT p.seq || '/' || p.stamp"
        " UNION ALL SELECT p.session_id FROM places p"
        " WHERE NOT EXISTS (SELECT 1 FROM state.sessions s WHERE s.id = p.session_id)"
    )
    return [SessionId(str(row[0])) for row in found]


def index_next_batch(cursor: apsw.Cursor, session_id: SessionId) -> bool:
    """Index the next messages of a session, or remove a deleted one; True: there are more."""
    if not cursor.execute("SELECT 1 FROM state.sessions WHERE id = ?", (session_id,)).fetchone():
        delete_session(cursor, session_id)
        return False
    last_seq = _indexed_up_to(cursor, session_id)
    found = cursor.execute(
        f"SELECT seq, body, created_at, {_STAMP} FROM state.messages"
        " WHERE session_id = ? AND seq > ? ORDER BY seq LIMIT ?",
        (session_id, last_seq, _BATCH),
    ).fetchall()
    for seq, body, created_at, _ in found:
        _index_message(cursor, session_id, int(seq), str(body), float(created_at))  # type: ignore[arg-type]  # as the columns are
    if found:
        cursor.execute(
            "INSERT OR REPLACE INTO places VALUES (?, ?, ?)",
            (session_id, found[-1][0], found[-1][3]),
        )
    return len(found) == _BATCH


def _indexed_up_to(cursor: apsw.Cursor, session_id: SessionId) -> int:
    """The last indexed message. If it was deleted or replaced since, the session is indexed again
    from the start."""
    known = cursor.execute(
        "SELECT seq, stamp FROM places WHERE session_id = ?", (session_id,)
    ).fetchone()
    if known is None:
        return 0
    still = cursor.execute(
        f"SELECT 1 FROM state.messages WHERE session_id = ? AND seq = ? AND {_STAMP} = ?",
        (session_id, *known),
    ).fetchone()
    if still is None:
        delete_session(cursor, session_id)
        return 0
    return int(known[0])


def _index_message(
    cursor: apsw.Cursor, session_id: SessionId, seq: int, body: str, at: float
) -> None:
    try:
        searchable = searchable_text(rows.decode_message(body))
    except msgspec.MsgspecError:
        return  # an unreadable message must not prevent the indexing of others
    if searchable is None or not searchable.text.strip():
        return
    cursor.execute(
        "INSERT INTO entries (session_id, seq, created_at) VALUES (?, ?, ?)", (session_id, seq, at)
    )
    cursor.execute(
        "INSERT INTO words (rowid, said, done) VALUES (?, ?, ?)",
        (
            cursor.connection.last_insert_rowid(),
            separate_words(searchable.message_text),
            separate_words(searchable.tool_text),
        ),
    )


def count_entries(cursor: apsw.Cursor) -> int:
    """The words of each entry are a row of FTS5, which keeps the number of its rows."""
    return int(str(cursor.execute("SELECT row_count(words) FROM words LIMIT 1").get or 0))


def delete_session(cursor: apsw.Cursor, session_id: SessionId) -> None:
    """Removes every word of a session from the index."""
    cursor.execute(
        "DELETE FROM words WHERE rowid IN (SELECT id FROM entries WHERE session_id = ?)",
        (session_id,),
    )
    for table in ("entries", "places"):
        cursor.execute(f"DELETE FROM {table} WHERE session_id = ?", (session_id,))
