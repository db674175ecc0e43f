"""The inbox: accepts an event once, binds it to a session, and ends it once; also the work of a
subagent."""

from collections.abc import Sequence
from typing import Any

import apsw
import msgspec

from holdfast.core.errors import StoreError
from holdfast.core.ids import InboxId, PrincipalId, SessionId, SessionKey, TurnId
from holdfast.core.messages.inbox import (
    END_STATES,
    Accepted,
    BusyMode,
    Inbound,
    InboxEnd,
    InboxRow,
    InboxState,
)
from holdfast.core.messages.source import Author
from holdfast.core.turns.subagent import Subagent
from holdfast.store.sqlite import rows, totals
from holdfast.store.sqlite.writes import audit_log, session_state


def accept_message(
    cursor: apsw.Cursor,
    *,
    inbound: Inbound,
    route: SessionKey,
    principal: PrincipalId,
    at: float,
    spoken_into: SessionId | None = None,
) -> Accepted:
    """Accepts a message. A repeated event writes nothing, not even its cursor: the first one did
    that."""
    source = inbound.source
    event = (source.platform, source.account, inbound.event_id)
    cursor.execute(
        "INSERT INTO inbox"
        " (platform, account, event_id, route, principal, state, accepted_at, body)"
        " VALUES (?, ?, ?, ?, ?, 'queued', ?, ?) ON CONFLICT DO NOTHING",
        (*event, route, principal, at, rows.encode_json(inbound)),
    )
    if not cursor.connection.changes():
        return _duplicate(cursor, event, route)
    inbox_id = InboxId(cursor.connection.last_insert_rowid())
    if inbound.cursor is not None:
        cursor.execute(
            "INSERT INTO cursors (platform, account, name, value) VALUES (?, ?, ?, ?)"
            " ON CONFLICT DO UPDATE SET value = excluded.value",
            (source.platform, source.account, inbound.cursor.name, inbound.cursor.value),
        )
    row = InboxRow(id=inbox_id, route=route, principal=principal, inbound=inbound, accepted_at=at)
    pointed = session_state.route_target(cursor, route)
    known = session_state.continuable_session(pointed)
    if source.author is Author.OPERATOR:
        audit_log.record_operator_message(cursor, inbound, session_id=spoken_into, at=at)
    return Accepted(row=row, duplicate=False, route_session=known, route_target=pointed)


def _duplicate(cursor: apsw.Cursor, event: tuple[str, str, str], route: SessionKey) -> Accepted:
    (found,) = cursor.execute(
        f"SELECT {rows.INBOX_COLUMNS} FROM inbox"
        " WHERE platform = ? AND account = ? AND event_id = ?",
        event,
    ).fetchall()
    return Accepted(
        row=rows.decode_inbox_row(found), duplicate=True, route_session=route_session(cursor, route)
    )


def route_session(cursor: apsw.Cursor, route: SessionKey) -> SessionId | None:
    """The session that a route points to, unless it is suspended or ended."""
    return session_state.continuable_session(session_state.route_target(cursor, route))


def record_busy_decision(
    cursor: apsw.Cursor, *, inbox_id: InboxId, session_id: SessionId, decision: BusyMode
) -> None:
    cursor.execute(
        "UPDATE inbox SET session_id = ?, decision = ? WHERE id = ? AND state = 'queued'",
        (session_id, decision.value, inbox_id),
    )
    if not cursor.connection.changes():
        raise StoreError(
            "message {inbox_id} is not queued any more: it has started or ended", inbox_id=inbox_id
        )


def start_row(
    cursor: apsw.Cursor, inbox_id: InboxId, *, session_id: SessionId, turn_id: TurnId
) -> None:
    """Marks a row as running in a turn, unless it has ended; the turn lists it in its own row."""
    cursor.execute(
        "UPDATE inbox SET state = 'running', session_id = ?, turn_id = ?, listed = 1"
        " WHERE id = ? AND ended_at IS NULL",
        (session_id, turn_id, inbox_id),
    )
    if not cursor.connection.changes():
        raise _not_open_error(inbox_id)


