"""/pairing: who asks to be let in and who was; letting somebody in, and sending them away."""

from collections.abc import Awaitable, Callable

from holdfast.core.ids import PrincipalId
from holdfast.core.people.commands import BY_NAME
from holdfast.gateway.approvals.prompt import lasting
from holdfast.gateway.commands.command import Asked
from holdfast.gateway.commands.reply import answer, prepare, settle
from holdfast.gateway.inbound.pairing import Decided, Keep, Pairing, PairingRefused, named
from holdfast.gateway.services import House

_NOBODY = (
    "Nobody waits to be let in. Whoever writes to me privately and is not known gets a code; "
    "/pairing approve CODE lets them in."
)
_HOW = "/pairing approve CODE lets in whose code it is: ask them for it."
_PEOPLE = "Let in by a code:"


class PairingCommand:
    """What is decided commits together with the end of the row that asked for it."""

    name = "pairing"

    def __init__(self, house: House, pairing: Pairing) -> None:
        self._house = house
        self._pairing = pairing

    def begin(self, asked: Asked) -> Awaitable[None]:
        verb, _, who = asked.argument.partition(" ")
        who, pairing, by = who.strip(), self._pairing, PrincipalId(asked.row.principal)
        match verb.lower():
            case "":
                return answer(self._house, asked.row, self._list())
            case "approve":
                return self._decide(asked, lambda keep: pairing.approve(who, by=by, keep=keep))
            case "deny":
                return self._decide(asked, lambda keep: pairing.deny(who, by=by, keep=keep))
            case "revoke":
                return self._decide(asked, lambda keep: pairing.revoke(who, by=by, keep=keep))
        wrong = BY_NAME[self.name].misused(f"/pairing knows no {verb!r}.")
        return answer(self._house, asked.row, wrong)

    async def _decide(self, asked: Asked, decide: Callable[[Keep], Awaitable[Decided]]) -> None:
        async def keep(decided: Decided) -> None:
            effect = prepare(self._house, asked.row, decided.text, pairing=decided.change)
            await settle(self._house, effect, kept=lambda _: self._pairing.kept(decided))

        try:
            await decide(keep)
        except PairingRefused as refused:
            await answer(self._house, asked.row, str(refused))

    def _list(self) -> str:
        now = self._house.clock.now()
        lines = [
            f"{named(each)} waits, for {lasting(each.expires_at - now)} more."
            for each in self._pairing.pending()
        ]
        lines = [*lines, _HOW] if lines else [_NOBODY]
        people = [f"- {named(each)}" for each in self._pairing.paired.people()]
        return "\n".join([*lines, *([_PEOPLE, *people] if people else [])])
