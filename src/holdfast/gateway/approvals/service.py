"""Answers to approvals: who may give one, what it changes, and the reply to a late one."""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import msgspec

from holdfast.core.crash_points import CrashPoint
from holdfast.core.errors import StoreError
from holdfast.core.ids import ApprovalId, DeliveryId, InboxId, PrincipalId, RuleId, SessionId
from holdfast.core.messages.outbox import DeliveryKind, DeliveryState, NewDelivery
from holdfast.core.messages.source import Source
from holdfast.core.people.approval import (
    OPERATOR,
    Approval,
    ApprovalDecision,
    ApprovalEnd,
    ApprovalRequest,
    ApprovalRule,
    ApprovalScope,
    ApprovalState,
)
from holdfast.core.people.audit import GATEWAY_ACTOR
from holdfast.core.ports.command import Committed, WriteFailed
from holdfast.core.ports.runtime import Runtime
from holdfast.core.ports.store import Store
from holdfast.core.ports.store_commands import AddDeliveries, SettleDelivery
from holdfast.core.ports.store_queries import GetApproval, ListApprovalRules
from holdfast.core.sessions.session import CommandEffect
from holdfast.core.text.translation import _, use_catalogue
from holdfast.gateway.access import AccessPolicy, Action, OwnedResource, principal_of
from holdfast.gateway.approvals.pending import PendingApprovals, end_approvals
from holdfast.gateway.chat_languages import ChatLanguages
from holdfast.gateway.live.feeds import SessionFeeds
from holdfast.gateway.live_settings import LiveSettings
from holdfast.gateway.notify.home_channels import HomeChannels

log = logging.getLogger(__name__)


class ApprovalResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a person to an approval."""

    approved: bool
    scope: ApprovalScope = ApprovalScope.ONCE
    comment: str = ""


class ApprovalTurn(Protocol):
    """The part of a turn that holds its approvals."""

    @property
    def session_id(self) -> SessionId: ...
    @property
    def approvals(self) -> PendingApprovals: ...
    @property
    def answering(self) -> InboxId | None: ...


class ApprovalLane(Protocol):
    @property
    def turn(self) -> ApprovalTurn | None: ...


class ApprovalLanes(Protocol):
    def __iter__(self) -> Iterator[ApprovalLane]: ...
    def get(self, session_id: SessionId) -> ApprovalLane | None: ...


APPROVAL_COMMANDS = (ApprovalRequest, ApprovalDecision, CommandEffect, SettleDelivery)


class ApprovalService:
    """Decides approvals. Owns nothing: the pending ones are in the turns, the others in the
    store."""

    def __init__(
        self,
        store: Store,
        runtime: Runtime,
        lanes: ApprovalLanes,
        *,
        live_settings: LiveSettings,
        feeds: SessionFeeds,
        access: AccessPolicy,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._store = store
        self._runtime = runtime
        self._live_settings = live_settings
        self._feeds = feeds
        self._lanes = lanes
        self._access = access
        self._tasks = tasks

    def _turns(self) -> list[ApprovalTurn]:
        """The turns that have not ended."""
        return [lane.turn for lane in self._lanes if lane.turn is not None]

    def pending_in(self, session_id: SessionId | None) -> list[Approval]:
        """The pending approvals that the people of a conversation can answer, of all turns."""
        return [
            approval
            for turn in self._turns()
            for approval in turn.approvals.pending
            if approval.asked_in == session_id
        ]

    def of_turn(self, session_id: SessionId) -> Sequence[Approval]:
        """All approvals of the conversation's own open turn, pending or not."""
        lane = self._lanes.get(session_id)
        turn = None if lane is None else lane.turn
        return () if turn is None or turn.answering is None else turn.approvals.all

    def find(self, approval_id: ApprovalId) -> Approval | None:
        """An approval of an open turn; the others are in the store."""
        for turn in self._turns():
            if found := turn.approvals.find(approval_id):
                return found
        return None

    def may_answer(self, approval: Approval, source: Source) -> bool:
        asked = OwnedResource(source=source, owners=approval.approvers)
        return self._access.allows(principal_of(source), Action.DECIDE, asked)

    def claim(
        self, chosen: Sequence[Approval], answer: ApprovalResponse, *, by: PrincipalId
    ) -> ApprovalDecision:
        """Decide, from this instant. The caller writes the decision and then calls `settled`. An
        approval that makes a rule also approves the pending calls that the rule covers."""
        at = self._runtime.clock.now()
        rules = tuple(self._rules(chosen, answer, by=by, at=at))
        chosen = [*chosen, *self._also_covered(chosen, rules)]
        state = ApprovalState.APPROVED if answer.approved else ApprovalState.DENIED
        ends = tuple(
            ApprovalEnd(
                id=approval.id,
                state=state,
                scope=answer.scope if approval.may_stand else ApprovalScope.ONCE,
                by=by,
                comment=answer.comment,
            )
            for approval in chosen
        )
        for turn in self._turns():
            own = [end for end in ends if turn.approvals.find(end.id)]
            turn.approvals.claim(own, at=at)
        sessions = {approval.session_id for approval in chosen}
        return ApprovalDecision(
            ends=ends,
            rules=rules,
            session_id=sessions.pop() if len(sessions) == 1 else None,
            at=at,
        )

    def on_committed(self, event: Committed) -> None:
        """An approval request or an answer is in the store."""
        command = event.command
        if isinstance(command, ApprovalRequest):
            self._asked(command)
        elif isinstance(command, ApprovalDecision):
            self.settled(command, durable=True)
        elif isinstance(command, CommandEffect) and command.decision is not None:
            self.settled(command.decision, durable=True)
        elif isinstance(command, SettleDelivery) and command.state is DeliveryState.FAILED:
            self._tasks.create_task(
                self.end_undeliverable(command.delivery_id), name="undeliverable"
            )

    def on_failed(self, event: WriteFailed) -> None:
        """A decision was not written. A chat command tries again with its own."""
        if isinstance(event.command, ApprovalDecision):
            self.settled(event.command, durable=False)

    def _asked(self, request: ApprovalRequest) -> None:
        """Runs before the request is sent, so that an answer finds its approval."""
        self._runtime.crash(CrashPoint.APPROVAL_ASKED)
        lane = self._lanes.get(request.session_id)
        if lane is not None and lane.turn is not None:
            lane.turn.approvals.add(request.approvals, at=request.at)
        for session_id in {request.session_id, *(each.asked_in for each in request.approvals)}:
            self._feeds.session_changed(session_id)

    def settled(self, decision: ApprovalDecision, *, durable: bool) -> None:
        """The claimed approvals are decided and their turns continue, or they are pending again."""
        if durable:
            self._runtime.crash(CrashPoint.APPROVAL_DECIDED)
        for turn in self._turns():
            if any(turn.approvals.find(end.id) for end in decision.ends):
                turn.approvals.settle(decision, durable=durable)
                self._feeds.session_changed(turn.session_id)

    async def decide(self, approval_id: ApprovalId, answer: ApprovalResponse) -> Approval | None:
        """Decide for an operator, outside any chat. Returns the stored approval; None: it has ended
        already or does not exist."""
        approval = self.find(approval_id)
        if approval is None or not approval.pending:
            return None
        decision = self.claim([approval], answer, by=OPERATOR)
        await self._store.write(decision)
        return await self._store.read(GetApproval(approval_id=approval_id))

    async def end_undeliverable(self, delivery_id: DeliveryId) -> None:
        """The platform has refused the request for good: its turn does not wait for it any more."""
        for turn in self._turns():
            asked = turn.approvals.for_delivery(delivery_id)
            ends = [ApprovalEnd(id=a.id, state=ApprovalState.UNDELIVERABLE) for a in asked]
            if not ends:
                continue
            at, store = self._runtime.clock.now(), self._store
            try:
                await end_approvals(turn.approvals, ends, writes=store, at=at)
            except StoreError as error:
                log.warning(
                    "Could not save that the approvals of delivery %s are undeliverable: %s; they "
                    "end at their deadline or at the next start",
                    delivery_id,
                    error,
                    extra={"action": "approval_end_not_saved"},
                )

    def _rules(
        self, chosen: Iterable[Approval], answer: ApprovalResponse, *, by: PrincipalId, at: float
    ) -> Iterable[ApprovalRule]:
        if not answer.approved or answer.scope is ApprovalScope.ONCE:
            return
        expires_at = self._live_settings.current.approvals.expiry(answer.scope, at=at)
        wanted = {
            (match.rule, match.target, each.requester, each.asked_in): (each, match)
            for each in chosen
            if each.may_stand
            for match in each.matches
        }
        for approval, match in wanted.values():
            yield ApprovalRule(
                id=RuleId(self._runtime.new_id("rule")),
                scope=answer.scope,
                session_id=approval.asked_in,
                principal=approval.requester,
                rule=match.rule,
                target=match.target,
                why=match.why,
                by=by,
                created_at=at,
                expires_at=expires_at,
            )

    def _also_covered(
        self, chosen: Sequence[Approval], rules: Sequence[ApprovalRule]
    ) -> Iterable[Approval]:
        decided = {approval.id for approval in chosen}
        for turn in self._turns() if rules else ():
            for each in turn.approvals.pending:
                if each.id not in decided and _covered(each, rules):
                    yield each


