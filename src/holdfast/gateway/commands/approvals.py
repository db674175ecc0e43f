"""Commands about approvals: /approve, /deny, /approvals."""

from collections.abc import Awaitable, Callable, Sequence

from holdfast.core.commands import COMMANDS_BY_NAME
from holdfast.core.errors import StoreError
from holdfast.core.ids import ApprovalId
from holdfast.core.messages.source import Source
from holdfast.core.people.approval import Approval, ApprovalDecision, ApprovalRule, ApprovalScope
from holdfast.core.ports.store_queries import GetApproval, ListApprovalRules
from holdfast.gateway.approvals.prompt import command_summary, format_duration
from holdfast.gateway.approvals.service import (
    ApprovalResponse,
    ApprovalService,
    late_answer_text,
    principal_name,
)
from holdfast.gateway.commands.command import CommandRequest
from holdfast.gateway.commands.reply import commit_effect, prepare_effect, send_reply
from holdfast.gateway.inbound.access import principal_of
from holdfast.gateway.services import Services

NOTHING_PENDING = "Nothing waits for approval here."
_ALL = "all"
_REVOKE = "revoke"


class ApprovalReplies:
    """What /approve, /deny and a plain yes or no have in common: which approval is meant, whether
    the sender may answer it, and the commit."""

    def __init__(self, services: Services, approvals: ApprovalService) -> None:
        self._services = services
        self._approvals = approvals

    def begin(
        self, request: CommandRequest, *, target: str, answer: ApprovalResponse
    ) -> Awaitable[None]:
        """`target`: a number, an id, "all", or "" for the only one there is. The approvals are
        claimed in this call, so that of two answers one is the first."""
        found = self._find_approvals(request, target, answer)
        if isinstance(found, str):
            return send_reply(self._services, request.row, found)
        if not found:
            return self._reply_ended(request, ApprovalId(target))
        source = request.row.inbound.source
        allowed = [each for each in found if self._approvals.may_answer(each, source)]
        if not allowed:
            return send_reply(self._services, request.row, _not_allowed_text(found[0]))
        decision = self._approvals.claim(allowed, answer, by=request.row.principal)
        return self._decide(request, decision, _decided_text(allowed, answer))

    async def _decide(self, request: CommandRequest, decision: ApprovalDecision, text: str) -> None:
        effect = prepare_effect(self._services, request.row, text, decision=decision)
        try:
            await commit_effect(
                self._services,
                effect,
                on_committed=lambda _: self._approvals.settled(decision, durable=True),
            )
        except StoreError:
            self._approvals.settled(decision, durable=False)
            raise

    def _find_approvals(
        self, request: CommandRequest, target: str, answer: ApprovalResponse
    ) -> list[Approval] | str:
        """The approvals that are meant, or why there is none; []: look in the store."""
        if is_approval_id(target):
            found = self._approvals.find(ApprovalId(target))
            if found is None:
                return []
            return [found] if found.pending else late_answer_text(found)
        pending = self._approvals.pending_in(request.session_id)
        if target.isdecimal():
            # int() of very long numbers raises, and a command that fails here fails at every start.
            return self._find_by_number(request, pending, int(target[:9]))
        if not pending:
            return self._nothing_pending_text(request)
        if len(pending) > 1 and target != _ALL:
            lines = [f"{each.number}. {command_summary(each)}" for each in pending]
            how = "/approve" if answer.approved else "/deny"
            which = f"Which one? {how} {pending[0].number} is the first, {how} all is all of them:"
            return "\n".join([which, *lines])
        return pending

    def _find_by_number(
        self, request: CommandRequest, pending: Sequence[Approval], number: int
    ) -> list[Approval] | str:
        found = [each for each in pending if each.number == number]
        if len(found) > 1:
            lines = [f"{each.id}: {command_summary(each)}" for each in found]
            return "\n".join(["Several have that number. Say which, by its id:", *lines])
        if found:
            return found
        known = self._approvals.of_turn(request.session_id) if request.session_id else ()
        ended = next((each for each in known if each.number == number), None)
        return late_answer_text(ended) if ended else NOTHING_PENDING

    def _nothing_pending_text(self, request: CommandRequest) -> str:
        """Nothing is pending: shows the last answer of the running turn, if there was one."""
        known = self._approvals.of_turn(request.session_id) if request.session_id else ()
        return f"{late_answer_text(known[-1])} /stop ends what runs." if known else NOTHING_PENDING

    async def _reply_ended(self, request: CommandRequest, approval_id: ApprovalId) -> None:
        row = await self._services.store.read(GetApproval(approval_id=approval_id))
        text = f"There is no approval {approval_id}." if row is None else late_answer_text(row)
        await send_reply(self._services, request.row, text)


def is_approval_id(word: str) -> bool:
    return word.startswith("ap_")


def is_target(word: str) -> bool:
    return word.isdecimal() or is_approval_id(word) or word.lower() == _ALL


