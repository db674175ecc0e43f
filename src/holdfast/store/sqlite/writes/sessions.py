"""Sessions and routes: opening one, and pointing a route at it."""

import apsw

from holdfast.core.ids import PrincipalId, SessionId, SessionKey


def open_session(
    cursor: apsw.Cursor,
    session_id: SessionId,
    *,
    route: SessionKey,
    at: float,
    title: str = "",
    principal: PrincipalId | None = None,
) -> None:
    """Creates the row if there is none; either way the session is active now.

    The first title it is given is its title, the first principal its owner.
    """
    cursor.execute(
        "INSERT INTO sessions (id, route, created_at, active_at, title, principal)"
        " VALUES (?1, ?2, ?3, ?3, ?4, ?5) ON CONFLICT (id) DO UPDATE SET"
        " active_at = excluded.active_at, title = iif(title = '', excluded.title, title),"
        " principal = coalesce(principal, excluded.principal)",
        (session_id, route, at, title, principal),
    )


def save_prompt(
    cursor: apsw.Cursor, session_id: SessionId, prompt: str, *, shape: str = ""
) -> None:
    """The first prompt of a session is its prompt, until the configuration has another shape."""
    if prompt:
        cursor.execute(
            "INSERT INTO prompts (session_id, text, shape) VALUES (?, ?, ?)"
            " ON CONFLICT (session_id) DO UPDATE SET text = excluded.text, shape = excluded.shape"
            " WHERE excluded.shape <> '' AND shape <> excluded.shape",
            (session_id, prompt, shape),
        )


def claim_route(cursor: apsw.Cursor, route: SessionKey, session_id: SessionId) -> None:
    """Points a route at a session, unless it already points at another that can go on."""
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
