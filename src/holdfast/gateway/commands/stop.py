"""/stop: end the running turn for good, without the agent's help."""

from collections.abc import Awaitable, Sequence

from holdfast.core.errors import StoreError
from holdfast.core.ids import SessionId
from holdfast.core.inbox import InboxRow
from holdfast.core.session import CommandEffect
from holdfast.gateway.commands.answer import answer, answer_to, nothing, prepare, settle
from holdfast.gateway.commands.command import Asked
from holdfast.gateway.endings import superseded
from holdfast.gateway.house import House
from holdfast.gateway.lanes import Lanes


class Stop:
    name = "stop"

    def __init__(self, house: House, lanes: Lanes) -> None:
        self._house = house
        self._lanes = lanes

    def begin(self, asked: Asked) -> Awaitable[None]:
        lane = self._lanes.get(asked.session_id) if asked.session_id else None
        if lane is None:
            return answer(self._house, asked.row, "Nothing is running.")
        waiting = lane.drop_waiting()
        end, reply = answer_to(self._house, asked.row, "Stopped.")
        ends = (*superseded(waiting), end)
        if lane.stop(ends, [reply]):
            return nothing()  # the row ends in the commit that ends the turn
        if not waiting:
            return answer(self._house, asked.row, "Nothing is running.")
        effect = prepare(self._house, asked.row, "Stopped.", inbox_ends=ends, deliveries=(reply,))
        return self._drop(waiting, lane.session_id, effect)

    async def _drop(
        self, waiting: Sequence[InboxRow], session_id: SessionId, effect: CommandEffect
    ) -> None:
        try:
            await settle(self._house, effect)
        except StoreError:
            self._lanes.give_back(waiting, session_id)
            raise
