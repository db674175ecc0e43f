"""Queries about approvals and standing approval rules."""

from typing import Any

import apsw

from holdfast.core.ids import ApprovalId, PrincipalId, SessionId, TurnId
from holdfast.core.people.approval import Approval, ApprovalRule
from holdfast.store.sqlite import rows


def approval(cursor: apsw.Cursor, approval_id: ApprovalId) -> Approval | None:
    found = _select(cursor, "WHERE id = ?", approval_id)
    return found[0] if found else None


def approvals(
    cursor: apsw.Cursor, *, limit: int, pending: bool, session_id: SessionId | None
) -> list[Approval]:
    # By its own index: few wait, and many have ever been asked.
    which = "INDEXED BY approvals_pending WHERE state = 'pending'" if pending else "WHERE true"
    return _select(
        cursor,
        f"{which} AND (?1 IS NULL OR session_id = ?1) ORDER BY asked_at DESC, number DESC LIMIT ?2",
        session_id,
        limit,
    )


def approvals_of_turn(cursor: apsw.Cursor, turn_id: TurnId) -> list[Approval]:
    return _select(cursor, "WHERE turn_id = ? ORDER BY number", turn_id)


def _select(cursor: apsw.Cursor, which: str, *bindings: Any) -> list[Approval]:
    found = cursor.execute(f"SELECT {rows.APPROVAL_COLUMNS} FROM approvals {which}", bindings)
    return [rows.decode_approval(row) for row in found]


def approval_rules(
    cursor: apsw.Cursor, *, principal: PrincipalId | None, rule: str | None
) -> list[ApprovalRule]:
    found = cursor.execute(
        f"SELECT {rows.RULE_COLUMNS} FROM approval_rules WHERE (?1 IS NULL OR principal = ?1)"
        " AND (?2 IS NULL OR rule = ?2) ORDER BY created_at, id",
        (principal, rule),
    )
    return [rows.decode_approval_rule(row) for row in found]
