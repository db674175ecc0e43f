"""Approvals: the risk of a command, the request to a person, and the standing rules."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Protocol

import msgspec

from holdfast.core.errors import InvalidTransition
from holdfast.core.ids import ApprovalId, CallId, DeliveryId, PrincipalId, RuleId, SessionId, TurnId
from holdfast.core.messages.outbox import NewDelivery, scope_with_deliveries
from holdfast.core.ports.command import (
    Command,
    Scope,
    SessionCommand,
    joint_scope,
    person_scope,
    session_scope,
)

REQUESTER = "requester"  # in `approvals.approvers`: the sender that the turn answers
OPERATOR = PrincipalId("operator")  # has the gateway's own token: page, CLI, API


class CommandRisk(StrEnum):
    HARMLESS = "harmless"  # runs
    DANGEROUS = "dangerous"  # needs approval
    FORBIDDEN = "forbidden"  # always refused


class RuleMatch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One rule that fired, and on what. A standing approval is stored under `rule` and `target`."""

    rule: str = ""  # "": only "once" is possible
    why: str = ""  # for people: what the command would do
    part: str = ""  # the part of the command that matched, in full
    # The program or the path. "": the name of the rule says it all. None: it is only known when
    # the command runs, so that only "once" is possible.
    target: str | None = ""

    @property
    def may_stand(self) -> bool:
        return bool(self.rule) and self.target is not None


class CommandVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The fields describe the worst of the rules that fired; `also` has the others."""

    level: CommandRisk
    rule: str = ""
    why: str = ""
    part: str = ""
    target: str | None = ""
    also: tuple[RuleMatch, ...] = ()
    # Files of the workspace that the command runs as shell scripts or makefiles, and whose contents
    # the judge was not given: from the workspace, or from the root.
    scripts: tuple[str, ...] = ()

    @property
    def matches(self) -> tuple[RuleMatch, ...]:
        """All rules that fired, the worst first."""
        if self.level is CommandRisk.HARMLESS:
            return ()
        worst = RuleMatch(rule=self.rule, why=self.why, part=self.part, target=self.target)
        return (worst, *self.also)


HARMLESS = CommandVerdict(level=CommandRisk.HARMLESS)


class PatternAction(StrEnum):
    ASK = "ask"  # a person, each time
    ALLOW = "allow"  # what the rules find in it, unless it is forbidden
    FORBID = "forbid"


class CommandPattern(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[[approvals.patterns]]`: a rule of the operators, tried for each program that a command runs
    (with its arguments) and each path that it touches. `*` stands for any text."""

    match: Annotated[str, msgspec.Meta(min_length=1)]
    action: PatternAction
    reason: str = ""  # for people


class JudgedInput(StrEnum):
    """What the judged text is."""

    COMMAND = "command"  # a shell runs it
    PROCESS_INPUT = "input"  # a running program reads it
    READ_PATH = "read"  # a file tool reads the file
    WRITTEN_PATH = "write"  # a file tool changes the file


class JudgeContext(msgspec.Struct, frozen=True, kw_only=True):
    """What the judge must know besides the text."""

    kind: JudgedInput = JudgedInput.COMMAND
    patterns: tuple[CommandPattern, ...] = ()
    process: str = ""  # of `PROCESS_INPUT`: the command that started the program
    scripts: Mapping[str, str] = {}  # the contents of `CommandVerdict.scripts`, as far as known


PLAIN_COMMAND = JudgeContext()


class CommandJudge(Protocol):
    def judge(self, command: str, context: JudgeContext = PLAIN_COMMAND) -> CommandVerdict:
        """All that the rules find in the command, as a shell would read it. Never raises: a command
        that cannot be parsed is dangerous."""
        ...


