"""The views of approvals: what waits for a word, the word, and those that stand."""

from enum import StrEnum
from typing import Annotated

import msgspec

from holdfast.core.people.approval import ApprovalScope, ApprovalState


class ApprovalView(msgspec.Struct, frozen=True, kw_only=True):
    """A command that waits, or waited, for a person's word."""

    id: str
    session_id: str
    turn_id: str
    number: int  # among those of its turn
    tool: str
    command: str
    rule: str  # "": only `once` is possible
    reason: str
    requester: str
    approvers: list[str]  # besides the operators
    asked_at: float
    deadline: float
    state: ApprovalState
    scope: ApprovalScope
    by: str
    comment: str
    ended_at: float | None


class ApprovalVerdict(StrEnum):
    APPROVE = "approve"
    DENY = "deny"


class ApprovalDecisionParams(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`words`: what the model is told with a no."""

    answer: ApprovalVerdict
    scope: ApprovalScope = ApprovalScope.ONCE
    comment: Annotated[str, msgspec.Meta(max_length=2000)] = ""


class ApprovalRuleView(msgspec.Struct, frozen=True, kw_only=True):
    """A yes that stands: what this rule asks about runs for this person without asking."""

    id: str
    scope: ApprovalScope
    session_id: str
    principal: str
    rule: str
    reason: str
    by: str
    created_at: float
