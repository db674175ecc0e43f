"""Approvals: requested in one commit with the message that asks, and ended once."""

import apsw
import msgspec

from holdfast.core.errors import StoreError
from holdfast.core.ids import RuleId, SessionId, TurnId
from holdfast.core.people.approval import (
    Approval,
    ApprovalDecision,
    ApprovalEnd,
    ApprovalRequest,
    ApprovalRule,
    ApprovalState,
)
from holdfast.store.sqlite.writes import audit_log, outbox


def request_approvals(cursor: apsw.Cursor, *, ask: ApprovalRequest) -> None:
    """Requests approvals for an open turn; one that was ended meanwhile requests nothing."""
    found = cursor.execute(
        "SELECT 1 FROM turns WHERE id = ? AND session_id = ? AND state = 'open'",
        (ask.turn_id, ask.session_id),
    ).fetchone()
    if found is None:
        raise StoreError(
            "turn {turn_id} is not open: no approval was requested", turn_id=ask.turn_id
        )
    for approval in ask.approvals:
        _insert_approval(cursor, approval)
        audit_log.record_approval_requested(cursor, approval)
    outbox.add_deliveries(cursor, ask.deliveries, at=ask.at)


def _insert_approval(cursor: apsw.Cursor, new: Approval) -> None:
    cursor.execute(
        "INSERT INTO approvals (id, session_id, asked_in, turn_id, call_id, number, tool, command,"
        " rule, why, requester, approvers, delivery_id, asked_at, deadline, state, matches, digest)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'pending', ?, ?)",
        (
            new.id,
            new.session_id,
            new.asked_in,
            new.turn_id,
            new.call_id,
            new.number,
            new.tool,
            new.command,
            new.rule,
            new.why,
            new.requester,
            msgspec.json.encode(new.approvers).decode(),
            new.delivery_id,
            new.asked_at,
            new.deadline,
            msgspec.json.encode(new.matches).decode(),
            new.digest,
        ),
    )


def decide_approvals(cursor: apsw.Cursor, *, decision: ApprovalDecision, by: str = "") -> None:
    """All or nothing: a row that has ended already refuses the whole decision. `by`: the person,
    if the caller knows it better than the decision."""
    for end in decision.ends:
        _end_approval(cursor, end, at=decision.at)
        audit_log.record_approval_ended(cursor, end, by=by, at=decision.at)
    for rule in decision.rules:
        _add_rule(cursor, rule)
        audit_log.record_permission_given(cursor, rule, by=by)
    for rule in decision.revoked:
        audit_log.record_permission_revoked(cursor, rule.id, by=by or decision.by, at=decision.at)
        _revoke_rule(cursor, rule.id)


def _end_approval(cursor: apsw.Cursor, end: ApprovalEnd, *, at: float) -> None:
    if end.state is ApprovalState.PENDING:
        raise StoreError("approval {approval_id} cannot end as pending", approval_id=end.id)
    cursor.execute(
        "UPDATE approvals SET state = ?, scope = ?, said_by = ?, words = ?, ended_at = ?"
        " WHERE id = ? AND state = 'pending'",
        (end.state.value, end.scope.value, end.by, end.comment, at, end.id),
    )
    if not cursor.connection.changes():
        raise StoreError(
            "approval {approval_id} has already ended or does not exist", approval_id=end.id
        )


def _add_rule(cursor: apsw.Cursor, rule: ApprovalRule) -> None:
    cursor.execute(
        "INSERT INTO approval_rules (id, scope, session_id, principal, rule, why, said_by,"
        " created_at, target, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            rule.id,
            rule.scope.value,
            rule.session_id,
            rule.principal,
            rule.rule,
            rule.why,
            rule.by,
            rule.created_at,
            rule.target,
            rule.expires_at,
        ),
    )


def _revoke_rule(cursor: apsw.Cursor, rule_id: RuleId) -> None:
    cursor.execute("DELETE FROM approval_rules WHERE id = ?", (rule_id,))
    if not cursor.connection.changes():
        raise StoreError("approval rule {rule_id} does not exist", rule_id=rule_id)


def withdraw_approvals(cursor: apsw.Cursor, turn_id: TurnId, *, at: float) -> None:
    """Withdraws the pending approvals of a turn that ends."""
    cursor.execute(
        "UPDATE approvals SET state = 'withdrawn', ended_at = ?"
        " WHERE turn_id = ? AND state = 'pending'",
        (at, turn_id),
    )
    if cursor.connection.changes():
        audit_log.record_approvals_withdrawn(cursor, turn_id, at=at)


def delete_approvals(cursor: apsw.Cursor, session_id: SessionId) -> None:
    """Deletes the approvals of a deleted session. Standing rules stay: they belong to a person."""
    cursor.execute("DELETE FROM approvals WHERE session_id = ?", (session_id,))
    for change in (
        "DELETE FROM approval_rules WHERE scope = 'session'",
        "UPDATE approval_rules SET session_id = '' WHERE scope = 'always'",
    ):
        cursor.execute(f"{change} AND session_id = ?", (session_id,))
