"""Sessions and routes: opening, routing, `resume_pending`, suspension, and the busy mode of a
session."""

import apsw

from holdfast.core.ids import PrincipalId, SessionId, SessionKey, TurnId
from holdfast.core.messages.inbox import BusyMode, RouteTarget
from holdfast.core.sessions.reset import SessionReset
from holdfast.core.turns.subagent import INTERNAL_PLATFORM
from holdfast.store.sqlite import rows


def open_session(
    cursor: apsw.Cursor,
    session_id: SessionId,
    *,
    route: SessionKey,
    at: float,
    title: str = "",
    principal: PrincipalId | None = None,
    precision: float = 0,
) -> None:
    """Opens a session, creating its row if there is none; either way the session is active now. It
    keeps the first title and the first principal that it was given. A row that was active at most
    `precision` seconds ago is left unchanged."""
    cursor.execute(
        "INSERT INTO sessions (id, route, created_at, active_at, title, principal, active_hour)"
        " VALUES (?1, ?2, ?3, ?3, ?4, ?5, CAST(?3 / 3600 AS INTEGER))"
        " ON CONFLICT (id) DO UPDATE SET"
        " active_at = excluded.active_at, title = iif(title = '', excluded.title, title),"
        " principal = coalesce(principal, excluded.principal)"
        " WHERE excluded.active_at NOT BETWEEN active_at AND active_at + ?6"
        " OR (title = '' AND excluded.title <> '')"
        " OR (principal IS NULL AND excluded.principal IS NOT NULL)",
        (session_id, route, at, title, principal, precision),
    )


def save_prompt(
    cursor: apsw.Cursor, session_id: SessionId, prompt: str, *, shape: str = ""
) -> None:
    """Saves the prompt of a session. The first one is kept until the shape of the configuration
    changes."""
    if prompt:
        cursor.execute(
            "INSERT INTO prompts (session_id, text, shape) VALUES (?, ?, ?)"
            " ON CONFLICT (session_id) DO UPDATE SET text = excluded.text, shape = excluded.shape"
            " WHERE excluded.shape <> '' AND shape <> excluded.shape",
            (session_id, prompt, shape),
        )


def end_session(cursor: apsw.Cursor, *, session_id: SessionId, at: float) -> None:
    cursor.execute(
        "UPDATE sessions SET ended_at = ? WHERE id = ? AND ended_at IS NULL", (at, session_id)
    )


def claim_route(cursor: apsw.Cursor, route: SessionKey, session_id: SessionId) -> None:
    """Points a route at a session, unless it already points at another that can continue."""
    cursor.execute(
        "INSERT INTO routes (key, session_id) VALUES (?, ?)"
        " ON CONFLICT (key) DO UPDATE SET session_id = excluded.session_id"
        " WHERE session_id <> excluded.session_id AND EXISTS (SELECT 1 FROM sessions s"
        " WHERE s.id = routes.session_id AND (s.suspended OR s.ended_at IS NOT NULL))",
        (route, session_id),
    )


def point_route(cursor: apsw.Cursor, route: SessionKey, session_id: SessionId) -> None:
    """Points a route at a session, wherever it pointed before."""
    cursor.execute(
        "INSERT INTO routes (key, session_id) VALUES (?, ?)"
        " ON CONFLICT (key) DO UPDATE SET session_id = excluded.session_id",
        (route, session_id),
    )


def route_target(cursor: apsw.Cursor, route: SessionKey) -> RouteTarget | None:
    """The session that a route points to, whether or not it can continue."""
    row = cursor.execute(
        "SELECT s.id, s.active_at, s.suspended, s.ended_at, s.resume_pending, s.auto_reset_told,"
        " s.auto_reset_reason, s.previous_id, s.note_owed, s.resume_reason, b.mode"
        " FROM routes r JOIN sessions s ON s.id = r.session_id"
        " LEFT JOIN busy b ON b.session_id = s.id WHERE r.key = ?",
        (route,),
    ).fetchone()
    if row is None:
        return None
    return RouteTarget(
        session_id=SessionId(row[0]),
        active_at=row[1],
        suspended=bool(row[2]),
        ended=row[3] is not None,
        resume_pending=bool(row[4]),
        unannounced_reset=rows.decode_reset_reason(row[6]) if row[5] == 0 else None,
        previous=row[7],
        interruption_note_pending=bool(row[8]),
        resume_reason=row[9],
        busy_mode=None if row[10] is None else BusyMode(row[10]),
    )


def continuable_session(found: RouteTarget | None) -> SessionId | None:
    return found.session_id if found is not None and found.can_continue else None


def mark_resume_pending(
    cursor: apsw.Cursor,
    session_id: SessionId,
    *,
    reason: str,
    at: float,
    route: SessionKey | None = None,
    interrupted: bool = False,
) -> bool:
    """The only place that marks a session. False, without a change, if it cannot continue, or the
    route does not point to it.

    With `interrupted`, an open turn of it was cut, once more in a row; its resumption writes the
    note. Otherwise the next turn has to."""
    cursor.execute(
        "UPDATE sessions SET resume_pending = 1, resume_reason = ?2, last_resume_marked_at = ?3,"
        " cuts = cuts + ?4, note_owed = iif(?4, note_owed, 1) WHERE id = ?1 AND NOT suspended"
        " AND ended_at IS NULL"
        " AND (?5 IS NULL OR id = (SELECT session_id FROM routes WHERE key = ?5))",
        (session_id, reason, at, interrupted, route),
    )
    return bool(cursor.connection.changes())


