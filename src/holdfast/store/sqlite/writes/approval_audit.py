"""What the audit says of approvals: asked, ended, and the permissions that came of them."""

import apsw

from holdfast.core.ids import RuleId, TurnId
from holdfast.core.people.approval import Approval, ApprovalEnd, ApprovalRule
from holdfast.core.people.audit import ASKED, GATEWAY_ACTOR, AuditEntry, AuditKind
from holdfast.store.sqlite.writes import audit


def record_approval_requested(cursor: apsw.Cursor, approval: Approval) -> None:
    audit.record(
        cursor,
        AuditEntry(
            kind=AuditKind.APPROVAL_ASKED,
            actor=approval.requester,
            at=approval.asked_at,
            session_id=approval.session_id,
            turn_id=approval.turn_id,
            subject=approval.tool,
            outcome=ASKED,
            facts={
                "approval": approval.id,
                "call": approval.call_id,
                "rule": approval.rule,
                "deadline": approval.deadline,
            },
            words={"command": approval.command, "why": approval.why},
        ),
    )


def record_approval_ended(cursor: apsw.Cursor, end: ApprovalEnd, *, by: str, at: float) -> None:
    row = cursor.execute(
        "SELECT session_id, turn_id, tool, call_id FROM approvals WHERE id = ?", (end.id,)
    ).fetchall()[0]
    facts = {"approval": end.id, "call": str(row[3]), "scope": end.scope.value}
    audit.record(
        cursor,
        AuditEntry(
            kind=AuditKind.APPROVAL_ENDED,
            actor=by or end.by or GATEWAY_ACTOR,
            at=at,
            session_id=str(row[0]),
            turn_id=str(row[1]),
            subject=str(row[2]),
            outcome=end.state.value,
            facts=facts,
            words={"words": end.comment} if end.comment else {},
        ),
    )


def record_approvals_withdrawn(cursor: apsw.Cursor, turn_id: TurnId, *, at: float) -> None:
    """Its turn ended before anybody answered."""
    found = cursor.execute(
        "SELECT id, session_id, tool, call_id FROM approvals"
        " WHERE turn_id = ? AND state = 'withdrawn' AND ended_at = ? ORDER BY number",
        (turn_id, at),
    ).fetchall()
    for approval_id, session_id, tool, call_id in found:
        audit.record(
            cursor,
            AuditEntry(
                kind=AuditKind.APPROVAL_ENDED,
                actor=GATEWAY_ACTOR,
                at=at,
                session_id=str(session_id),
                turn_id=turn_id,
                subject=str(tool),
                outcome="withdrawn",
                facts={"approval": str(approval_id), "call": str(call_id)},
            ),
        )


def record_permission_given(cursor: apsw.Cursor, rule: ApprovalRule, *, by: str) -> None:
    audit.record(
        cursor,
        AuditEntry(
            kind=AuditKind.PERMISSION_GIVEN,
            actor=by or rule.by,
            at=rule.created_at,
            session_id=rule.session_id,
            subject=rule.rule,
            facts={"permission": rule.id, "scope": rule.scope.value, "for": rule.principal},
        ),
    )


def record_permission_revoked(cursor: apsw.Cursor, rule_id: RuleId, *, by: str, at: float) -> None:
    """Called while the rule is still there."""
    found = cursor.execute(
        "SELECT session_id, rule, scope, principal FROM approval_rules WHERE id = ?", (rule_id,)
    ).fetchone()
    if found is None:
        return  # whoever revokes it is told so
    audit.record(
        cursor,
        AuditEntry(
            kind=AuditKind.PERMISSION_REVOKED,
            actor=by or GATEWAY_ACTOR,
            at=at,
            session_id=found[0] or None,
            subject=found[1],
            facts={"permission": rule_id, "scope": found[2], "for": found[3]},
        ),
    )
