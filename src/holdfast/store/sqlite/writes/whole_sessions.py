"""Whole sessions: opened before anything is said in them, renamed, taken in and deleted."""

from collections.abc import Sequence

import apsw

from holdfast.core.errors import StoreError
from holdfast.core.ids import InboxId, SessionId, SessionKey
from holdfast.core.sessions.session import ImportedSession
from holdfast.store.sqlite import rows
from holdfast.store.sqlite.writes import approvals, inbox, sessions, streams

_SETTLED = "state IN ('sent', 'failed')"
# A delivery that is under way is somebody's, who will settle it: its row stays, with nothing
# of the session in it.
_BLANKED = "text = '(deleted)', session_id = NULL, turn_id = NULL, inbox_id = NULL"

# Deleted by what is indexed, or not by their session alone. Every other table that names a
# session loses the session's rows, also one that is added later.
_HANDLED_SEPARATELY = ("inbox", "outbox", "parts", "steps", "turns", "approvals", "approval_rules")


def find_or_open_session(
    cursor: apsw.Cursor, *, session_id: SessionId, route: SessionKey, at: float
) -> SessionId:
    known = inbox.route_session(cursor, route)
    if known is not None:
        return known
    sessions.open_session(cursor, session_id, route=route, at=at)
    sessions.claim_route(cursor, route, session_id)
    return session_id


def rename_session(cursor: apsw.Cursor, *, session_id: SessionId, title: str) -> None:
    cursor.execute("UPDATE sessions SET title = ? WHERE id = ?", (title, session_id))
    if not cursor.connection.changes():
        raise StoreError(f"there is no session {session_id} to rename")


def replace_session_title(
    cursor: apsw.Cursor, *, session_id: SessionId, title: str, instead_of: str
) -> bool:
    cursor.execute(
        "UPDATE sessions SET title = ? WHERE id = ? AND title = ?", (title, session_id, instead_of)
    )
    return cursor.connection.changes() > 0


def end_session(cursor: apsw.Cursor, *, session_id: SessionId, at: float) -> None:
    cursor.execute(
        "UPDATE sessions SET ended_at = ? WHERE id = ? AND ended_at IS NULL", (at, session_id)
    )


def import_session(cursor: apsw.Cursor, *, imported: ImportedSession) -> None:
    """Its turns stay where they were: a record names none."""
    session_id, at = imported.id, imported.at
    sessions.open_session(cursor, session_id, route=imported.route, at=at, title=imported.title)
    sessions.claim_route(cursor, imported.route, session_id)
    cursor.executemany(
        "INSERT INTO messages (session_id, seq, created_at, body) VALUES (?, ?, ?, ?)",
        (
            (session_id, seq, record.created_at, rows.encode_json(record.message))
            for seq, record in enumerate(imported.records, 1)
        ),
    )


def delete_session(
    cursor: apsw.Cursor, *, session_id: SessionId, inbox_ids: Sequence[InboxId]
) -> None:
    """Found by what is indexed: deliveries by their turn and the message they answer, the
    messages of the inbox by the ids that a reader looked up."""
    found = cursor.execute("SELECT id FROM turns WHERE session_id = ?", (session_id,)).fetchall()
    asked = [(inbox_id,) for inbox_id in inbox_ids]
    aside = "turn_id IS NULL AND inbox_id IS NULL AND session_id"
    for column, bindings in (("turn_id", found), ("inbox_id", asked), (aside, [(session_id,)])):
        gone = f"DELETE FROM outbox WHERE {column} = ? AND {_SETTLED} RETURNING id"
        streams.delete_parts(cursor, cursor.executemany(gone, bindings).fetchall())
        cursor.executemany(f"UPDATE outbox SET {_BLANKED} WHERE {column} = ?", bindings)
    streams.detach_parts(cursor, session_id)
    for table, column in (("steps", "turn_id"), ("turns", "id")):
        cursor.executemany(f"DELETE FROM {table} WHERE {column} = ?", found)
    cursor.executemany("DELETE FROM inbox WHERE id = ?", asked)
    # First: the words of the audit may go only with a session that is gone.
    cursor.execute("DELETE FROM sessions WHERE id = ?", (session_id,))
    for table in _session_tables(cursor):
        cursor.execute(f"DELETE FROM {table} WHERE session_id = ?", (session_id,))
    approvals.delete_approvals(cursor, session_id)


def _session_tables(cursor: apsw.Cursor) -> list[str]:
    found = cursor.execute(
        "SELECT t.name FROM sqlite_schema t, pragma_table_info(t.name) c"
        " WHERE t.type = 'table' AND c.name = 'session_id'"
    ).fetchall()
    return [name for row in found if (name := str(row[0])) not in _HANDLED_SEPARATELY]
