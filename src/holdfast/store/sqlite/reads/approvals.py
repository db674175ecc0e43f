"""What can be asked about approvals, and about what was allowed for good."""

from typing import Any

import apsw

from holdfast.core.ids import ApprovalId, PrincipalId, SessionId, TurnId
from holdfast.core.people.approval import Approval, StandingRule
from holdfast.store.sqlite import approval_rows


def approval(cursor: apsw.Cursor, approval_id: ApprovalId) -> Approval | None:
    found = _approvals(cursor, "WHERE id = ?", approval_id)
    return found[0] if found else None


def approvals(
    cursor: apsw.Cursor, *, limit: int, pending: bool, session_id: SessionId | None
) -> list[Approval]:
    # By its own index: few wait, and many have ever been asked.
    which = "INDEXED BY approvals_pending WHERE state = 'pending'" if pending else "WHERE true"
    return _approvals(
        cursor,
        f"{which} AND (?1 IS NULL OR session_id = ?1) ORDER BY asked_at DESC, number DESC LIMIT ?2",
        session_id,
        limit,
    )


def of_turn(cursor: apsw.Cursor, turn_id: TurnId) -> list[Approval]:
    return _approvals(cursor, "WHERE turn_id = ? ORDER BY number", turn_id)


def _approvals(cursor: apsw.Cursor, which: str, *bindings: Any) -> list[Approval]:
    found = cursor.execute(f"SELECT {approval_rows.APPROVAL} FROM approvals {which}", bindings)
    return [approval_rows.approval(row) for row in found]


def standing_rules(
    cursor: apsw.Cursor, *, principal: PrincipalId | None, rule: str | None
) -> list[StandingRule]:
    found = cursor.execute(
        f"SELECT {approval_rows.RULE} FROM approval_rules WHERE (?1 IS NULL OR principal = ?1)"
        " AND (?2 IS NULL OR rule = ?2) ORDER BY created_at, id",
        (principal, rule),
    )
    return [approval_rows.standing_rule(row) for row in found]
