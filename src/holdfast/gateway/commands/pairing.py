"""/pairing: who asks to be let in and who was; letting somebody in, and sending them away."""

from collections.abc import Awaitable, Callable

from holdfast.core.ids import PrincipalId
from holdfast.core.people.commands import COMMANDS_BY_NAME
from holdfast.gateway.approvals.prompt import format_duration
from holdfast.gateway.commands.command import CommandRequest
from holdfast.gateway.commands.reply import commit_effect, prepare_effect, send_reply
from holdfast.gateway.inbound.pairing import (
    CommitDecision,
    PairingDecision,
    PairingRefused,
    PairingService,
    person_with_name,
)
from holdfast.gateway.services import Services

_NOBODY_WAITS = (
    "Nobody waits to be let in. Whoever writes to me privately and is not known gets a code; "
    "/pairing approve CODE lets them in."
)
_HOW = "/pairing approve CODE lets in whose code it is: ask them for it."
_PEOPLE = "Let in by a code:"


class PairingCommand:
    """What is decided commits together with the end of the row that asked for it."""

    name = "pairing"

    def __init__(self, services: Services, pairing: PairingService) -> None:
        self._services = services
        self._pairing = pairing

    def begin(self, request: CommandRequest) -> Awaitable[None]:
        verb, _, who = request.argument.partition(" ")
        who, pairing, by = who.strip(), self._pairing, PrincipalId(request.row.principal)
        match verb.lower():
            case "":
                return send_reply(self._services, request.row, self._list())
            case "approve":
                return self._decide(request, lambda keep: pairing.approve(who, by=by, commit=keep))
            case "deny":
                return self._decide(request, lambda keep: pairing.deny(who, by=by, commit=keep))
            case "revoke":
                return self._decide(request, lambda keep: pairing.revoke(who, by=by, commit=keep))
        wrong = COMMANDS_BY_NAME[self.name].usage_error(f"/pairing knows no {verb!r}.")
        return send_reply(self._services, request.row, wrong)

    async def _decide(
        self,
        request: CommandRequest,
        decide: Callable[[CommitDecision], Awaitable[PairingDecision]],
    ) -> None:
        async def keep(decided: PairingDecision) -> None:
            effect = prepare_effect(
                self._services, request.row, decided.text, pairing=decided.change
            )
            await commit_effect(
                self._services, effect, on_committed=lambda _: self._pairing.on_committed(decided)
            )

        try:
            await decide(keep)
        except PairingRefused as refused:
            await send_reply(self._services, request.row, str(refused))

    def _list(self) -> str:
        now = self._services.clock.now()
        lines = [
            f"{person_with_name(each)} waits, for {format_duration(each.expires_at - now)} more."
            for each in self._pairing.pending()
        ]
        lines = [*lines, _HOW] if lines else [_NOBODY_WAITS]
        people = [f"- {person_with_name(each)}" for each in self._pairing.paired_users.users()]
        return "\n".join([*lines, *([_PEOPLE, *people] if people else [])])
