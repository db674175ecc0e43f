"""Changes to whole sessions: rename, end, expire, import, delete, undo, fork, resume, retry; and
pruning of old rows."""

import apsw

from holdfast.core.errors import StoreError
from holdfast.core.ids import InboxId, SessionId, SessionKey
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.sessions.session import ForkEffect, ImportedSession, Resubmission, UndoEffect
from holdfast.store.sqlite import rows
from holdfast.store.sqlite.writes import approvals, inbox, outbox, session_state, transcript

_SETTLED = "state IN ('sent', 'failed')"
# A delivery that is being sent is settled by its sender: its row stays, without the contents of the
# session.
_BLANKED = "text = '(deleted)', session_id = NULL, turn_id = NULL, inbox_id = NULL"

# Deleted by what is indexed, or not by their session alone. Every other table that names a
# session loses the session's rows, also one that is added later.
_HANDLED_SEPARATELY = ("inbox", "outbox", "parts", "steps", "turns", "approvals", "approval_rules")
_PRUNE_BATCH = 500  # rows in one request: other writes must not wait long for it


def find_or_open_session(
    cursor: apsw.Cursor, *, session_id: SessionId, route: SessionKey, at: float
) -> SessionId:
    known = inbox.route_session(cursor, route)
    if known is not None:
        return known
    session_state.open_session(cursor, session_id, route=route, at=at)
    session_state.claim_route(cursor, route, session_id)
    return session_id


def rename_session(cursor: apsw.Cursor, *, session_id: SessionId, title: str) -> None:
    cursor.execute("UPDATE sessions SET title = ? WHERE id = ?", (title, session_id))
    if not cursor.connection.changes():
        raise StoreError(
            "session {session_id} does not exist: nothing was renamed", session_id=session_id
        )


def replace_session_title(
    cursor: apsw.Cursor, *, session_id: SessionId, title: str, instead_of: str
) -> bool:
    cursor.execute(
        "UPDATE sessions SET title = ? WHERE id = ? AND title = ?", (title, session_id, instead_of)
    )
    return cursor.connection.changes() > 0


def import_session(cursor: apsw.Cursor, *, imported: ImportedSession) -> None:
    """Imports a transcript. Its turns are not imported: its records name none."""
    session_id, at = imported.id, imported.at
    session_state.open_session(
        cursor, session_id, route=imported.route, at=at, title=imported.title
    )
    session_state.claim_route(cursor, imported.route, session_id)
    cursor.executemany(
        "INSERT INTO messages (session_id, seq, created_at, body) VALUES (?, ?, ?, ?)",
        (
            (session_id, seq, record.created_at, rows.encode_json(record.message))
            for seq, record in enumerate(imported.records, 1)
        ),
    )
    transcript.note_added_messages(cursor, session_id)
    for seq, record in enumerate(imported.records, 1):
        transcript.note_taints(cursor, session_id, record.message, seq=seq, at=record.created_at)


def delete_session(cursor: apsw.Cursor, *, session_id: SessionId) -> None:
    """Deletes a session and its rows, which are found by indexes: deliveries by their turn and the
    message they answer, and parts by their delivery."""
    found = cursor.execute("SELECT id FROM turns WHERE session_id = ?", (session_id,)).fetchall()
    asked = inbox.session_rows(cursor, session_id)
    without_turn = "turn_id IS NULL AND inbox_id IS NULL AND session_id"
    for column, bindings in (
        ("turn_id", found),
        ("turn_id IS NULL AND inbox_id", asked),
        (without_turn, [(session_id,)]),
    ):
        deletion = f"DELETE FROM outbox WHERE {column} = ? AND {_SETTLED} RETURNING id"
        outbox.delete_parts(cursor, cursor.executemany(deletion, bindings).fetchall())
        blanking = f"UPDATE outbox SET {_BLANKED} WHERE {column} = ? RETURNING id"
        outbox.detach_parts(cursor, cursor.executemany(blanking, bindings).fetchall())
    for table, column in (("steps", "turn_id"), ("turns", "id")):
        cursor.executemany(f"DELETE FROM {table} WHERE {column} = ?", found)
    cursor.executemany("DELETE FROM inbox WHERE id = ?", asked)
    # First: the words of the audit may go only with a session that is gone.
    cursor.execute("DELETE FROM sessions WHERE id = ?", (session_id,))
    for table in _session_tables(cursor):
        cursor.execute(f"DELETE FROM {table} WHERE session_id = ?", (session_id,))
    approvals.delete_approvals(cursor, session_id)


