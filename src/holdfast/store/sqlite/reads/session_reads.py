"""What can be asked about sessions by those who speak in them: which they reach, what it cost."""

import apsw
import msgspec

from holdfast.core.ids import PrincipalId, SessionId, SessionKey
from holdfast.core.messages.source import Source
from holdfast.core.sessions.session import SessionRow
from holdfast.core.turns.subagent import INTERNAL_PLATFORM
from holdfast.core.turns.turn import TurnRow, Usage
from holdfast.store.sqlite import rows

# Children are no conversations of anybody's.
_IN_REACH = (
    "(s.route = ?1 OR s.principal = ?2 OR s.id = (SELECT session_id FROM routes WHERE key = ?1))"
    " AND NOT EXISTS (SELECT 1 FROM children c WHERE c.session_id = s.id)"
)
_USAGE_TOTALS = ", ".join(
    f"coalesce(sum({column}), 0)" for column in rows.USAGE_COLUMNS.split(", ")
)


def sessions_in_reach(
    cursor: apsw.Cursor, *, route: SessionKey, principal: PrincipalId | None, limit: int
) -> list[SessionRow]:
    found = cursor.execute(
        f"SELECT {rows.SESSION_COLUMNS} FROM (SELECT * FROM sessions s WHERE {_IN_REACH}"
        " ORDER BY active_at DESC, id DESC LIMIT ?3) s ORDER BY active_at DESC, id DESC",
        (route, principal, limit),
    )
    return [rows.decode_session(row) for row in found]


def session_in_reach(
    cursor: apsw.Cursor,
    *,
    session_id: SessionId,
    route: SessionKey,
    principal: PrincipalId | None,
) -> SessionRow | None:
    row = cursor.execute(
        f"SELECT {rows.SESSION_COLUMNS} FROM sessions s WHERE {_IN_REACH} AND s.id = ?3",
        (route, principal, session_id),
    ).fetchone()
    return None if row is None else rows.decode_session(row)


def last_turn(cursor: apsw.Cursor, session_id: SessionId) -> TurnRow | None:
    row = cursor.execute(
        f"SELECT {rows.TURN_COLUMNS} FROM turns WHERE session_id = ?"
        " ORDER BY started_at DESC, id DESC LIMIT 1",
        (session_id,),
    ).fetchone()
    return None if row is None else rows.decode_turn(row)


def last_source(cursor: apsw.Cursor, session_id: SessionId) -> Source | None:
    """By the deliveries of its last turns: no index leads from a session to its messages. What
    children and jobs have brought was said by nobody."""
    found = cursor.execute(
        "SELECT json_extract(i.body, '$.source') FROM (SELECT id, started_at FROM turns"
        " WHERE session_id = ? ORDER BY started_at DESC LIMIT 50) t"
        " JOIN outbox o ON o.turn_id = t.id JOIN inbox i ON i.id = o.inbox_id"
        f" WHERE i.platform <> '{INTERNAL_PLATFORM}' ORDER BY t.started_at DESC, o.seq DESC LIMIT 1",
        (session_id,),
    ).fetchone()
    return None if found is None else msgspec.json.decode(str(found[0]), type=Source)


def session_usage(cursor: apsw.Cursor, session_id: SessionId) -> Usage:
    """Of its turns that have ended, and of what was done beside them."""
    return _usage_total(cursor, "turns", session_id) + auxiliary_total(cursor, session_id)


def auxiliary_total(cursor: apsw.Cursor, session_id: SessionId) -> Usage:
    return _usage_total(cursor, "auxiliary", session_id)


def _usage_total(cursor: apsw.Cursor, table: str, session_id: SessionId) -> Usage:
    (total,) = cursor.execute(
        f"SELECT {_USAGE_TOTALS} FROM {table} WHERE session_id = ?", (session_id,)
    ).fetchall()
    return rows.decode_usage(total)


def usage_in_reach(
    cursor: apsw.Cursor, *, route: SessionKey, principal: PrincipalId | None
) -> Usage:
    """Of the sessions they reach, and of the children that worked for those."""
    whole = Usage()
    for table in ("turns", "auxiliary"):
        (total,) = cursor.execute(
            f"SELECT {_USAGE_TOTALS} FROM {table}"
            f" WHERE session_id IN (WITH RECURSIVE mine (id) AS (SELECT s.id FROM sessions s"
            f" WHERE {_IN_REACH} UNION SELECT c.session_id FROM children c JOIN mine"
            " ON c.parent_id = mine.id) SELECT id FROM mine)",
            (route, principal),
        ).fetchall()
        whole = whole + rows.decode_usage(total)
    return whole
