"""What commands do to what was said: take it back, copy it, return to it, say it again."""

import apsw

from holdfast.core.errors import StoreError
from holdfast.core.ids import InboxId, SessionId, SessionKey
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.sessions.session import ForkEffect, Resubmission, UndoEffect
from holdfast.store.sqlite.writes import inbox, sessions, transcript


def undo_messages(cursor: apsw.Cursor, undo: UndoEffect, *, at: float) -> None:
    _require_no_open_turn(cursor, undo.session_id)
    last = transcript.next_seq(cursor, undo.session_id) - 1
    if not 1 <= undo.from_seq <= last:
        raise StoreError(f"session {undo.session_id} has no message {undo.from_seq} to take back")
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
    """Messages keep their places, by which a summary names what it covers, and name no turn: the
    turns, with what they cost and owe, are the other session's."""
    _require_no_open_turn(cursor, fork.of)
    sessions.open_session(
        cursor, fork.session_id, route=route, at=at, title=fork.title, principal=fork.principal
    )
    pair = (fork.session_id, fork.of)
    cursor.execute(
        "INSERT INTO messages (session_id, seq, created_at, body)"
        " SELECT ?1, seq, created_at, body FROM standing WHERE session_id = ?2",
        pair,
    )
    for table, columns in (("prompts", "text, shape"), ("compactions", "seq, covers")):
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
    sessions.point_route(cursor, route, fork.session_id)


def resume_session(
    cursor: apsw.Cursor, session_id: SessionId, *, route: SessionKey, at: float
) -> None:
    """The route goes on there; whatever kept the session from going on is lifted."""
    cursor.execute(
        "UPDATE sessions SET suspended = 0, ended_at = NULL, cuts = 0, active_at = ?2,"
        " resume_pending = NULL, resume_reason = NULL, last_resume_marked_at = NULL"
        " WHERE id = ?1",
        (session_id, at),
    )
    if not cursor.connection.changes():
        raise StoreError(f"there is no session {session_id} to return to")
    # One whose own chat has gone on elsewhere is at home where it goes on.
    cursor.execute(
        "UPDATE sessions SET route = ?2 WHERE id = ?1 AND NOT EXISTS"
        " (SELECT 1 FROM routes r WHERE r.key = sessions.route AND r.session_id = ?1)",
        (session_id, route),
    )
    sessions.point_route(cursor, route, session_id)


def retry_message(
    cursor: apsw.Cursor,
    again: Resubmission,
    *,
    route: SessionKey,
    merged: tuple[InboxId, ...],
    at: float,
) -> InboxRow:
    """The message as a row of its own, which the rows that brought it about are merged into."""
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
    """A summary is of messages that stand: one that was being made while they were taken back
    would hide what is said next."""
    fewer = cursor.execute(
        "SELECT 1 FROM (SELECT count(*) AS standing FROM standing WHERE session_id = ?)"
        " WHERE standing < ?",
        (session_id, messages),
    ).fetchone()
    if fewer is not None:
        raise StoreError(f"session {session_id} has no {messages} messages any more to summarise")


def _require_no_open_turn(cursor: apsw.Cursor, session_id: SessionId) -> None:
    found = cursor.execute(
        "SELECT 1 FROM turns WHERE session_id = ? AND state = 'open'", (session_id,)
    ).fetchone()
    if found is not None:
        raise StoreError(f"session {session_id} has an open turn: its history cannot be changed")