def forget_changes(cursor: apsw.Cursor, *, session_id: SessionId) -> None:
    """Remove the id of a deleted session from the log of changes, which is short. Rows stay: the
    search index knows its place by them."""
    cursor.execute("UPDATE message_changes SET session = '' WHERE session = ?", (session_id,))


def _session_tables(cursor: apsw.Cursor) -> list[str]:
    found = cursor.execute(
        "SELECT t.name FROM sqlite_schema t, pragma_table_info(t.name) c"
        " WHERE t.type = 'table' AND c.name = 'session_id'"
    ).fetchall()
    return [name for row in found if (name := str(row[0])) not in _HANDLED_SEPARATELY]


def undo_messages(cursor: apsw.Cursor, undo: UndoEffect, *, at: float) -> None:
    _require_no_open_turn(cursor, undo.session_id)
    last = transcript.next_seq(cursor, undo.session_id) - 1
    if not 1 <= undo.from_seq <= last:
        raise StoreError(
            "session {session_id} has no message {from_seq} to undo",
            session_id=undo.session_id,
            from_seq=undo.from_seq,
        )
    cursor.execute(
        "INSERT INTO undone (session_id, from_seq, to_seq, undone_at) VALUES (?, ?, ?, ?)",
        (undo.session_id, undo.from_seq, last, at),
    )
    # A summary that was taken back covers nothing; an earlier one is found in the transcript.
    cursor.execute(
        "DELETE FROM compactions WHERE session_id = ? AND seq >= ?",
        (undo.session_id, undo.from_seq),
    )


def fork_session(cursor: apsw.Cursor, fork: ForkEffect, *, route: SessionKey, at: float) -> None:
    """Copies a session. Messages keep their seq, by which a summary names what it covers, and name
    no turn: turns and their costs stay with the other session."""
    _require_no_open_turn(cursor, fork.of)
    session_state.open_session(
        cursor, fork.session_id, route=route, at=at, title=fork.title, principal=fork.principal
    )
    pair = (fork.session_id, fork.of)
    cursor.execute(
        "INSERT INTO messages (session_id, seq, created_at, body)"
        f" SELECT ?1, seq, created_at, body FROM {rows.messages_not_undone()}"
        " WHERE session_id = ?2",
        pair,
    )
    transcript.note_added_messages(cursor, fork.session_id)
    for table, columns in (
        ("prompts", "text, shape"),
        ("compactions", "seq, covers, covered_seq"),
        ("taints", "label, principal, seq, added_at"),
    ):
        cursor.execute(
            f"INSERT INTO {table} (session_id, {columns})"
            f" SELECT ?1, {columns} FROM {table} WHERE session_id = ?2",
            pair,
        )
    cursor.execute(
        "UPDATE sessions SET previous_id = ?2, model_override ="
        " (SELECT model_override FROM sessions WHERE id = ?2) WHERE id = ?1",
        pair,
    )
    session_state.point_route(cursor, route, fork.session_id)


def resume_session(
    cursor: apsw.Cursor, session_id: SessionId, *, route: SessionKey, at: float
) -> None:
    """Points the route to this session, and clears its suspension, end and marks."""
    cursor.execute(
        "UPDATE sessions SET suspended = 0, ended_at = NULL, cuts = 0, active_at = ?2"
        " WHERE id = ?1",
        (session_id, at),
    )
    if not cursor.connection.changes():
        raise StoreError(
            "session {session_id} does not exist and cannot be resumed", session_id=session_id
        )
    session_state.clear_resume_pending(cursor, session_id)
    # If its own chat continues in another session, its route becomes the one that resumes it.
    cursor.execute(
        "UPDATE sessions SET route = ?2 WHERE id = ?1 AND NOT EXISTS"
        " (SELECT 1 FROM routes r WHERE r.key = sessions.route AND r.session_id = ?1)",
        (session_id, route),
    )
    session_state.point_route(cursor, route, session_id)


