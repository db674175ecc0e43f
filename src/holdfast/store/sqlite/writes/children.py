"""Children: the session that a child's work opens, and whose it is."""

import apsw
import msgspec

from holdfast.core.ids import PrincipalId, SessionKey
from holdfast.core.messages.inbox import Accepted, Inbound
from holdfast.core.turns.subagent import Subagent
from holdfast.store.sqlite import rows
from holdfast.store.sqlite.writes import inbox, sessions


def accept_subagent_task(
    cursor: apsw.Cursor,
    child: Subagent,
    *,
    inbound: Inbound,
    route: SessionKey,
    principal: PrincipalId,
    at: float,
) -> Accepted:
    """Work and child in one commit: neither is ever there without the other."""
    accepted = inbox.accept_message(
        cursor, inbound=inbound, route=route, principal=principal, at=at
    )
    if accepted.duplicate:
        return accepted
    sessions.open_session(cursor, child.session_id, route=route, at=at, title=child.title)
    sessions.claim_route(cursor, route, child.session_id)
    if child.model is not None:
        cursor.execute(
            "UPDATE sessions SET model_override = ? WHERE id = ?", (child.model, child.session_id)
        )
    cursor.execute(
        "INSERT INTO children (session_id, parent_id, inbox_id, created_at, body)"
        " VALUES (?, ?, ?, ?, ?)",
        (child.session_id, child.parent, accepted.row.id, at, rows.encode_json(child)),
    )
    return msgspec.structs.replace(accepted, route_session=child.session_id)
