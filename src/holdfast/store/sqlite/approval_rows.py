"""Rows of approvals and of what was allowed for good, and the structs they are."""

import msgspec

from holdfast.core.ids import (
    ApprovalId,
    CallId,
    DeliveryId,
    PrincipalId,
    RuleId,
    SessionId,
    TurnId,
)
from holdfast.core.people.approval import Approval, ApprovalRule, ApprovalScope, ApprovalState
from holdfast.store.sqlite.rows import Row

_principals_decoder = msgspec.json.Decoder(tuple[PrincipalId, ...])

# The last column: the message that asks was refused for good.
APPROVAL_COLUMNS = """id, session_id, asked_in, turn_id, call_id, number, tool, command, rule, why,
    requester, approvers, delivery_id, asked_at, deadline, state, scope, said_by, words, ended_at,
    state = 'pending' AND EXISTS (
        SELECT 1 FROM outbox o WHERE o.id = approvals.delivery_id AND o.state = 'failed'
    )"""


def decode_approval(row: Row) -> Approval:
    return Approval(
        id=ApprovalId(row[0]),
        session_id=SessionId(row[1]),
        asked_in=SessionId(row[2]),
        turn_id=TurnId(row[3]),
        call_id=CallId(row[4]),
        number=row[5],
        tool=row[6],
        command=row[7],
        rule=row[8],
        why=row[9],
        requester=PrincipalId(row[10]),
        approvers=_principals_decoder.decode(row[11]),
        delivery_id=DeliveryId(row[12]),
        asked_at=row[13],
        deadline=row[14],
        state=ApprovalState(row[15]),
        scope=ApprovalScope(row[16]),
        by=row[17],
        comment=row[18],
        ended_at=row[19],
        request_failed=bool(row[20]),
    )


RULE_COLUMNS = "id, scope, session_id, principal, rule, why, said_by, created_at"


def decode_approval_rule(row: Row) -> ApprovalRule:
    return ApprovalRule(
        id=RuleId(row[0]),
        scope=ApprovalScope(row[1]),
        session_id=SessionId(row[2]),
        principal=PrincipalId(row[3]),
        rule=row[4],
        why=row[5],
        by=row[6],
        created_at=row[7],
    )
