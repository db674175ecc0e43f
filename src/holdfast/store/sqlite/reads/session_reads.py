"""What can be asked about sessions by those who speak in them: which they reach, what it cost."""

import apsw
import msgspec

from holdfast.core.ids import PrincipalId, SessionId, SessionKey
from holdfast.core.messages.source import Source
from holdfast.core.sessions.session import SessionRow
from holdfast.core.turns.subagent import HOUSE
from holdfast.core.turns.turn import TurnRow, Usage
from holdfast.store.sqlite import rows

# Children are no conversations of anybody's.
_REACHED = (
    "(s.route = ?1 OR s.principal = ?2 OR s.id = (SELECT session_id FROM routes WHERE key = ?1))"
    " AND NOT EXISTS (SELECT 1 FROM children c WHERE c.session_id = s.id)"
)
_TOTAL = ", ".join(f"coalesce(sum({column}), 0)" for column in rows.USAGE.split(", "))


def reached(
    cursor: apsw.Cursor, *, route: SessionKey, principal: PrincipalId | None, limit: int
) -> list[SessionRow]:
    found = cursor.execute(
        f"SELECT {rows.SESSION} FROM (SELECT * FROM sessions s WHERE {_REACHED}"
        " ORDER BY active_at DESC, id DESC LIMIT ?3) s ORDER BY active_at DESC, id DESC",
        (route, principal, limit),
    )
    return [rows.session_row(row) for row in found]


def reaches(
    cursor: apsw.Cursor,
    *,
    session_id: SessionId,
    route: SessionKey,
    principal: PrincipalId | None,
) -> SessionRow | None:
    row = cursor.execute(
        f"SELECT {rows.SESSION} FROM sessions s WHERE {_REACHED} AND s.id = ?3",
        (route, principal, session_id),
    ).fetchone()
    return None if row is None else rows.session_row(row)


def last_turn(cursor: apsw.Cursor, session_id: SessionId) -> TurnRow | None:
    row = cursor.execute(
        f"SELECT {rows.TURN} FROM turns WHERE session_id = ?"
        " ORDER BY started_at DESC, id DESC LIMIT 1",
        (session_id,),
    ).fetchone()
    return None if row is None else rows.turn_row(row)


def last_source(cursor: apsw.Cursor, session_id: SessionId) -> Source | None:
    """By the deliveries of its last turns: no index leads from a session to its messages. What
    children and jobs have brought was said by nobody."""
    found = cursor.execute(
        "SELECT json_extract(i.body, '$.source') FROM (SELECT id, started_at FROM turns"
        " WHERE session_id = ? ORDER BY started_at DESC LIMIT 50) t"
        " JOIN outbox o ON o.turn_id = t.id JOIN inbox i ON i.id = o.inbox_id"
        f" WHERE i.platform <> '{HOUSE}' ORDER BY t.started_at DESC, o.seq DESC LIMIT 1",
        (session_id,),
    ).fetchone()
    return None if found is None else msgspec.json.decode(str(found[0]), type=Source)


def session_usage(cursor: apsw.Cursor, session_id: SessionId) -> Usage:
    """Of its turns that have ended, and of what was done beside them."""
    return _total(cursor, "turns", session_id) + beside_turns(cursor, session_id)


def beside_turns(cursor: apsw.Cursor, session_id: SessionId) -> Usage:
    return _total(cursor, "auxiliary", session_id)


def _total(cursor: apsw.Cursor, table: str, session_id: SessionId) -> Usage:
    (total,) = cursor.execute(
        f"SELECT {_TOTAL} FROM {table} WHERE session_id = ?", (session_id,)
    ).fetchall()
    return rows.usage(total)


def reached_usage(
    cursor: apsw.Cursor, *, route: SessionKey, principal: PrincipalId | None
) -> Usage:
    """Of the sessions they reach, and of the children that worked for those."""
    whole = Usage()
    for table in ("turns", "auxiliary"):
        (total,) = cursor.execute(
            f"SELECT {_TOTAL} FROM {table}"
            f" WHERE session_id IN (WITH RECURSIVE mine (id) AS (SELECT s.id FROM sessions s"
            f" WHERE {_REACHED} UNION SELECT c.session_id FROM children c JOIN mine"
            " ON c.parent_id = mine.id) SELECT id FROM mine)",
            (route, principal),
        ).fetchall()
        whole = whole + rows.usage(total)
    return whole