def clear_resume_pending(
    cursor: apsw.Cursor, session_id: SessionId, *, route: SessionKey | None = None
) -> bool:
    """The only place that clears the mark. False if there is none, or the route does not point to
    the session."""
    cursor.execute(
        "UPDATE sessions SET resume_pending = NULL, resume_reason = NULL, note_owed = NULL,"
        " last_resume_marked_at = NULL WHERE id = ?1 AND resume_pending"
        " AND (?2 IS NULL OR id = (SELECT session_id FROM routes WHERE key = ?2))",
        (session_id, route),
    )
    return bool(cursor.connection.changes())


def clear_pending_note(cursor: apsw.Cursor, session_id: SessionId) -> None:
    """Clears the pending note about the interruption: it is in a turn now, and must not be
    repeated."""
    cursor.execute("UPDATE sessions SET note_owed = NULL WHERE id = ?", (session_id,))


def recently_active_sessions(cursor: apsw.Cursor, since: float) -> list[SessionId]:
    """Sessions that could continue and are not marked (a mark already requires that they continue).
    Sessions with an open turn and subagents are left out: their turn or parent decides."""
    found = cursor.execute(
        "SELECT id FROM sessions WHERE (ended_at IS NOT NULL) = 0 AND active_at >= ?"
        " AND NOT suspended"
        f" AND resume_pending IS NOT 1 AND route NOT GLOB '{INTERNAL_PLATFORM}:*' AND NOT EXISTS"
        " (SELECT 1 FROM turns WHERE session_id = sessions.id AND state = 'open')",
        (since,),
    )
    return [SessionId(str(row[0])) for row in found]


def turns_superseded_between(
    cursor: apsw.Cursor, session_id: SessionId, *, reason: str, since: float, until: float
) -> list[TurnId]:
    found = cursor.execute(
        "SELECT id FROM turns WHERE session_id = ? AND state = 'superseded' AND reason = ?"
        " AND ended_at BETWEEN ? AND ?",
        (session_id, reason, since, until),
    )
    return [TurnId(str(row[0])) for row in found]


def suspend_session(cursor: apsw.Cursor, *, session_id: SessionId) -> bool:
    """False: there is no such session, or it was suspended already."""
    cursor.execute(
        "UPDATE sessions SET suspended = 1, cuts = 0 WHERE id = ? AND NOT suspended", (session_id,)
    )
    return bool(cursor.connection.changes())


def replace_session(
    cursor: apsw.Cursor,
    session_id: SessionId,
    *,
    route: SessionKey,
    opening: SessionReset,
    at: float,
) -> None:
    """Records which session this one replaces in its route, and why; its turn reports that. The
    other session ends, unless it was suspended, which is kept, or another route points to it."""
    cursor.execute(
        "UPDATE sessions SET auto_reset_reason = ?, auto_reset_told = 1, previous_id = ?"
        " WHERE id = ?",
        (opening.reason.value, opening.previous, session_id),
    )
    _retire_previous(cursor, opening.previous, route=route, to=session_id, at=at)


def open_new_session(
    cursor: apsw.Cursor,
    *,
    session_id: SessionId,
    route: SessionKey,
    principal: PrincipalId | None,
    opening: SessionReset | None,
    at: float,
) -> SessionId:
    """The session in which the route continues: this one, unless a concurrent command opened
    another first."""
    known = continuable_session(route_target(cursor, route))
    if known is not None and (opening is None or known != opening.previous):
        return known
    open_session(cursor, session_id, route=route, at=at, principal=principal)
    if opening is None:
        claim_route(cursor, route, session_id)
        return session_id
    cursor.execute(
        "UPDATE sessions SET auto_reset_reason = ?, auto_reset_told = 0, previous_id = ?"
        " WHERE id = ?",
        (opening.reason.value, opening.previous, session_id),
    )
    _retire_previous(cursor, opening.previous, route=route, to=session_id, at=at)
    return session_id


def _retire_previous(
    cursor: apsw.Cursor, previous: SessionId, *, route: SessionKey, to: SessionId, at: float
) -> None:
    point_route(cursor, route, to)
    cursor.execute(
        "UPDATE sessions SET ended_at = ?2 WHERE id = ?1 AND ended_at IS NULL AND NOT suspended"
        " AND NOT EXISTS (SELECT 1 FROM routes WHERE session_id = ?1)",
        (previous, at),
    )


def busy_mode(cursor: apsw.Cursor, session_id: SessionId) -> BusyMode | None:
    found = cursor.execute("SELECT mode FROM busy WHERE session_id = ?", (session_id,)).fetchone()
    return None if found is None else BusyMode(found[0])


def set_busy_mode(cursor: apsw.Cursor, session_id: SessionId, mode: str) -> None:
    """Sets the busy mode of a session; "": it has none of its own."""
    if not mode:
        cursor.execute("DELETE FROM busy WHERE session_id = ?", (session_id,))
        return
    cursor.execute(
        "INSERT INTO busy (session_id, mode) VALUES (?, ?)"
        " ON CONFLICT (session_id) DO UPDATE SET mode = excluded.mode",
        (session_id, BusyMode(mode).value),
    )
