"""What the audit says of ends that somebody wanted: of a turn, and of a process."""

import apsw

from holdfast.core.messages.inbox import InboxState
from holdfast.core.people.approval import OPERATOR
from holdfast.core.people.audit import GATEWAY_ACTOR, AuditEntry, AuditKind
from holdfast.core.turns.stop import StopRequester, StopRow
from holdfast.core.turns.turn import EndTurn
from holdfast.store.sqlite.writes import audit

_OPERATOR_REQUESTERS = (StopRequester.CLI, StopRequester.PAGE)


def record_turn_stopped(cursor: apsw.Cursor, end: EndTurn) -> None:
    """A turn was ended for good: by whose command, and by whom it says. Who runs the gateway is
    named also where somebody in the chat wanted the same at the same time."""
    commands = [row.inbox_id for row in end.inbox_ends if row.state is InboxState.ANSWERED]
    names = [audit.message_author(cursor, commands[-1])[0]] if commands else []
    if end.by and end.by != GATEWAY_ACTOR:
        names.append(end.by)
    actor = ", ".join(dict.fromkeys(names)) or GATEWAY_ACTOR
    audit.record(
        cursor,
        AuditEntry(
            kind=AuditKind.TURN_STOPPED,
            actor=actor,
            at=end.at,
            session_id=end.session_id,
            turn_id=end.turn_id,
            subject=end.turn_id,
        ),
    )


def record_gateway_stop(cursor: apsw.Cursor, row: StopRow) -> None:
    """A process of the gateway was told to go, or a successor found that it had gone."""
    order = row.order
    owner = OPERATOR if order.by in _OPERATOR_REQUESTERS else GATEWAY_ACTOR
    audit.record(
        cursor,
        AuditEntry(
            kind=AuditKind.GATEWAY_LEFT,
            actor=order.principal or owner,
            at=order.at,
            subject=order.kind.value,
            facts={"by": order.by.value, "now": order.now, "stop": row.id},
        ),
    )
