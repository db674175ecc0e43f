"""Sessions and routes: opening one, pointing a route at it, and what commands do to them."""

import apsw

from holdfast.core.errors import StoreError
from holdfast.core.ids import InboxId, SessionId, SessionKey
from holdfast.core.session import CommandEffect, Superseded
from holdfast.store.writes import inbox, outbox


def open_session(
    cursor: apsw.Cursor, session_id: SessionId, *, route: SessionKey, at: float, title: str = ""
) -> None:
    """Creates the row if there is none; either way the session is active now.

    The first title it is given is its title.
    """
    cursor.execute(
        "INSERT INTO sessions (id, route, created_at, active_at, title)"
        " VALUES (?1, ?2, ?3, ?3, ?4) ON CONFLICT (id) DO UPDATE SET"
        " active_at = excluded.active_at, title = iif(title = '', excluded.title, title)",
        (session_id, route, at, title),
    )


def keep_prompt(cursor: apsw.Cursor, session_id: SessionId, prompt: str) -> None:
    """The first prompt of a session is its prompt."""
    if prompt:
        cursor.execute(
            "INSERT INTO prompts (session_id, text) VALUES (?, ?) ON CONFLICT DO NOTHING",
            (session_id, prompt),
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


def settle_command(cursor: apsw.Cursor, effect: CommandEffect) -> Superseded:
    for end in effect.inbox_ends:
        inbox.end(cursor, end, at=effect.at, session_id=effect.session_id)
    superseded = Superseded(inbox_ids=_supersede(cursor, effect))
    outbox.add(cursor, effect.deliveries, at=effect.at)
    if effect.new_session is not None:
        _replace_session(cursor, effect, effect.new_session)
    if effect.model_override is not None:
        _override_model(cursor, effect, effect.model_override)
    return superseded


def _supersede(cursor: apsw.Cursor, effect: CommandEffect) -> tuple[InboxId, ...]:
    if effect.supersede_before is None:
        return ()
    route = _needed_route(effect)
    return inbox.supersede(cursor, route, before=effect.supersede_before, at=effect.at)


def _replace_session(cursor: apsw.Cursor, effect: CommandEffect, fresh: SessionId) -> None:
    route = _needed_route(effect)
    cursor.execute(
        "UPDATE sessions SET ended_at = ? WHERE ended_at IS NULL AND id <> ?"
        " AND id IN (?, (SELECT session_id FROM routes WHERE key = ?))",
        (effect.at, fresh, effect.session_id, route),
    )
    open_session(cursor, fresh, route=route, at=effect.at)
    cursor.execute(
        "INSERT INTO routes (key, session_id) VALUES (?, ?)"
        " ON CONFLICT (key) DO UPDATE SET session_id = excluded.session_id",
        (route, fresh),
    )


def _override_model(cursor: apsw.Cursor, effect: CommandEffect, model: str) -> None:
    session_id = effect.new_session or effect.session_id
    if session_id is None:
        raise StoreError("a model override needs a session; none was named")
    if effect.route is not None:
        open_session(cursor, session_id, route=effect.route, at=effect.at)
        claim_route(cursor, effect.route, session_id)
    cursor.execute(
        "UPDATE sessions SET model_override = ? WHERE id = ?", (model or None, session_id)
    )
    if not cursor.connection.changes():
        raise StoreError(f"there is no session {session_id} to override the model of")


def _needed_route(effect: CommandEffect) -> SessionKey:
    if effect.route is None:
        raise StoreError("a command that replaces a session or ends its queue needs a route")
    return effect.route
