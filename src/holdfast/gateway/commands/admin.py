"""Commands for operators: /restart, /pairing."""

from collections.abc import Awaitable, Callable
from enum import Enum

import msgspec

from holdfast.core.commands import COMMANDS_BY_NAME
from holdfast.core.errors import RestartRefused
from holdfast.core.ids import PrincipalId
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.outbox import DeliveryKind, DeliveryState
from holdfast.core.ports.runtime import Lifecycle
from holdfast.core.turns.stop import StopKind, StopOrder, StopRequester
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
from holdfast.gateway.notify.lifecycle_notices import NOTICE_EXPIRES_AFTER, LifecycleNotices
from holdfast.gateway.outbound.delivery import reply_address
from holdfast.gateway.services import Services

CANNOT_RESTART = "Nothing here can start the gateway again; restart it where it was started."
RESTARTING = "Restarting …"
_RUNNING = f"{RESTARTING} {{turns}} interrupted; I will try to resume what was being worked on."
_WHEN_IDLE = "The gateway restarts as soon as nothing runs; {turns} at work now."


class _RestartWhen(Enum):
    SOON = ""
    NOW = "now"
    IDLE = "when idle"


class RestartCommand:
    """/restart: restart the gateway, now or when it is idle, if a successor can start. The reply is
    the shutdown notice of this chat: like all of these it is never sent by the next process."""

    name = "restart"

    def __init__(
        self,
        services: Services,
        *,
        lifecycle: Lifecycle | None,
        lifecycle_notices: LifecycleNotices,
    ) -> None:
        self._services = services
        self._lifecycle = lifecycle
        self._lifecycle_notices = lifecycle_notices

    def begin(self, request: CommandRequest) -> Awaitable[None]:
        words = " ".join(request.argument.lower().replace("-", " ").split())
        if words not in {when.value for when in _RestartWhen}:
            wrong = COMMANDS_BY_NAME[self.name].usage_error(
                f"/restart knows no {request.argument!r}."
            )
            return send_reply(self._services, request.row, wrong)
        if self._lifecycle is None:
            return send_reply(self._services, request.row, CANNOT_RESTART)
        return self._restart(request.row, _RestartWhen(words), self._lifecycle)

    async def _restart(self, row: InboxRow, when: _RestartWhen, lifecycle: Lifecycle) -> None:
        order = StopOrder(
            kind=StopKind.RESTART,
            by=StopRequester.CHAT,
            at=self._services.clock.now(),
            principal=row.principal,
            address=msgspec.structs.replace(reply_address(row), reply_to=row.inbound.message_id),
            now=when is _RestartWhen.NOW,
        )
        with self._lifecycle_notices.answering(order):
            try:
                await lifecycle.restart(order, when_idle=when is _RestartWhen.IDLE)
            except RestartRefused as error:
                await send_reply(self._services, row, f"Not restarted: {error}")
                return
            if when is _RestartWhen.IDLE and (running := self._lifecycle_notices.running_turns):
                await send_reply(self._services, row, _WHEN_IDLE.format(turns=_turns(running)))
            else:
                await self._reply_restarting(row, order)

    async def _reply_restarting(self, row: InboxRow, order: StopOrder) -> None:
        running = self._lifecycle_notices.running_turns
        text = _RUNNING.format(turns=_turns(running)) if running else RESTARTING
        plain = prepare_effect(self._services, row, text)
        (reply,) = plain.deliveries
        sent = reply.state is DeliveryState.PENDING  # else the sender fetches it
        notice = msgspec.structs.replace(
            reply,
            address=order.address,
            kind=DeliveryKind.SHUTDOWN_NOTICE if sent else DeliveryKind.COMMAND,
            expires_at=plain.at + NOTICE_EXPIRES_AFTER if sent else None,
        )
        await commit_effect(self._services, msgspec.structs.replace(plain, deliveries=(notice,)))
        self._lifecycle_notices.answered_order = order


def _turns(running: int) -> str:
    return "1 turn is" if running == 1 else f"{running} turns are"


_NO_PENDING_REQUESTS = (
    "Nobody waits to be let in. Whoever writes to me privately and is not known gets a code; "
    "/pairing approve CODE lets them in."
)
_HOW = "/pairing approve CODE lets in whose code it is: ask them for it."
_PEOPLE = "Let in by a code:"


class PairingCommand:
    """/pairing: list pairing requests and paired users; approve, deny or revoke. A decision is
    committed together with the end of the command's row."""

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
                return self._decide(request, lambda save: pairing.approve(who, by=by, commit=save))
            case "deny":
                return self._decide(request, lambda save: pairing.deny(who, by=by, commit=save))
            case "revoke":
                return self._decide(request, lambda save: pairing.revoke(who, by=by, commit=save))
        wrong = COMMANDS_BY_NAME[self.name].usage_error(f"/pairing knows no {verb!r}.")
        return send_reply(self._services, request.row, wrong)

    async def _decide(
        self,
        request: CommandRequest,
        decide: Callable[[CommitDecision], Awaitable[PairingDecision]],
    ) -> None:
        async def save(decided: PairingDecision) -> None:
            effect = prepare_effect(
                self._services, request.row, decided.text, pairing=decided.change
            )
            await commit_effect(
                self._services, effect, on_committed=lambda _: self._pairing.on_committed(decided)
            )

        try:
            await decide(save)
        except PairingRefused as refused:
            await send_reply(self._services, request.row, str(refused))

    def _list(self) -> str:
        now = self._services.clock.now()
        lines = [
            f"{person_with_name(each)} waits, for {format_duration(each.expires_at - now)} more."
            for each in self._pairing.pending()
        ]
        lines = [*lines, _HOW] if lines else [_NO_PENDING_REQUESTS]
        people = [f"- {person_with_name(each)}" for each in self._pairing.paired_users.users()]
        return "\n".join([*lines, *([_PEOPLE, *people] if people else [])])