def retry_message(
    cursor: apsw.Cursor,
    again: Resubmission,
    *,
    route: SessionKey,
    merged: tuple[InboxId, ...],
    at: float,
) -> InboxRow:
    """Queues the message again as a row of its own, into which the rows that caused the retry are
    merged."""
    accepted = inbox.accept_message(
        cursor, inbound=again.inbound, route=route, principal=again.principal, at=at
    )
    for inbox_id in merged:
        cursor.execute(
            "UPDATE inbox SET merged_into = ? WHERE id = ? AND state = 'merged'",
            (accepted.row.id, inbox_id),
        )
    return accepted.row


def require_messages(cursor: apsw.Cursor, session_id: SessionId, *, messages: int) -> None:
    """Refuses a summary of messages that do not exist any more: if they were undone while it was
    made, it would hide later messages."""
    fewer = cursor.execute(
        f"SELECT 1 FROM (SELECT count(*) AS number FROM {rows.messages_not_undone()}"
        " WHERE session_id = ?) WHERE number < ?",
        (session_id, messages),
    ).fetchone()
    if fewer is not None:
        raise StoreError(
            "session {session_id} no longer has {messages} messages to summarise",
            session_id=session_id,
            messages=messages,
        )


def _require_no_open_turn(cursor: apsw.Cursor, session_id: SessionId) -> None:
    found = cursor.execute(
        "SELECT 1 FROM turns WHERE session_id = ? AND state = 'open'", (session_id,)
    ).fetchone()
    if found is not None:
        raise StoreError(
            "the history of session {session_id} cannot be changed while a turn is open. "
            "Wait until it has ended, or stop it",
            session_id=session_id,
        )


def expire_session(
    cursor: apsw.Cursor, *, session_id: SessionId, active_at: float, at: float
) -> bool:
    """End a session without activity since `active_at`; False: it was active again.

    Decided here, in the order of all writes: a message that was accepted before keeps its session,
    and a later one finds it ended.
    """
    cursor.execute(
        "UPDATE sessions SET ended_at = ?3 WHERE id = ?1 AND active_at = ?2 AND ended_at IS NULL"
        " AND NOT suspended AND NOT coalesce(resume_pending, 0)"
        " AND NOT EXISTS (SELECT 1 FROM turns t WHERE t.session_id = ?1 AND t.state = 'open')"
        " AND NOT EXISTS (SELECT 1 FROM routes r JOIN inbox i ON i.route = r.key"
        " WHERE r.session_id = ?1 AND i.ended_at IS NULL)",
        (session_id, active_at, at),
    )
    return bool(cursor.connection.changes())


def prune_inbox(cursor: apsw.Cursor, *, before: float) -> int:
    """Delete the oldest messages that ended before then, and return their number, which is also
    added to `pruned`. The transcript keeps their text."""
    deleted = cursor.execute(
        "DELETE FROM inbox WHERE id IN (SELECT id FROM inbox ORDER BY id LIMIT ?2)"
        " AND accepted_at < ?1 AND ended_at < ?1 RETURNING state",
        (before, _PRUNE_BATCH),
    ).fetchall()
    cursor.executemany(
        "INSERT INTO pruned (state, count) VALUES (?, 1)"
        " ON CONFLICT DO UPDATE SET count = count + 1",
        deleted,
    )
    return len(deleted)


def prune_outbox(cursor: apsw.Cursor, *, before: float) -> int:
    """Delete the oldest deliveries that were settled before then, with their parts, and return
    their number. Those with unknown outcome are deleted too: it will not become known any more."""
    gone = cursor.execute(
        "DELETE FROM outbox WHERE seq IN (SELECT seq FROM outbox ORDER BY seq LIMIT ?2)"
        " AND created_at < ?1 AND updated_at < ?1 AND state IN ('sent', 'failed', 'unknown')"
        " RETURNING id",
        (before, _PRUNE_BATCH),
    ).fetchall()
    outbox.delete_parts(cursor, gone)
    return len(gone)
