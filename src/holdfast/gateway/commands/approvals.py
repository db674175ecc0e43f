"""/approvals: what waits for a word here, and which words stand; and taking one back."""

from collections.abc import Awaitable, Callable

from holdfast.core.messages.source import Source
from holdfast.core.people.approval import Decision, Scope, StandingRule
from holdfast.core.people.commands import BY_NAME
from holdfast.gateway.approvals.prompt import lasting
from holdfast.gateway.approvals.prompt import named as in_short
from holdfast.gateway.approvals.service import Approvals
from holdfast.gateway.commands.command import Asked
from holdfast.gateway.commands.reply import answer
from holdfast.gateway.inbound.authorise import principal_of
from holdfast.gateway.services import House

_REVOKE = "revoke"


class ApprovalsCommand:
    """`operates`: whether whoever asks from there sees everybody's rules."""

    name = "approvals"

    def __init__(
        self, house: House, approvals: Approvals, *, operates: Callable[[Source], bool]
    ) -> None:
        self._house = house
        self._approvals = approvals
        self._operates = operates

    def begin(self, asked: Asked) -> Awaitable[None]:
        verb, _, which = asked.argument.partition(" ")
        if verb.lower() == _REVOKE:
            return self._revoke(asked, which.strip())
        if verb:
            wrong = BY_NAME[self.name].misused(f"/approvals knows no {verb!r}.")
            return answer(self._house, asked.row, wrong)
        return self._list(asked)

    async def _list(self, asked: Asked) -> None:
        now = self._house.clock.now()
        lines = [
            f"Waits ({each.number}), for {lasting(each.deadline - now)} more: {in_short(each)}"
            for each in self._approvals.asked_in(asked.session_id)
        ] or ["Nothing waits for approval here."]
        rules = await self._rules(asked)
        lines += [f"{number}. {_line(rule, asked)}" for number, rule in enumerate(rules, 1)]
        if rules:
            lines.append("/approvals revoke 1 takes the first of these back.")
        await answer(self._house, asked.row, "\n".join(lines))

    async def _revoke(self, asked: Asked, which: str) -> None:
        rules = await self._rules(asked)
        meant = {str(number): rule for number, rule in enumerate(rules, 1)}
        rule = (meant | {str(rule.id): rule for rule in rules}).get(which)
        if rule is None:
            text = f"There is no rule {which or '(say which)'}; /approvals lists them."
            await answer(self._house, asked.row, text)
            return
        decision = Decision(revoked=(rule.id,), at=self._house.clock.now())
        await answer(self._house, asked.row, f"Revoked: {_line(rule, asked)}", decision=decision)

    async def _rules(self, asked: Asked) -> list[StandingRule]:
        """A person's own; an operator sees all."""
        source = asked.row.inbound.source
        own = None if self._operates(source) else principal_of(source).id
        return list(await self._house.store.standing_rules(principal=own))


def _line(rule: StandingRule, asked: Asked) -> str:
    return f"{rule.rule}, {_where(rule, asked)}, for {rule.principal}"


def _where(rule: StandingRule, asked: Asked) -> str:
    if rule.scope is Scope.ALWAYS:
        return "always"
    here = rule.session_id == asked.session_id
    return "in this conversation" if here else f"in session {rule.session_id}"
