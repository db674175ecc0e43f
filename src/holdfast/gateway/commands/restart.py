"""/restart: start the gateway again, at once or when nothing runs, if a successor can start."""

from collections.abc import Awaitable
from enum import Enum

import msgspec

from holdfast.core.errors import RestartRefused
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.outbox import DeliveryKind, DeliveryState
from holdfast.core.people.commands import COMMANDS_BY_NAME
from holdfast.core.ports.protocols import Lifecycle
from holdfast.core.turns.stop import StopKind, StopOrder, StopRequester
from holdfast.gateway.commands.command import CommandRequest
from holdfast.gateway.commands.reply import commit_effect, prepare_effect, send_reply
from holdfast.gateway.notify.lifecycle_notices import NOTICE_EXPIRES_AFTER, LifecycleNotices
from holdfast.gateway.outbound.replies import reply_address
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
    """The answer is the notice that the chat gets: it replies to the very message, and like every
    farewell it is never sent late, by the gateway that comes after."""

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
        owed = reply.state is DeliveryState.PENDING  # else its asker fetches it, and finds it
        notice = msgspec.structs.replace(
            reply,
            address=order.address,
            kind=DeliveryKind.SHUTDOWN_NOTICE if owed else DeliveryKind.COMMAND,
            expires_at=plain.at + NOTICE_EXPIRES_AFTER if owed else None,
        )
        await commit_effect(self._services, msgspec.structs.replace(plain, deliveries=(notice,)))
        self._lifecycle_notices.answered_order = order


def _turns(running: int) -> str:
    return "1 turn is" if running == 1 else f"{running} turns are"
