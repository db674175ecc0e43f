"""Conversations whose own row is lost: they get another, so that they can be found and read."""

import apsw

from holdfast.core.messages.source import Source, build_session_key


def restore_orphan_sessions(db: apsw.Connection) -> int:
    """How many there were. Where one was held is known if a message of it, or its route, is left;
    otherwise it is put where the command line and the page find it."""
    found = db.execute(
        "SELECT session_id, min(created_at), max(created_at) FROM messages"
        " WHERE session_id NOT IN (SELECT id FROM sessions) GROUP BY session_id"
    ).fetchall()
    for session_id, first, last in found:
        db.execute(
            "INSERT INTO sessions (id, route, created_at, active_at) VALUES (?, ?, ?, ?)",
            (session_id, _orphan_route(db, str(session_id)), first, last),
        )
    return len(found)


def _orphan_route(db: apsw.Connection, session_id: str) -> str:
    known = db.execute(
        "SELECT route FROM inbox WHERE session_id = ?1"
        " UNION ALL SELECT key FROM routes WHERE session_id = ?1 LIMIT 1",
        (session_id,),
    ).get
    if known is not None:
        return str(known)
    return str(build_session_key(Source(platform="api", chat_id=session_id, user_id=session_id)))
