"""What time takes away: sessions that are over, and rows that are kept no longer."""

import apsw

from holdfast.core.ids import SessionId
from holdfast.store.sqlite.writes import streams

_PRUNE_BATCH = 500  # rows of one command: nobody else's write waits long for it


def expire_session(
    cursor: apsw.Cursor, *, session_id: SessionId, active_at: float, at: float
) -> bool:
    """End a session that has been silent since `active_at`; False: it goes on after all.

    Decided here, in the order of all writes: a message that was accepted before keeps its
    session, and one that comes later finds it ended.
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
    """Forget the oldest messages that ended before then; how many. The ledger keeps their
    number, and a session its transcript."""
    gone = cursor.execute(
        "DELETE FROM inbox WHERE id IN (SELECT id FROM inbox ORDER BY id LIMIT ?2)"
        " AND accepted_at < ?1 AND ended_at < ?1 RETURNING state",
        (before, _PRUNE_BATCH),
    ).fetchall()
    cursor.executemany(
        "INSERT INTO pruned (state, count) VALUES (?, 1)"
        " ON CONFLICT DO UPDATE SET count = count + 1",
        gone,
    )
    return len(gone)


def prune_outbox(cursor: apsw.Cursor, *, before: float) -> int:
    """Forget the oldest deliveries that were settled before then, with their parts; how many.
    Whether one arrived that nobody heard of again is settled by then: nobody will know."""
    gone = cursor.execute(
        "DELETE FROM outbox WHERE seq IN (SELECT seq FROM outbox ORDER BY seq LIMIT ?2)"
        " AND created_at < ?1 AND updated_at < ?1 AND state IN ('sent', 'failed', 'unknown')"
        " RETURNING id",
        (before, _PRUNE_BATCH),
    ).fetchall()
    streams.delete_parts(cursor, gone)
    return len(gone)
