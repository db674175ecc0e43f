"""Asking: whether a call may run, and the message that puts it to people where they must say."""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from holdfast.agent.work import Waiting, Wish
from holdfast.core.config.settings import ApprovalMode, ApprovalSettings
from holdfast.core.crash_points import CrashPoint
from holdfast.core.ids import ApprovalId, DeliveryId, PrincipalId, SessionId, TurnId
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.message import Outcome
from holdfast.core.messages.outbox import DeliveryKind
from holdfast.core.people.approval import REQUESTER, Approval, ApprovalState, Ask, StandingRule
from holdfast.core.people.judgement import Judgement, Level
from holdfast.core.turns.tool import ToolOutput
from holdfast.gateway.approvals.pending import TurnApprovals
from holdfast.gateway.approvals.prompt import choices, question, seen
from holdfast.gateway.services import House

_HOPELESS = (
    "Refused, and not run. {why} Nobody is asked about a command of this kind. Find another way, "
    "or tell the user what you would need."
)
_UNWANTED = (
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


class Permission:
    """Speaks for one turn; what it asks for is kept in the turn's approvals, which it is lent."""

    def __init__(
        self,
        house: House,
        approvals: TurnApprovals,
        *,
        session_id: SessionId,
        turn_id: TurnId,
        row: InboxRow,
        settings: ApprovalSettings,
        may_ask: Callable[[], None],
    ) -> None:
        self._house = house
        self._approvals = approvals
        self._session_id = session_id
        self._turn_id = turn_id
        self._row = row  # the message that the turn answers
        self._settings = settings
        self._may_ask = may_ask  # raises where it is too late to ask anybody
        self.allowed = ""  # by what the last wish may be run, where nobody was asked

    async def of(self, wish: Wish, later: Sequence[Wish]) -> ToolOutput | None:
        """As `agent.work.Work.permit` promises it."""
        asked = self._approvals.of_call(wish.call_id)
        if asked is not None:
            return _outcome(asked)
        verdict = await self._verdict(wish)
        if isinstance(verdict, str):
            self.allowed = verdict
            return None
        if isinstance(verdict, ToolOutput):
            return verdict
        wanted = [(wish, verdict)]
        for each in later:
            also = await self._verdict(each)
            if isinstance(also, Judgement):
                wanted.append((each, also))
        await self._ask(wanted)
        raise Waiting

    async def _verdict(self, wish: Wish) -> Judgement | ToolOutput | str:
        """A word: it may run, by that. A judgement: people are to be asked about it."""
        judgement = self._judged(wish)
        if judgement.level is Level.HARMLESS:
            return "harmless"
        if judgement.level is Level.HOPELESS:
            return _refused(_HOPELESS, judgement)
        match self._settings.mode:
            case ApprovalMode.OFF:
                return "mode off"
            case ApprovalMode.REFUSE:
                return _refused(_UNWANTED, judgement)
        rule = await self._stands(judgement)
        return judgement if rule is None else f"standing {rule.id}"

    def _judged(self, wish: Wish) -> Judgement:
        if wish.to is not None:
            return self._house.outreach.judged(wish.to, self._row)
        return self._house.judge.judge(wish.command)

    async def _stands(self, judgement: Judgement) -> StandingRule | None:
        """By which this person, or somebody for them, has allowed what this rule asks about."""
        if not judgement.rule:
            return None
        rules = await self._house.store.standing_rules(
            principal=self._requester, rule=judgement.rule
        )
        return next((rule for rule in rules if rule.holds_in(self._asked_in)), None)

    async def _ask(self, wanted: Sequence[tuple[Wish, Judgement]]) -> None:
        self._may_ask()  # in the breath of the write: what was looked up before took its time
        ask = self._question(wanted)
        asking = asyncio.ensure_future(self._house.store.ask_approvals(ask))

        # By the commit itself, so that an answer finds what it answers, whoever waits for this.
        def asked(done: asyncio.Future[None]) -> None:
            if not done.cancelled() and done.exception() is None:
                self._house.crash(CrashPoint.APPROVAL_ASKED)
                self._approvals.add(ask.approvals, at=ask.at)
                self._house.announcer.messages((), ask.deliveries)
                for session_id in {self._session_id, self._asked_in}:
                    self._house.feeds.changed(session_id)

        asking.add_done_callback(asked)
        await asyncio.shield(asking)

    def _question(self, wanted: Sequence[tuple[Wish, Judgement]]) -> Ask:
        house, settings = self._house, self._settings
        at = house.clock.now()
        message = house.replies.to(
            self._people, None, kind=DeliveryKind.QUESTION, session_id=self._session_id
        )
        approvals = tuple(
            self._approval(number, wish, judgement, asked_by=message.id, at=at)
            for number, (wish, judgement) in enumerate(wanted, len(self._approvals) + 1)
        )
        message = msgspec.structs.replace(
            message,
            text=question(approvals, at=at),
            turn_id=self._turn_id,
            inbox_id=None,  # it answers nothing
            expires_at=at + settings.timeout,
            choices=choices(approvals),
        )
        return Ask(
            session_id=self._session_id,
            turn_id=self._turn_id,
            approvals=approvals,
            deliveries=(message,),
            at=at,
        )

    def _approval(
        self, number: int, wish: Wish, judgement: Judgement, *, asked_by: DeliveryId, at: float
    ) -> Approval:
        settings = self._settings
        return Approval(
            id=ApprovalId(self._house.new_id("ap")),
            session_id=self._session_id,
            asked_in=self._asked_in,
            turn_id=self._turn_id,
            call_id=wish.call_id,
            number=number,
            tool=wish.tool,
            # Here already: cut short, as a question shows it, half a secret is still one.
            command=seen(self._house.redact(wish.command)),
            rule=judgement.rule,
            why=judgement.why,
            requester=self._requester,
            approvers=self._approvers(settings.approvers),
            delivery_id=asked_by,
            asked_at=at,
            deadline=at + settings.timeout,
        )

    @property
    def _people(self) -> InboxRow:
        """Where people are: a child works in a session of its own, for those of another."""
        child = self._row.inbound.child
        if child is None:
            return self._row
        inbound = msgspec.structs.replace(
            self._row.inbound, source=child.chat, message_id=child.message_id
        )
        return msgspec.structs.replace(self._row, inbound=inbound)

    @property
    def _asked_in(self) -> SessionId:
        child, run = self._row.inbound.child, self._row.inbound.run
        if run is not None and run.asked_in is not None:
            return run.asked_in
        return self._session_id if child is None else child.bench

    @property
    def _requester(self) -> PrincipalId:
        child = self._row.inbound.child
        return self._row.principal if child is None else child.principal

    def _approvers(self, names: Sequence[str]) -> tuple[PrincipalId, ...]:
        return tuple(self._requester if name == REQUESTER else PrincipalId(name) for name in names)


def _refused(text: str, judgement: Judgement) -> ToolOutput:
    return ToolOutput(text=text.format(why=judgement.why), outcome=Outcome.REFUSED)


def _outcome(approval: Approval) -> ToolOutput | None:
    """What the end of a row means for its call; one without an end is waited for."""
    match approval.state:
        case ApprovalState.PENDING:
            raise Waiting
        case ApprovalState.APPROVED:
            return None
        case ApprovalState.DENIED:
            words = f" They said: {approval.words}" if approval.words else ""
            return ToolOutput(text=_DENIED.format(words=words), outcome=Outcome.REFUSED)
    return ToolOutput(text=_NOT_RUN[approval.state], outcome=Outcome.NOT_STARTED)
