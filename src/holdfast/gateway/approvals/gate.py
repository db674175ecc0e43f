"""Decides whether a tool call may run, and asks people where they must decide."""

from collections.abc import Callable, Sequence

import msgspec

from holdfast.agent.turn_port import PendingCall, WaitingForApproval
from holdfast.core.config.settings import ApprovalMode, ApprovalSettings
from holdfast.core.ids import ApprovalId, DeliveryId, PrincipalId, SessionId, TurnId
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.outbox import DeliveryKind
from holdfast.core.messages.transcript import ToolOutcome
from holdfast.core.people.approval import (
    REQUESTER,
    Approval,
    ApprovalRequest,
    ApprovalRule,
    ApprovalState,
    CommandRisk,
    CommandVerdict,
)
from holdfast.core.ports.store_queries import ListApprovalRules
from holdfast.core.turns.tool import ToolOutput
from holdfast.gateway.approvals.pending import PendingApprovals
from holdfast.gateway.approvals.prompt import approval_buttons, approval_text, escape_unprintable
from holdfast.gateway.services import Services

_FORBIDDEN = (
    "Refused, and not run. {why} Nobody is asked about a command of this kind. Find another way, "
    "or tell the user what you would need."
)
_REFUSED_BY_MODE = (
    "Refused, and not run. {why} This gateway runs no dangerous commands. Find another way, or "
    "tell the user what you would need."
)
_DENIED = "The user was asked, and denied it: this command was not run.{words}"
_NOT_RUN = {
    ApprovalState.EXPIRED: "Not run: it needs a person's approval, and nobody answered in time. "
    "The user has not denied it. Go on without it if you can, and say what is left to do.",
    ApprovalState.UNDELIVERABLE: "Not run: it needs a person's approval, and the question could "
    "not be delivered. The user has not denied it. Go on without it if you can, and say so.",
    ApprovalState.WITHDRAWN: "Not run: the question whether it may was withdrawn.",
}


