"""/restart: start the gateway again, at once or when nothing runs, if a successor can start."""

from collections.abc import Awaitable
from enum import Enum

import msgspec

from holdfast.core.errors import RestartRefused
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.outbox import DeliveryKind, DeliveryState
from holdfast.core.people.commands import BY_NAME
from holdfast.core.ports.protocols import Lifecycle
from holdfast.core.turns.stop import AskedBy, StopKind, StopOrder
from holdfast.gateway.commands.command import Asked
from holdfast.gateway.commands.reply import answer, prepare, settle
from holdfast.gateway.notify.lifecycle_notices import KEEPS, Telling
from holdfast.gateway.outbound.replies import address_of
from holdfast.gateway.services import House

NOBODY = "Nothing here can start the gateway again; restart it where it was started."
RESTARTING = "Restarting …"
_RUNNING = f"{RESTARTING} {{turns}} interrupted; I will try to resume what was being worked on."
_WHEN_IDLE = "The gateway restarts as soon as nothing runs; {turns} at work now."


class _When(Enum):
    SOON = ""
    NOW = "now"
    IDLE = "when idle"


class Restart:
    """The answer is the notice that the chat gets: it replies to the very message, and like every
    farewell it is never sent late, by the gateway that comes after."""

    name = "restart"

    def __init__(self, house: House, *, lifecycle: Lifecycle | None, telling: Telling) -> None:
        self._house = house
        self._lifecycle = lifecycle
        self._telling = telling

    def begin(self, asked: Asked) -> Awaitable[None]:
        words = " ".join(asked.argument.lower().replace("-", " ").split())
        if words not in {when.value for when in _When}:
            wrong = BY_NAME[self.name].misused(f"/restart knows no {asked.argument!r}.")
            return answer(self._house, asked.row, wrong)
        if self._lifecycle is None:
            return answer(self._house, asked.row, NOBODY)
        return self._restart(asked.row, _When(words), self._lifecycle)

    async def _restart(self, row: InboxRow, when: _When, lifecycle: Lifecycle) -> None:
        order = StopOrder(
            kind=StopKind.RESTART,
            by=AskedBy.CHAT,
            at=self._house.clock.now(),
            principal=row.principal,
            address=msgspec.structs.replace(address_of(row), reply_to=row.inbound.message_id),
            now=when is _When.NOW,
        )
        with self._telling.answering(order):
            try:
                await lifecycle.restart(order, when_idle=when is _When.IDLE)
            except RestartRefused as error:
                await answer(self._house, row, f"Not restarted: {error}")
                return
            if when is _When.IDLE and (running := self._telling.running):
                await answer(self._house, row, _WHEN_IDLE.format(turns=_turns(running)))
            else:
                await self._say_farewell(row, order)

    async def _say_farewell(self, row: InboxRow, order: StopOrder) -> None:
        running = self._telling.running
        text = _RUNNING.format(turns=_turns(running)) if running else RESTARTING
        plain = prepare(self._house, row, text)
        (reply,) = plain.deliveries
        owed = reply.state is DeliveryState.PENDING  # else its asker fetches it, and finds it
        notice = msgspec.structs.replace(
            reply,
            address=order.address,
            kind=DeliveryKind.FAREWELL if owed else DeliveryKind.COMMAND,
            expires_at=plain.at + KEEPS if owed else None,
        )
        await settle(self._house, msgspec.structs.replace(plain, deliveries=(notice,)))
        self._telling.said = order


def _turns(running: int) -> str:
    return "1 turn is" if running == 1 else f"{running} turns are"