class ApprovalState(StrEnum):
    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"  # not answered in time; that is no denial
    UNDELIVERABLE = "undeliverable"  # the request reached no approver
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
    """How far an approval reaches."""

    ONCE = "once"
    # The same rules on the same programs and paths, until the approval expires:
    SESSION = "session"  # in this conversation
    ALWAYS = "always"  # for this person


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """A row: one call of one turn, its approvers, its deadline, and how it ended."""

    id: ApprovalId
    session_id: SessionId
    asked_in: SessionId  # the conversation whose people are asked; a subagent asks in its parent's
    turn_id: TurnId
    call_id: CallId
    number: int  # within its turn, from 1 on: what people type
    tool: str
    command: str
    rule: str  # the worst of those that fired
    why: str
    requester: PrincipalId
    approvers: tuple[PrincipalId, ...]  # besides the operators
    delivery_id: DeliveryId  # the request message
    asked_at: float
    deadline: float
    state: ApprovalState = ApprovalState.PENDING
    scope: ApprovalScope = ApprovalScope.ONCE
    by: str = ""
    comment: str = ""  # given with a denial
    ended_at: float | None = None
    request_failed: bool = False  # the request message was permanently refused
    matches: tuple[RuleMatch, ...] = ()  # all rules that fired; empty in rows of older versions
    digest: str = ""  # SHA-256 of the whole command as it would run; empty in older rows

    @property
    def pending(self) -> bool:
        return self.state is ApprovalState.PENDING

    @property
    def may_stand(self) -> bool:
        """Whether it can be approved for more than once: each rule that fired is known with its
        program or path."""
        return bool(self.matches) and all(match.may_stand for match in self.matches)


class ApprovalEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of one row, written in the same commit as its cause."""

    id: ApprovalId
    state: ApprovalState
    scope: ApprovalScope = ApprovalScope.ONCE
    by: str = ""
    comment: str = ""


class ApprovalRule(msgspec.Struct, frozen=True, kw_only=True):
    """A standing approval: what this rule finds on this target runs for this person without a
    request, if all else that the rules find is approved, too."""

    id: RuleId
    scope: ApprovalScope
    session_id: SessionId  # where it was given; the scope `session` applies there only
    principal: PrincipalId
    rule: str
    target: str | None  # of `RuleMatch`; None: by an older version, which stored none
    why: str
    by: str
    created_at: float
    expires_at: float

    @property
    def owner(self) -> Scope:
        """The session that it applies in, or the person whom it is about."""
        if self.scope is ApprovalScope.SESSION:
            return session_scope(self.session_id)
        return person_scope(self.principal)

    def in_force(self, now: float) -> bool:
        return self.target is not None and now < self.expires_at

    def covers(self, match: RuleMatch, *, session_id: SessionId, now: float) -> bool:
        here = self.scope is ApprovalScope.ALWAYS or self.session_id == session_id
        same = match.may_stand and (self.rule, self.target) == (match.rule, match.target)
        return same and here and self.in_force(now)


class ApprovalRequest(SessionCommand[None], frozen=True, kw_only=True):
    """One commit: the approvals that are requested together, and the request message. Fails where
    the turn is not open, or an approval for one of its calls exists."""

    turn_id: TurnId
    approvals: tuple[Approval, ...]
    deliveries: tuple[NewDelivery, ...]
    at: float

    @property
    def scope(self) -> Scope:
        """A subagent asks in the session of the conversation that it works for."""
        return scope_with_deliveries(self.session_id, self.deliveries)


class ApprovalDecision(Command[None], frozen=True, kw_only=True):
    """The decision of a person or a deadline: the ends of rows, and the resulting rules. Fails as a
    whole where a row has ended already or a rule does not exist."""

    ends: tuple[ApprovalEnd, ...] = ()
    rules: tuple[ApprovalRule, ...] = ()
    revoked: tuple[ApprovalRule, ...] = ()
    by: str = ""  # who revokes; each end and each rule names its own
    session_id: SessionId | None = None  # whose calls are decided; None: only rules change
    at: float

    @property
    def scope(self) -> Scope:
        rules = joint_scope(*(each.owner for each in (*self.rules, *self.revoked)))
        return (
            rules if self.session_id is None else joint_scope(session_scope(self.session_id), rules)
        )