def end_row(
    cursor: apsw.Cursor,
    end: InboxEnd,
    *,
    at: float,
    session_id: SessionId | None = None,
    turn_id: TurnId | None = None,
) -> None:
    """A row ends once; session and turn are set where the row had none."""
    if end.state not in END_STATES:
        raise StoreError(
            "inbox row {inbox_id} cannot end as {state}", state=end.state, inbox_id=end.inbox_id
        )
    cursor.execute(
        "UPDATE inbox SET state = ?, reason = ?, merged_into = ?, ended_at = ?,"
        " session_id = coalesce(session_id, ?), turn_id = coalesce(turn_id, ?)"
        " WHERE id = ? AND ended_at IS NULL",
        (end.state, end.reason, end.merged_into, at, session_id, turn_id, end.inbox_id),
    )
    if not cursor.connection.changes():
        raise _not_open_error(end.inbox_id)
    totals.add_ended_message(cursor, end.inbox_id, end.state)
    if end.ends_session and session_id is not None:
        session_state.end_session(cursor, session_id=session_id, at=at)


def supersede_queued(
    cursor: apsw.Cursor,
    route: SessionKey,
    *,
    before: InboxId,
    spared: Sequence[InboxId],
    at: float,
) -> tuple[InboxId, ...]:
    """Ends the route's unstarted rows older than `before`, but for the `spared`; oldest first."""
    ended = cursor.execute(
        "UPDATE inbox SET state = ?, reason = 'a later command ended it', ended_at = ?"
        " WHERE route = ? AND id < ? AND state = 'queued' AND ended_at IS NULL"
        " AND id NOT IN (SELECT value FROM json_each(?)) RETURNING id",
        (InboxState.SUPERSEDED.value, at, route, before, msgspec.json.encode(spared).decode()),
    ).fetchall()
    ids = tuple(sorted(InboxId(row[0]) for row in ended))  # type: ignore[arg-type]  # rowids
    for inbox_id in ids:
        totals.add_ended_message(cursor, inbox_id, InboxState.SUPERSEDED)
    return ids


def session_rows(cursor: apsw.Cursor, session_id: SessionId) -> list[tuple[Any, ...]]:
    """The id of every message that the session has received, without reading those of other
    sessions: its turns list the messages that they have taken, and an index has the rest."""
    return cursor.execute(
        "SELECT id FROM inbox INDEXED BY inbox_unlisted WHERE session_id = ?1 AND listed IS NULL"
        " UNION SELECT i.id FROM turns t, json_each(t.inbox_ids) taken JOIN inbox i"
        " ON i.id = taken.value WHERE t.session_id = ?1 AND i.session_id = ?1",
        (session_id,),
    ).fetchall()


def _not_open_error(inbox_id: InboxId) -> StoreError:
    return StoreError("inbox row {inbox_id} has already ended or does not exist", inbox_id=inbox_id)


def accept_subagent_task(
    cursor: apsw.Cursor,
    subagent: Subagent,
    *,
    inbound: Inbound,
    route: SessionKey,
    principal: PrincipalId,
    at: float,
) -> Accepted:
    """The task and its subagent in one commit: neither exists without the other."""
    accepted = accept_message(cursor, inbound=inbound, route=route, principal=principal, at=at)
    if accepted.duplicate:
        return accepted
    session_state.open_session(
        cursor, subagent.session_id, route=route, at=at, title=subagent.title
    )
    session_state.claim_route(cursor, route, subagent.session_id)
    if subagent.model is not None:
        cursor.execute(
            "UPDATE sessions SET model_override = ? WHERE id = ?",
            (subagent.model, subagent.session_id),
        )
    cursor.execute(
        "INSERT INTO children (session_id, parent_id, inbox_id, created_at, body)"
        " VALUES (?, ?, ?, ?, ?)",
        (subagent.session_id, subagent.parent, accepted.row.id, at, rows.encode_json(subagent)),
    )
    return msgspec.structs.replace(accepted, route_session=subagent.session_id)