def _not_allowed_text(approval: Approval) -> str:
    people = " or ".join(map(principal_name, approval.approvers)) or "an operator"
    return f"Only {people} may answer this."


def _decided_text(chosen: Sequence[Approval], answer: ApprovalResponse) -> str:
    verb = "Approved" if answer.approved else "Denied"
    what = "\n".join(command_summary(each) for each in chosen)
    if not answer.approved or answer.scope is ApprovalScope.ONCE:
        return f"{verb}: {what}"
    if not any(each.rule for each in chosen):
        return f"{verb}, but only this once, since it is like nothing else: {what}"
    scope = "in this conversation" if answer.scope is ApprovalScope.SESSION else "from now on"
    return f"{verb}, with all that is like it {scope} (/approvals lists and revokes): {what}"


class ApproveCommand:
    """/approve: let a command run that waits for approval."""

    name = "approve"

    def __init__(self, services: Services, approval_replies: ApprovalReplies) -> None:
        self._services = services
        self._approval_replies = approval_replies

    def begin(self, request: CommandRequest) -> Awaitable[None]:
        words = request.argument.split()
        target = words.pop(0) if words and is_target(words[0]) else ""
        scope = words.pop(0).lower() if words else ApprovalScope.ONCE
        if words or scope not in list(ApprovalScope):
            return send_reply(
                self._services,
                request.row,
                COMMANDS_BY_NAME[self.name].usage_error("That is no answer."),
            )
        answer = ApprovalResponse(approved=True, scope=ApprovalScope(scope))
        return self._approval_replies.begin(request, target=target.lower(), answer=answer)


class DenyCommand:
    """/deny: do not let a command run that waits for approval, and say why."""

    name = "deny"

    def __init__(self, approval_replies: ApprovalReplies) -> None:
        self._approval_replies = approval_replies

    def begin(self, request: CommandRequest) -> Awaitable[None]:
        first, _, rest = request.argument.partition(" ")
        target, comment = (first.lower(), rest) if is_target(first) else ("", request.argument)
        answer = ApprovalResponse(approved=False, comment=comment.strip())
        return self._approval_replies.begin(request, target=target, answer=answer)


class ApprovalsCommand:
    """/approvals: list pending approvals and standing rules, or revoke a rule. Operators see the
    rules of all people."""

    name = "approvals"

    def __init__(
        self,
        services: Services,
        approvals: ApprovalService,
        *,
        is_operator: Callable[[Source], bool],
    ) -> None:
        self._services = services
        self._approvals = approvals
        self._is_operator = is_operator

    def begin(self, request: CommandRequest) -> Awaitable[None]:
        verb, _, which = request.argument.partition(" ")
        if verb.lower() == _REVOKE:
            return self._revoke(request, which.strip())
        if verb:
            wrong = COMMANDS_BY_NAME[self.name].usage_error(f"/approvals knows no {verb!r}.")
            return send_reply(self._services, request.row, wrong)
        return self._list(request)

    async def _list(self, request: CommandRequest) -> None:
        now = self._services.clock.now()
        lines = [
            f"Waits ({each.number}), for {format_duration(each.deadline - now)} more: "
            + command_summary(each)
            for each in self._approvals.pending_in(request.session_id)
        ] or [NOTHING_PENDING]
        rules = await self._rules(request)
        lines += [f"{number}. {_rule_line(rule, request)}" for number, rule in enumerate(rules, 1)]
        if rules:
            lines.append("/approvals revoke 1 takes the first of these back.")
        await send_reply(self._services, request.row, "\n".join(lines))

    async def _revoke(self, request: CommandRequest, which: str) -> None:
        rules = await self._rules(request)
        by_number = {str(number): rule for number, rule in enumerate(rules, 1)}
        rule = (by_number | {str(rule.id): rule for rule in rules}).get(which)
        if rule is None:
            text = f"There is no rule {which or '(say which)'}; /approvals lists them."
            await send_reply(self._services, request.row, text)
            return
        decision = ApprovalDecision(revoked=(rule.id,), at=self._services.clock.now())
        await send_reply(
            self._services, request.row, f"Revoked: {_rule_line(rule, request)}", decision=decision
        )

    async def _rules(self, request: CommandRequest) -> list[ApprovalRule]:
        """A person's own rules; all rules for an operator."""
        source = request.row.inbound.source
        own = None if self._is_operator(source) else principal_of(source).id
        return list(await self._services.store.read(ListApprovalRules(principal=own)))


def _rule_line(rule: ApprovalRule, request: CommandRequest) -> str:
    return f"{rule.rule}, {_rule_scope(rule, request)}, for {rule.principal}"


def _rule_scope(rule: ApprovalRule, request: CommandRequest) -> str:
    if rule.scope is ApprovalScope.ALWAYS:
        return "always"
    here = rule.session_id == request.session_id
    return "in this conversation" if here else f"in session {rule.session_id}"
