"""/new: leave this conversation and begin another."""

from collections.abc import Awaitable, Callable, Collection, Sequence

from holdfast.core.errors import StoreError
from holdfast.core.ids import InboxId, SessionId
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.people.audit import actor_of
from holdfast.core.sessions.session import CommandEffect
from holdfast.gateway.commands.command import Asked
from holdfast.gateway.commands.reply import answer_to, settle
from holdfast.gateway.services import House
from holdfast.gateway.turns.endings import superseded
from holdfast.gateway.turns.lanes import Lanes

Close = Callable[[SessionId], Awaitable[None]]


class New:
    name = "new"

    def __init__(
        self,
        house: House,
        lanes: Lanes,
        *,
        close: Close,
        under_way: Callable[[], Collection[InboxId]],
    ) -> None:
        self._house = house
        self._lanes = lanes
        self._close = close
        self._under_way = under_way  # the commands that are being carried out

    def begin(self, asked: Asked) -> Awaitable[None]:
        house, row, old = self._house, asked.row, asked.session_id
        fresh = SessionId(house.new_id("s"))
        # Now, not when the commit is through: what is said after /new belongs to the new session.
        pointed = self._lanes.point(row.route, fresh)
        lane = self._lanes.get(old) if old else None
        waiting: list[InboxRow] = []
        if lane is not None:
            waiting = lane.drop_waiting()
            lane.stop([], [], by=actor_of(row.inbound))
        end, reply = answer_to(house, row, "A new conversation begins.")
        effect = CommandEffect(
            inbox_ends=(*superseded(waiting), end),
            deliveries=(reply,),
            at=house.clock.now(),
            session_id=old,
            route=row.route,
            new_session=fresh,
            supersede_before=row.id,
            # A command that came first and still reads is answered, not taken for a message.
            spared=tuple(self._under_way()),
        )
        return self._finish(effect, old, pointed, waiting)

    async def _finish(
        self,
        effect: CommandEffect,
        old: SessionId | None,
        pointed: Callable[..., None],
        waiting: Sequence[InboxRow],
    ) -> None:
        try:
            await settle(self._house, effect)
        except StoreError:
            pointed(undo=True)
            if old:
                self._lanes.give_back(waiting, old)
            raise
        pointed()
        if old:
            await self._close(old)
