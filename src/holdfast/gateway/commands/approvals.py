"""/approvals: what waits for a word here, and which words stand; and taking one back."""

from collections.abc import Awaitable, Callable

from holdfast.core.messages.source import Source
from holdfast.core.people.approval import ApprovalDecision, ApprovalRule, ApprovalScope
from holdfast.core.people.commands import COMMANDS_BY_NAME
from holdfast.gateway.approvals.prompt import command_summary as in_short
from holdfast.gateway.approvals.prompt import format_duration
from holdfast.gateway.approvals.service import ApprovalService
from holdfast.gateway.commands.command import CommandRequest
from holdfast.gateway.commands.reply import send_reply
from holdfast.gateway.inbound.authorise import principal_of
from holdfast.gateway.services import Services

_REVOKE = "revoke"


class ApprovalsCommand:
    """`operates`: whether whoever asks from there sees everybody's rules."""

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
            f"Waits ({each.number}), for {format_duration(each.deadline - now)} more: {in_short(each)}"
            for each in self._approvals.pending_in(request.session_id)
        ] or ["Nothing waits for approval here."]
        rules = await self._rules(request)
        lines += [f"{number}. {_rule_line(rule, request)}" for number, rule in enumerate(rules, 1)]
        if rules:
            lines.append("/approvals revoke 1 takes the first of these back.")
        await send_reply(self._services, request.row, "\n".join(lines))

    async def _revoke(self, request: CommandRequest, which: str) -> None:
        rules = await self._rules(request)
        meant = {str(number): rule for number, rule in enumerate(rules, 1)}
        rule = (meant | {str(rule.id): rule for rule in rules}).get(which)
        if rule is None:
            text = f"There is no rule {which or '(say which)'}; /approvals lists them."
            await send_reply(self._services, request.row, text)
            return
        decision = ApprovalDecision(revoked=(rule.id,), at=self._services.clock.now())
        await send_reply(
            self._services, request.row, f"Revoked: {_rule_line(rule, request)}", decision=decision
        )

    async def _rules(self, request: CommandRequest) -> list[ApprovalRule]:
        """A person's own; an operator sees all."""
        source = request.row.inbound.source
        own = None if self._is_operator(source) else principal_of(source).id
        return list(await self._services.store.approval_rules(principal=own))


def _rule_line(rule: ApprovalRule, request: CommandRequest) -> str:
    return f"{rule.rule}, {_rule_scope(rule, request)}, for {rule.principal}"


def _rule_scope(rule: ApprovalRule, request: CommandRequest) -> str:
    if rule.scope is ApprovalScope.ALWAYS:
        return "always"
    here = rule.session_id == request.session_id
    return "in this conversation" if here else f"in session {rule.session_id}"
