"""Decides whether a tool call may run, and asks people where they must decide."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256

import msgspec

from holdfast.agent.turn_port import PendingCall, WaitingForApproval
from holdfast.core.config.settings import ApprovalMode, ApprovalSettings
from holdfast.core.ids import ApprovalId, CallId, DeliveryId, PrincipalId, SessionId, TurnId
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.outbox import Address, DeliveryKind, DeliveryState, NewDelivery
from holdfast.core.messages.transcript import Message, ToolOutcome
from holdfast.core.people.api_tokens import is_owner_principal
from holdfast.core.people.approval import (
    HARMLESS,
    REQUESTER,
    Approval,
    ApprovalRequest,
    ApprovalRule,
    ApprovalState,
    CommandJudge,
    CommandRisk,
    CommandVerdict,
    JudgeContext,
    JudgedInput,
    RuleMatch,
)
from holdfast.core.ports.runtime import Runtime
from holdfast.core.ports.store import Store
from holdfast.core.ports.store_queries import GetTranscript, ListApprovalRules
from holdfast.core.text.translation import use_catalogue
from holdfast.core.turns.external import (
    Effect,
    EffectKind,
    Taint,
    TaintPolicy,
    known_hosts,
    taint_reason,
    taint_rule,
    taint_target,
)
from holdfast.core.turns.tool import ToolOutput
from holdfast.gateway.access import AccessPolicy, Principal, principal_of
from holdfast.gateway.accounts.registry import PlatformRegistry
from holdfast.gateway.approvals.pending import PendingApprovals
from holdfast.gateway.approvals.prompt import (
    Answerers,
    approval_buttons,
    approval_text,
    escape_unprintable,
    operator_text,
)
from holdfast.gateway.chat_languages import ChatLanguages
from holdfast.gateway.notify.home_channels import HomeChannels
from holdfast.gateway.notify.send_policy import SendPolicy
from holdfast.gateway.outbound.delivery import DeliveryFactory, reply_address
from holdfast.gateway.redaction import Redaction

_FORBIDDEN = (
    "Refused, and not run. {why} Commands of this kind cannot be approved. Find another way, or "
    "tell the user what you would need."
)
_REFUSED_BY_MODE = (
    "Refused, and not run. {why} This gateway runs no dangerous commands. Find another way, or "
    "tell the user what you would need."
)
_REFUSED_BY_TAINT = (
    "Refused, and not run. {why} This gateway does not do this in such a conversation. Tell the "
    "user what you would need; a new conversation (/new) has no external content."
)
_DENIED = "The user was asked, and denied it: this command was not run.{words}"
_NOT_RUN = {
    ApprovalState.EXPIRED: "Not run: it needs a person's approval, and there was no answer in "
    "time. The user has not denied it. Go on without it if you can, and say what is left to do.",
    ApprovalState.UNDELIVERABLE: "Not run: it needs a person's approval, and the question could "
    "not be delivered. The user has not denied it. Go on without it if you can, and say so.",
    ApprovalState.WITHDRAWN: "Not run: the question whether it may was withdrawn.",
}

_MAX_NESTED_SCRIPTS = 3


class AskingTurn(msgspec.Struct, frozen=True, kw_only=True):
    """The turn whose calls are checked. Its requests are in its `approvals`."""

    session_id: SessionId
    turn_id: TurnId
    row: InboxRow  # the message that the turn answers
    approvals: PendingApprovals
    settings: ApprovalSettings
    find_process: Callable[[str], Awaitable[str]]  # the command of a process; "": unknown
    read_script: Callable[[str], Awaitable[str]]  # a file of the workspace; "": not a short text
    taints: tuple[Taint, ...] = ()  # external content for the requester
    taint_policy: TaintPolicy = TaintPolicy.ASK
    messages: Sequence[Message] = ()  # of the conversation, as far as they are in memory
    check_may_ask: Callable[[], None]  # raises where it is too late to ask a person

    @property
    def people_row(self) -> InboxRow:
        """The message that shows where the people are: a subagent works in its own session, for the
        people of another."""
        subagent = self.row.inbound.subagent
        if subagent is None:
            return self.row
        inbound = msgspec.structs.replace(
            self.row.inbound, source=subagent.chat, message_id=subagent.message_id
        )
        return msgspec.structs.replace(self.row, inbound=inbound)

    @property
    def asked_in(self) -> SessionId:
        subagent, run = self.row.inbound.subagent, self.row.inbound.run
        if run is not None and run.asked_in is not None:
            return run.asked_in
        return self.session_id if subagent is None else subagent.sandbox_session

    @property
    def requester(self) -> PrincipalId:
        subagent = self.row.inbound.subagent
        return self.row.principal if subagent is None else subagent.principal


class Approvers:
    """Decides who may answer the request of a turn, and where operators are asked. Owns nothing."""

    def __init__(
        self, access: AccessPolicy, home_channels: HomeChannels, platforms: PlatformRegistry
    ) -> None:
        self._access = access
        self._home_channels = home_channels
        self._platforms = platforms

    def of(self, turn: AskingTurn) -> tuple[PrincipalId, ...]:
        """Besides the operators. The requester is not among them if they were only admitted with
        everyone, or with a chat."""
        named = (
            turn.requester if name == REQUESTER else PrincipalId(name)
            for name in turn.settings.approvers
            if name != REQUESTER or self._access.is_named(_requester(turn))
        )
        return tuple(dict.fromkeys(named))

    def operators_chat(self, turn: AskingTurn) -> Address | None:
        """The home channel where operators see a request that its own chat may not answer: that of
        the platform, else any. None: there is none, or it is that chat."""
        here = reply_address(turn.people_row)
        homes = [
            home.address
            for home in self._home_channels.all()
            if (platform := self._platforms.find(home.address)) is not None
            and not platform.capabilities.fetchable
        ]
        homes.sort(key=lambda home: home.platform != here.platform)
        return homes[0] if homes else None


def _requester(turn: AskingTurn) -> Principal:
    direct = principal_of(turn.people_row.inbound.source)
    # A job or a subagent works for the person who made it, in a source of its own.
    owner = is_owner_principal(turn.requester)
    return Principal(
        id=turn.requester,
        authenticated=owner or (direct.authenticated and direct.id == turn.requester),
    )


class ApprovalGate:
    """Decides for the calls of all turns. Owns nothing: pending approvals are in the turns."""

    def __init__(
        self,
        store: Store,
        runtime: Runtime,
        *,
        judge: CommandJudge,
        send_policy: SendPolicy,
        approvers: Approvers,
        deliveries: DeliveryFactory,
        redact: Redaction,
        languages: ChatLanguages,
    ) -> None:
        self._store = store
        self._runtime = runtime
        self._judge = judge
        self._send_policy = send_policy
        self._approvers = approvers
        self._deliveries = deliveries
        self._redact = redact
        self._languages = languages

    async def check(
        self, turn: AskingTurn, call: PendingCall, later_calls: Sequence[PendingCall]
    ) -> ToolOutput | str:
        """Why the call may run ("": a person approved it), or the result that it gets instead.
        Raises `WaitingForApproval` where people were asked, also about the calls after it."""
        asked = turn.approvals.for_call(call.call_id)
        if asked is not None:
            return _outcome(asked) or ""
        verdict = await self._decide(turn, call)
        if not isinstance(verdict, CommandVerdict):
            return verdict
        to_ask = [(call, verdict)]
        for each in later_calls:
            also = await self._decide(turn, each)
            if isinstance(also, CommandVerdict):
                to_ask.append((each, also))
        turn.check_may_ask()  # right before the write: the decisions above took their time
        await self._store.write(self._request(turn, to_ask))
        raise WaitingForApproval

    def allowed_without_asking(self, turn: AskingTurn, call: PendingCall) -> str | None:
        """Why the call may run, if neither a person nor the store is needed to decide."""
        if call.process is not None:
            return None  # its program is known only to its runner
        if self._tainted_effect(turn, call) is not None:
            return None
        judgement = self._judgement(turn, call)
        if judgement.scripts:
            return None  # they have to be read
        verdict = _decide_by_settings(turn, judgement)
        return verdict if isinstance(verdict, str) else None

    async def _decide(
        self, turn: AskingTurn, call: PendingCall
    ) -> CommandVerdict | ToolOutput | str:
        """A text: why the call may run. A result: it is refused. A verdict: ask people about it."""
        process = "" if call.process is None else await turn.find_process(call.process)
        judgement = self._judgement(turn, call, process=process)
        scripts: dict[str, str] = {}
        for _ in range(_MAX_NESTED_SCRIPTS):  # a script may run others
            if not judgement.scripts:
                break
            scripts |= {path: await turn.read_script(path) for path in judgement.scripts}
            judgement = self._judgement(turn, call, scripts=scripts)
        verdict = _decide_by_settings(turn, judgement)
        if isinstance(verdict, CommandVerdict):
            verdict = await self._standing_or_ask(turn, verdict)
        tainted = await self._judge_tainted(turn, call)
        if tainted is None or isinstance(verdict, ToolOutput):
            return verdict
        if self._refuses_tainted(turn):
            return _refusal(_REFUSED_BY_TAINT, tainted)
        if isinstance(verdict, CommandVerdict):
            # One question with both reasons. A standing answer to one does not answer the other.
            only_once = (msgspec.structs.replace(match, target=None) for match in tainted.matches)
            return msgspec.structs.replace(verdict, also=(*verdict.also, *only_once))
        return await self._standing_or_ask(turn, tainted)

    async def _standing_or_ask(
        self, turn: AskingTurn, verdict: CommandVerdict
    ) -> CommandVerdict | str:
        rules = await self._standing_rules(turn, verdict)
        names = ", ".join(dict.fromkeys(rule.id for rule in rules))
        return f"standing {names}" if rules else verdict

    def _judgement(
        self,
        turn: AskingTurn,
        call: PendingCall,
        *,
        process: str = "",
        scripts: Mapping[str, str] | None = None,
    ) -> CommandVerdict:
        if call.chat is not None:
            return self._send_policy.judge(call.chat, turn.row)
        if call.file is None and call.process is None and not call.runs_command:
            return HARMLESS  # only its effect counts
        text, kind = call.command, JudgedInput.COMMAND
        if call.file is not None:
            text = call.file.path
            kind = JudgedInput.WRITTEN_PATH if call.file.writes else JudgedInput.READ_PATH
        elif call.process is not None:
            kind = JudgedInput.PROCESS_INPUT
        patterns = turn.settings.patterns
        if kind is JudgedInput.COMMAND and not patterns and not scripts:
            return self._judge.judge(text)
        context = JudgeContext(kind=kind, patterns=patterns, process=process, scripts=scripts or {})
        return self._judge.judge(text, context)

    async def may_contact(self, turn: AskingTurn, host: str) -> bool:
        """Whether a running call may contact the host. Where a command contacts hosts by the
        network of the sandbox, that network asks here, too."""
        effect = Effect(kind=EffectKind.CONTACT, text=host, targets=(host,))
        call = PendingCall(
            call_id=CallId(""), tool="", command=host, effect=effect, runs_command=False
        )
        tainted = await self._judge_tainted(turn, call)
        return tainted is None or bool(await self._standing_rules(turn, tainted))

    @staticmethod
    def _refuses_tainted(turn: AskingTurn) -> bool:
        return turn.taint_policy is TaintPolicy.REFUSE or turn.settings.mode is ApprovalMode.REFUSE

    def _tainted_effect(self, turn: AskingTurn, call: PendingCall) -> Effect | None:
        """What the call does that this turn may not do without asking, before known hosts are
        left out."""
        if not turn.taints or turn.taint_policy is TaintPolicy.OFF:
            return None
        if call.chat is not None and not self._send_policy.is_own_chat(call.chat, turn.row):
            return Effect(kind=EffectKind.SEND, text=call.command, targets=(call.chat,))
        return call.effect

    async def _judge_tainted(self, turn: AskingTurn, call: PendingCall) -> CommandVerdict | None:
        """The verdict of a call that external content may have caused; None: it may run."""
        effect = self._tainted_effect(turn, call)
        if effect is not None and effect.kind is EffectKind.CONTACT:
            known = await self._known_hosts(turn)
            unknown = tuple(host for host in effect.targets if host not in known)
            if not unknown and effect.complete:
                return None
            effect = msgspec.structs.replace(effect, targets=unknown)
        if effect is None:
            return None
        return CommandVerdict(
            level=CommandRisk.DANGEROUS,
            rule=taint_rule(effect),
            why=taint_reason(effect, turn.taints),
            target=taint_target(effect),
        )

    async def _known_hosts(self, turn: AskingTurn) -> frozenset[str]:
        """From the whole transcript: what a summary covers counts, too."""
        records = await self._store.read(GetTranscript(session_id=turn.session_id))
        messages = [*(record.message for record in records), *turn.messages]
        return known_hosts(messages, turn.requester)

    async def _standing_rules(
        self, turn: AskingTurn, verdict: CommandVerdict
    ) -> Sequence[ApprovalRule]:
        """The rules by which this requester was allowed all that the verdict asks about; empty: at
        least one thing was not."""
        if not all(match.may_stand for match in verdict.matches):
            return ()
        known = await self._store.read(ListApprovalRules(principal=turn.requester))
        now = self._runtime.clock.now()
        found = [
            next((r for r in known if r.covers(match, session_id=turn.asked_in, now=now)), None)
            for match in verdict.matches
        ]
        return () if None in found else [rule for rule in found if rule is not None]

    def _request(
        self, turn: AskingTurn, calls: Sequence[tuple[PendingCall, CommandVerdict]]
    ) -> ApprovalRequest:
        at = self._runtime.clock.now()
        message = self._deliveries.reply(
            turn.people_row, None, kind=DeliveryKind.QUESTION, session_id=turn.session_id
        )
        approvers = self._approvers.of(turn)
        home = None if approvers else self._approvers.operators_chat(turn)
        elsewhere = home if home != _without_thread(message.address, like=home) else None
        copy_id = DeliveryId(self._runtime.new_id("dlv"))
        approvals = tuple(
            self._approval(
                turn,
                number,
                call,
                verdict,
                approvers=approvers,
                # The one that must arrive: where people are who may answer.
                asked_by=message.id if elsewhere is None else copy_id,
                at=at,
            )
            for number, (call, verdict) in enumerate(calls, len(turn.approvals) + 1)
        )
        answerers = Answerers.NAMED
        if not approvers:
            answerers = Answerers.OPERATORS if home is not None else Answerers.OWNER
        with use_catalogue(self._languages.of_message(turn.row)):
            message = msgspec.structs.replace(
                message,
                text=approval_text(approvals, at=at, answerers=answerers),
                turn_id=turn.turn_id,
                inbox_id=None,  # it answers nothing
                expires_at=at + turn.settings.timeout,
                buttons=approval_buttons(approvals),
            )
        deliveries: tuple[NewDelivery, ...] = (message,)
        if elsewhere is not None:
            with use_catalogue(self._languages.of_chat(elsewhere)):
                text = operator_text(approvals, at=at)
            copy = msgspec.structs.replace(message, id=copy_id, address=elsewhere, text=text)
            # In a chat of its own platform it is pending, also if the requester fetches replies.
            deliveries = (message, msgspec.structs.replace(copy, state=DeliveryState.PENDING))
        return ApprovalRequest(
            session_id=turn.session_id,
            turn_id=turn.turn_id,
            approvals=approvals,
            deliveries=deliveries,
            at=at,
        )

    def _approval(
        self,
        turn: AskingTurn,
        number: int,
        call: PendingCall,
        verdict: CommandVerdict,
        *,
        approvers: tuple[PrincipalId, ...],
        asked_by: DeliveryId,
        at: float,
    ) -> Approval:
        return Approval(
            id=ApprovalId(self._runtime.new_id("ap")),
            session_id=turn.session_id,
            asked_in=turn.asked_in,
            turn_id=turn.turn_id,
            call_id=call.call_id,
            number=number,
            tool=call.tool,
            # Redacted before it is shortened for the question: half a secret is still a secret.
            command=escape_unprintable(self._redact(call.command)),
            rule=verdict.rule,
            why=escape_unprintable(self._redact(verdict.why)),
            requester=turn.requester,
            approvers=approvers,
            delivery_id=asked_by,
            asked_at=at,
            deadline=at + turn.settings.timeout,
            matches=tuple(map(self._showable, verdict.matches)),
            digest=sha256(call.command.encode(errors="surrogatepass")).hexdigest(),
        )

    def _showable(self, match: RuleMatch) -> RuleMatch:
        """As it may be shown and stored. A target with a secret in it is not stored: such a command
        can only be approved once."""
        target = match.target
        return RuleMatch(
            rule=match.rule,
            why=escape_unprintable(self._redact(match.why)),
            part=escape_unprintable(self._redact(match.part)),
            target=None if target is None or self._redact(target) != target else target,
        )


def _decide_by_settings(
    turn: AskingTurn, judgement: CommandVerdict
) -> CommandVerdict | ToolOutput | str:
    """As `ApprovalGate._decide`, before the standing rules are read."""
    if judgement.level is CommandRisk.HARMLESS:
        return "harmless"
    if judgement.level is CommandRisk.FORBIDDEN:
        return _refusal(_FORBIDDEN, judgement)
    match turn.settings.mode:
        case ApprovalMode.OFF:
            return "mode off"
        case ApprovalMode.REFUSE:
            return _refusal(_REFUSED_BY_MODE, judgement)
    return judgement


def _without_thread(address: Address, *, like: Address | None) -> Address:
    """The address in the form of a home channel, which answers no message."""
    thread = address.thread_id if like is not None and like.thread_id else None
    return msgspec.structs.replace(address, thread_id=thread, reply_to=None)


def _refusal(text: str, verdict: CommandVerdict) -> ToolOutput:
    return ToolOutput(text=text.format(why=verdict.why), outcome=ToolOutcome.REFUSED)


def _outcome(approval: Approval) -> ToolOutput | None:
    """The result of an ended approval for its call; raises `WaitingForApproval` without an end."""
    match approval.state:
        case ApprovalState.PENDING:
            raise WaitingForApproval
        case ApprovalState.APPROVED:
            return None
        case ApprovalState.DENIED:
            words = f" They said: {approval.comment}" if approval.comment else ""
            return ToolOutput(text=_DENIED.format(words=words), outcome=ToolOutcome.REFUSED)
    return ToolOutput(text=_NOT_RUN[approval.state], outcome=ToolOutcome.NOT_STARTED)
