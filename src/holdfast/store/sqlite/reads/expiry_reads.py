"""What time is about to take: sessions by when they are over, and by when they were last used."""

from heapq import nsmallest

import apsw

from holdfast.core.ids import SessionId, SessionKey
from holdfast.core.sessions.reset import ExpiringSession, ExpiryRule


def expiring_sessions(
    cursor: apsw.Cursor, *, deadline: ExpiryRule, limit: int
) -> list[ExpiringSession]:
    """It looks at every session there is."""
    found = cursor.execute(
        "SELECT id, route, active_at FROM sessions WHERE ended_at IS NULL AND NOT suspended"
        " AND NOT coalesce(resume_pending, 0)"
    )
    with_ends = (
        ExpiringSession(session_id=SessionId(str(row[0])), active_at=row[2], expires_at=at)
        for row in found
        if (at := deadline(SessionKey(str(row[1])), row[2])) is not None
    )
    return nsmallest(limit, with_ends, key=lambda each: each.expires_at)


def sessions_unused_since(cursor: apsw.Cursor, *, before: float, limit: int) -> list[SessionId]:
    found = cursor.execute(
        "SELECT id FROM sessions WHERE active_at < ? ORDER BY active_at LIMIT ?", (before, limit)
    )
    return [SessionId(str(row[0])) for row in found]
