"""Approvals: the risk of a command, the request to a person, and the standing rules."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol

import msgspec

from holdfast.core.errors import InvalidTransition
from holdfast.core.ids import ApprovalId, CallId, DeliveryId, PrincipalId, RuleId, SessionId, TurnId
from holdfast.core.messages.outbox import NewDelivery


class CommandRisk(StrEnum):
    HARMLESS = "harmless"  # runs
    DANGEROUS = "dangerous"  # a person is asked first
    FORBIDDEN = "forbidden"  # always refused


class CommandVerdict(msgspec.Struct, frozen=True, kw_only=True):
    level: CommandRisk
    rule: str = ""  # the rule that decided, by name: what "always" is remembered by
    why: str = ""  # for people: what it would do
    part: str = ""  # the piece of the command that the rule saw


HARMLESS = CommandVerdict(level=CommandRisk.HARMLESS)


class CommandJudge(Protocol):
    def judge(self, command: str) -> CommandVerdict:
        """The worst thing that the command, as a shell would read it, may do. Never raises:
        what cannot be read is dangerous, and says so."""
        ...


REQUESTER = "requester"  # in `approvals.approvers`: whoever's message the turn answers
OPERATOR = PrincipalId("operator")  # whoever has the gateway's own token: page, CLI, API


class ApprovalState(StrEnum):
    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"  # nobody answered in time; nobody said no
    UNDELIVERABLE = "undeliverable"  # the question could not be brought to anyone
    WITHDRAWN = "withdrawn"  # the turn ended before the answer


_S = ApprovalState
APPROVAL_TRANSITIONS: Mapping[ApprovalState, frozenset[ApprovalState]] = {
    _S.PENDING: frozenset(_S) - {_S.PENDING},
    **{end: frozenset() for end in _S if end is not _S.PENDING},
}


def approval_transition(state: ApprovalState, to: ApprovalState) -> ApprovalState:
    if to not in APPROVAL_TRANSITIONS[state]:
        raise InvalidTransition(f"an approval cannot go from {state} to {to}")
    return to


class ApprovalScope(StrEnum):
    """How far a yes goes."""

    ONCE = "once"
    SESSION = "session"  # whatever the same rule asks about, in this conversation
    ALWAYS = "always"  # whatever the same rule asks about, for this person


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """A row: one call of one turn, who may answer, one deadline, and how it ended."""

    id: ApprovalId
    session_id: SessionId
    asked_in: SessionId  # the conversation whose people are asked; a child's is not its own
    turn_id: TurnId
    call_id: CallId
    number: int  # among those of its turn, from 1 on: what people type
    tool: str
    command: str
    rule: str  # what "session" and "always" are remembered by; "": only "once" is possible
    why: str
    requester: PrincipalId
    approvers: tuple[PrincipalId, ...]  # besides the operators
    delivery_id: DeliveryId  # the message that asks
    asked_at: float
    deadline: float
    state: ApprovalState = ApprovalState.PENDING
    scope: ApprovalScope = ApprovalScope.ONCE
    by: str = ""
    comment: str = ""  # what was said with a no
    ended_at: float | None = None
    request_failed: bool = False  # the message that asks was refused for good

    @property
    def pending(self) -> bool:
        return self.state is ApprovalState.PENDING


class ApprovalEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of one row, written in the same commit as what brought it about."""

    id: ApprovalId
    state: ApprovalState
    scope: ApprovalScope = ApprovalScope.ONCE
    by: str = ""
    comment: str = ""


class ApprovalRule(msgspec.Struct, frozen=True, kw_only=True):
    """A yes that stands: what this rule asks about is run for this person without asking."""

    id: RuleId
    scope: ApprovalScope
    session_id: SessionId  # where it was said; `session` holds there alone
    principal: PrincipalId
    rule: str
    why: str
    by: str
    created_at: float

    def applies_to(self, session_id: SessionId) -> bool:
        return self.scope is ApprovalScope.ALWAYS or self.session_id == session_id


class ApprovalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One commit: the rows of what is asked together, and the message that asks."""

    session_id: SessionId
    turn_id: TurnId
    approvals: tuple[Approval, ...]
    deliveries: tuple[NewDelivery, ...]
    at: float


class ApprovalDecision(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody, or a deadline, decided: the ends of rows, and the rules that follow."""

    ends: tuple[ApprovalEnd, ...] = ()
    rules: tuple[ApprovalRule, ...] = ()
    revoked: tuple[RuleId, ...] = ()
    by: str = ""  # who revokes; each end and each rule names its own
    at: float
