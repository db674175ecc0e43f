"""Answering an approval in a chat: which one is meant, whether one may, and the one commit."""

from collections.abc import Awaitable, Sequence

from holdfast.core.errors import StoreError
from holdfast.core.ids import ApprovalId
from holdfast.core.people.approval import Approval, Decision, Scope
from holdfast.gateway.approvals.prompt import named as in_short
from holdfast.gateway.approvals.service import Answer, Approvals, named, past
from holdfast.gateway.commands.command import Asked
from holdfast.gateway.commands.reply import answer, prepare, settle
from holdfast.gateway.services import House

NOTHING = "Nothing waits for approval here."
_ALL = "all"


class Approving:
    """Carries out what /approve, /deny and a plain yes or no have in common."""

    def __init__(self, house: House, approvals: Approvals) -> None:
        self._house = house
        self._approvals = approvals

    def begin(self, asked: Asked, *, target: str, said: Answer) -> Awaitable[None]:
        """`target`: a number, an id, "all", or "" for the only one there is. Who is meant is
        decided in this instant, so that of two answers one is the first."""
        found = self._meant(asked, target, said)
        if isinstance(found, str):
            return answer(self._house, asked.row, found)
        if not found:
            return self._tell_past(asked, ApprovalId(target))
        source = asked.row.inbound.source
        allowed = [each for each in found if self._approvals.may_answer(each, source)]
        if not allowed:
            return answer(self._house, asked.row, _foreign(found[0]))
        decision = self._approvals.claim(allowed, said, by=asked.row.principal)
        return self._decide(asked, decision, _acknowledged(allowed, said))

    async def _decide(self, asked: Asked, decision: Decision, text: str) -> None:
        effect = prepare(self._house, asked.row, text, decision=decision)
        try:
            await settle(
                self._house,
                effect,
                kept=lambda _: self._approvals.settled(decision, kept=True),
            )
        except StoreError:
            self._approvals.settled(decision, kept=False)
            raise

    def _meant(self, asked: Asked, target: str, said: Answer) -> list[Approval] | str:
        """The approvals that are meant, or why there is none; []: the store may know it."""
        if is_id(target):
            found = self._approvals.find(ApprovalId(target))
            if found is None:
                return []
            return [found] if found.pending else past(found)
        pending = self._approvals.asked_in(asked.session_id)
        if target.isdecimal():
            # No length of digits is too long to read: what fails here fails at every start.
            return self._numbered(asked, pending, int(target[:9]))
        if not pending:
            return self._late(asked)
        if len(pending) > 1 and target != _ALL:
            lines = [f"{each.number}. {in_short(each)}" for each in pending]
            how = "/approve" if said.approved else "/deny"
            which = f"Which one? {how} {pending[0].number} is the first, {how} all is all of them:"
            return "\n".join([which, *lines])
        return pending

    def _numbered(
        self, asked: Asked, pending: Sequence[Approval], number: int
    ) -> list[Approval] | str:
        found = [each for each in pending if each.number == number]
        if len(found) > 1:
            lines = [f"{each.id}: {in_short(each)}" for each in found]
            return "\n".join(["Several have that number. Say which, by its id:", *lines])
        if found:
            return found
        known = self._approvals.of_turn(asked.session_id) if asked.session_id else ()
        ended = next((each for each in known if each.number == number), None)
        return past(ended) if ended else NOTHING

    def _late(self, asked: Asked) -> str:
        """Nothing is pending: of the turn that is at work, the last answer is told."""
        known = self._approvals.of_turn(asked.session_id) if asked.session_id else ()
        return f"{past(known[-1])} /stop ends what runs." if known else NOTHING

    async def _tell_past(self, asked: Asked, approval_id: ApprovalId) -> None:
        row = await self._house.store.approval(approval_id)
        text = f"There is no approval {approval_id}." if row is None else past(row)
        await answer(self._house, asked.row, text)


def is_id(word: str) -> bool:
    return word.startswith("ap_")


def is_target(word: str) -> bool:
    return word.isdecimal() or is_id(word) or word.lower() == _ALL


def _foreign(approval: Approval) -> str:
    people = " or ".join(map(named, approval.approvers)) or "an operator"
    return f"Only {people} may answer this."


def _acknowledged(chosen: Sequence[Approval], said: Answer) -> str:
    verb = "Approved" if said.approved else "Denied"
    what = "\n".join(in_short(each) for each in chosen)
    if not said.approved or said.scope is Scope.ONCE:
        return f"{verb}: {what}"
    if not any(each.rule for each in chosen):
        return f"{verb}, but only this once, since it is like nothing else: {what}"
    scope = "in this conversation" if said.scope is Scope.SESSION else "from now on"
    return f"{verb}, with all that is like it {scope} (/approvals lists and revokes): {what}"