class ApprovalGate:
    """Speaks for one turn; what it asks for is kept in the turn's approvals, which it is lent."""

    def __init__(
        self,
        services: Services,
        approvals: PendingApprovals,
        *,
        session_id: SessionId,
        turn_id: TurnId,
        row: InboxRow,
        settings: ApprovalSettings,
        check_may_ask: Callable[[], None],
    ) -> None:
        self._services = services
        self._approvals = approvals
        self._session_id = session_id
        self._turn_id = turn_id
        self._row = row  # the message that the turn answers
        self._settings = settings
        self._check_may_ask = check_may_ask  # raises where it is too late to ask anybody
        self.allowed_by = ""  # by what the last wish may be run, where nobody was asked

    async def check(
        self, call: PendingCall, later_calls: Sequence[PendingCall]
    ) -> ToolOutput | None:
        """As `TurnPort.permit` promises it."""
        asked = self._approvals.for_call(call.call_id)
        if asked is not None:
            return _outcome(asked)
        verdict = await self._decide(call)
        if isinstance(verdict, str):
            self.allowed_by = verdict
            return None
        if isinstance(verdict, ToolOutput):
            return verdict
        to_ask = [(call, verdict)]
        for each in later_calls:
            also = await self._decide(each)
            if isinstance(also, CommandVerdict):
                to_ask.append((each, also))
        await self._ask(to_ask)
        raise WaitingForApproval

    def allowed_without_asking(self, call: PendingCall) -> str | None:
        """By what the call may run, where neither a person nor the store needs to be asked."""
        verdict = self._decide_by_settings(call)
        return verdict if isinstance(verdict, str) else None

    async def _decide(self, call: PendingCall) -> CommandVerdict | ToolOutput | str:
        """A word: it may run, by that. A judgement: people are to be asked about it."""
        verdict = self._decide_by_settings(call)
        if not isinstance(verdict, CommandVerdict):
            return verdict
        rule = await self._standing_rule(verdict)
        return verdict if rule is None else f"standing {rule.id}"

    def _decide_by_settings(self, call: PendingCall) -> CommandVerdict | ToolOutput | str:
        """As `_decide`, before the standing rules are read."""
        judgement = self._judge(call)
        if judgement.level is CommandRisk.HARMLESS:
            return "harmless"
        if judgement.level is CommandRisk.FORBIDDEN:
            return _refusal(_FORBIDDEN, judgement)
        match self._settings.mode:
            case ApprovalMode.OFF:
                return "mode off"
            case ApprovalMode.REFUSE:
                return _refusal(_REFUSED_BY_MODE, judgement)
        return judgement

    def _judge(self, call: PendingCall) -> CommandVerdict:
        if call.chat is not None:
            return self._services.send_policy.judge(call.chat, self._row)
        return self._services.judge.judge(call.command)

    async def _standing_rule(self, verdict: CommandVerdict) -> ApprovalRule | None:
        """By which this person, or somebody for them, has allowed what this rule asks about."""
        if not verdict.rule:
            return None
        rules = await self._services.store.read(
            ListApprovalRules(principal=self._requester, rule=verdict.rule)
        )
        return next((rule for rule in rules if rule.applies_to(self._asked_in)), None)

    async def _ask(self, calls: Sequence[tuple[PendingCall, CommandVerdict]]) -> None:
        self._check_may_ask()  # in the breath of the write: what was looked up before took its time
        ask = self._request(calls)
        await self._services.store.write(ask)

    def _request(self, calls: Sequence[tuple[PendingCall, CommandVerdict]]) -> ApprovalRequest:
        services, settings = self._services, self._settings
        at = services.clock.now()
        message = services.delivery_factory.reply(
            self._people_row, None, kind=DeliveryKind.QUESTION, session_id=self._session_id
        )
        approvals = tuple(
            self._approval(number, call, judgement, asked_by=message.id, at=at)
            for number, (call, judgement) in enumerate(calls, len(self._approvals) + 1)
        )
        message = msgspec.structs.replace(
            message,
            text=approval_text(approvals, at=at),
            turn_id=self._turn_id,
            inbox_id=None,  # it answers nothing
            expires_at=at + settings.timeout,
            buttons=approval_buttons(approvals),
        )
        return ApprovalRequest(
            session_id=self._session_id,
            turn_id=self._turn_id,
            approvals=approvals,
            deliveries=(message,),
            at=at,
        )

    def _approval(
        self,
        number: int,
        call: PendingCall,
        verdict: CommandVerdict,
        *,
        asked_by: DeliveryId,
        at: float,
    ) -> Approval:
        settings = self._settings
        return Approval(
            id=ApprovalId(self._services.new_id("ap")),
            session_id=self._session_id,
            asked_in=self._asked_in,
            turn_id=self._turn_id,
            call_id=call.call_id,
            number=number,
            tool=call.tool,
            # Here already: cut short, as a question shows it, half a secret is still one.
            command=escape_unprintable(self._services.redact(call.command)),
            rule=verdict.rule,
            why=verdict.why,
            requester=self._requester,
            approvers=self._approvers(settings.approvers),
            delivery_id=asked_by,
            asked_at=at,
            deadline=at + settings.timeout,
        )

    @property
    def _people_row(self) -> InboxRow:
        """Where people are: a subagent works in its own session, for the people of another."""
        subagent = self._row.inbound.subagent
        if subagent is None:
            return self._row
        inbound = msgspec.structs.replace(
            self._row.inbound, source=subagent.chat, message_id=subagent.message_id
        )
        return msgspec.structs.replace(self._row, inbound=inbound)

    @property
    def _asked_in(self) -> SessionId:
        subagent, run = self._row.inbound.subagent, self._row.inbound.run
        if run is not None and run.asked_in is not None:
            return run.asked_in
        return self._session_id if subagent is None else subagent.sandbox_session

    @property
    def _requester(self) -> PrincipalId:
        child = self._row.inbound.subagent
        return self._row.principal if child is None else child.principal

    def _approvers(self, names: Sequence[str]) -> tuple[PrincipalId, ...]:
        return tuple(self._requester if name == REQUESTER else PrincipalId(name) for name in names)


def _refusal(text: str, verdict: CommandVerdict) -> ToolOutput:
    return ToolOutput(text=text.format(why=verdict.why), outcome=ToolOutcome.REFUSED)


def _outcome(approval: Approval) -> ToolOutput | None:
    """What the end of a row means for its call; one without an end is waited for."""
    match approval.state:
        case ApprovalState.PENDING:
            raise WaitingForApproval
        case ApprovalState.APPROVED:
            return None
        case ApprovalState.DENIED:
            words = f" They said: {approval.comment}" if approval.comment else ""
            return ToolOutput(text=_DENIED.format(words=words), outcome=ToolOutcome.REFUSED)
    return ToolOutput(text=_NOT_RUN[approval.state], outcome=ToolOutcome.NOT_STARTED)
