"""The views of approvals: what waits for a word, the word, and those that stand."""

from enum import StrEnum
from typing import Annotated

import msgspec

from holdfast.core.people.approval import ApprovalState, Scope


class ApprovalView(msgspec.Struct, frozen=True, kw_only=True):
    """A command that waits, or waited, for a person's word."""

    id: str
    session_id: str
    turn_id: str
    number: int  # among those of its turn
    tool: str
    command: str
    rule: str  # "": only `once` is possible
    why: str
    requester: str
    approvers: list[str]  # besides the operators
    asked_at: float
    deadline: float
    state: ApprovalState
    scope: Scope
    by: str
    words: str
    ended_at: float | None


class Verdict(StrEnum):
    APPROVE = "approve"
    DENY = "deny"


class ApprovalAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`words`: what the model is told with a no."""

    answer: Verdict
    scope: Scope = Scope.ONCE
    words: Annotated[str, msgspec.Meta(max_length=2000)] = ""


class RuleView(msgspec.Struct, frozen=True, kw_only=True):
    """A yes that stands: what this rule asks about runs for this person without asking."""

    id: str
    scope: Scope
    session_id: str
    principal: str
    rule: str
    why: str
    by: str
    created_at: float
