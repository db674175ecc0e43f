"""What the audit says of who talks: strangers turned away, people let in, operators' words."""

import apsw

from holdfast.core.ids import SessionId
from holdfast.core.messages.inbox import Inbound
from holdfast.core.messages.source import Source
from holdfast.core.people.approval import OPERATOR
from holdfast.core.people.audit import DONE, GATEWAY_ACTOR, REFUSED, AuditEntry, AuditKind
from holdfast.core.people.pairing import PairingChange, PairingKind, RefusedMessage
from holdfast.store.sqlite.writes import audit

_PAIRING_KINDS = {
    PairingKind.APPROVE: AuditKind.PAIRING_APPROVED,
    PairingKind.DENY: AuditKind.PAIRING_DENIED,
    PairingKind.REVOKE: AuditKind.PAIRING_REVOKED,
    PairingKind.WRONG: AuditKind.PAIRING_WRONG_CODE,
}


def record_unknown_sender(cursor: apsw.Cursor, away: RefusedMessage) -> None:
    """Somebody nobody knows was given a code, which only a few are at a time."""
    audit.record(
        cursor,
        AuditEntry(
            kind=AuditKind.SENDER_REFUSED,
            actor=away.principal,
            at=away.at,
            subject=_account_name(away.inbound.source),
            outcome=REFUSED,
            facts={"code": True},
        ),
    )


def record_pairing(cursor: apsw.Cursor, change: PairingChange) -> None:
    person = change.user.principal if change.user is not None else change.principal
    let_in_by = change.user.let_in_by if change.user is not None else ""
    wrong = change.kind is PairingKind.WRONG
    audit.record(
        cursor,
        AuditEntry(
            kind=_PAIRING_KINDS[change.kind],
            actor=change.by or let_in_by or GATEWAY_ACTOR,
            at=change.at,
            subject=person or "",
            outcome=REFUSED if wrong else DONE,
        ),
    )


def record_operator_message(
    cursor: apsw.Cursor, inbound: Inbound, *, session_id: SessionId | None, at: float
) -> None:
    """Whoever runs the gateway speaks into a chat of others."""
    audit.record(
        cursor,
        AuditEntry(
            kind=AuditKind.MESSAGE_SPOKEN,
            actor=OPERATOR,
            at=at,
            session_id=session_id,
            subject=f"{_account_name(inbound.source)}:{inbound.source.chat_id}",
            # In no session yet there is nothing that they would be forgotten with.
            words={"text": inbound.text} if session_id is not None else {},
        ),
    )


def _account_name(source: Source) -> str:
    return f"{source.platform}:{source.account}"