def _covered(approval: Approval, rules: Sequence[ApprovalRule]) -> bool:
    """Whether these rules, just made, allow all that the approval asks about."""
    own = [rule for rule in rules if rule.principal == approval.requester]
    return approval.may_stand and all(
        any(rule.covers(match, session_id=approval.asked_in, now=rule.created_at) for rule in own)
        for match in approval.matches
    )


async def withdraw_outdated_rules(
    store: Store, runtime: Runtime, home_channels: HomeChannels, languages: ChatLanguages
) -> None:
    """At a start: withdraw the standing approvals that have expired, and those of older versions,
    which named no program and no path. Home channels are told about the latter."""
    at = runtime.clock.now()
    rules = [r for r in await store.read(ListApprovalRules()) if not r.in_force(at)]
    if not rules:
        return
    await store.write(ApprovalDecision(revoked=tuple(rules), by=GATEWAY_ACTOR, at=at))
    unbound = [rule for rule in rules if rule.target is None]
    if not unbound:
        return
    log.warning(
        "Withdrew %d standing approvals of an older version, which named no program and no path; "
        "such commands need approval again",
        len(unbound),
        extra={"action": "old_approval_rules_withdrawn"},
    )
    notices = []
    for home in home_channels.all():
        with use_catalogue(languages.of_chat(home.address)):
            text = _(
                "Standing approvals of an earlier version were withdrawn, because they named no "
                "program and no path. Such commands need approval again: {rules}."
            ).format(rules=", ".join(f"{rule.rule} ({rule.principal})" for rule in unbound))
        notices.append(
            NewDelivery(
                id=DeliveryId(runtime.new_id("dlv")),
                address=home.address,
                kind=DeliveryKind.NOTICE,
                text=text,
            )
        )
    if notices:
        await store.write(AddDeliveries(deliveries=notices, at=at))


def late_answer_text(approval: Approval) -> str:
    """The reply to an answer that changes nothing any more, in the language of the context."""
    match approval.state:
        case ApprovalState.APPROVED:
            return _("{person} has already approved this.").format(
                person=principal_name(approval.by)
            )
        case ApprovalState.DENIED:
            return _("{person} has already denied this.").format(person=principal_name(approval.by))
        case ApprovalState.EXPIRED:
            return _("Too late: there was no answer in time, and the command was not run.")
        case ApprovalState.UNDELIVERABLE:
            return _("The request could not be delivered to its chat; the command was not run.")
        case ApprovalState.WITHDRAWN:
            return _("This request was withdrawn, because the work that it belonged to has ended.")
    return _("This is still waiting for an answer.")


def principal_name(principal: str) -> str:
    """A person as people call them: the id without platform and account."""
    return _("The operator") if principal == OPERATOR else principal.rsplit(":", 1)[-1]
