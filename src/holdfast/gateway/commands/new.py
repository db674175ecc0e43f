"""/new: leave this conversation and begin another."""

from collections.abc import Awaitable, Callable, Collection, Sequence

from holdfast.core.errors import StoreError
from holdfast.core.ids import InboxId, SessionId
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.people.audit import actor_of
from holdfast.core.sessions.session import CommandEffect
from holdfast.gateway.commands.command import CommandRequest
from holdfast.gateway.commands.reply import build_reply, commit_effect
from holdfast.gateway.services import Services
from holdfast.gateway.turns.endings import superseded_ends
from holdfast.gateway.turns.lanes import Lanes

CloseSession = Callable[[SessionId], Awaitable[None]]


class NewCommand:
    name = "new"

    def __init__(
        self,
        services: Services,
        lanes: Lanes,
        *,
        close: CloseSession,
        running_commands: Callable[[], Collection[InboxId]],
    ) -> None:
        self._services = services
        self._lanes = lanes
        self._close = close
        self._running_commands = running_commands  # the commands that are being carried out

    def begin(self, request: CommandRequest) -> Awaitable[None]:
        house, row, old = self._services, request.row, request.session_id
        fresh = SessionId(house.new_id("s"))
        # Now, not when the commit is through: what is said after /new belongs to the new session.
        pointed = self._lanes.point_route(row.route, fresh)
        lane = self._lanes.get(old) if old else None
        waiting: list[InboxRow] = []
        if lane is not None:
            waiting = lane.drop_waiting_messages()
            lane.stop([], [], by=actor_of(row.inbound))
        end, reply = build_reply(house, row, "A new conversation begins.")
        effect = CommandEffect(
            inbox_ends=(*superseded_ends(waiting), end),
            deliveries=(reply,),
            at=house.clock.now(),
            session_id=old,
            route=row.route,
            new_session=fresh,
            supersede_before=row.id,
            # A command that came first and still reads is answered, not taken for a message.
            keep=tuple(self._running_commands()),
        )
        return self._finish(effect, old, pointed, waiting)

    async def _finish(
        self,
        effect: CommandEffect,
        old: SessionId | None,
        settle_route: Callable[..., None],
        waiting: Sequence[InboxRow],
    ) -> None:
        try:
            await commit_effect(self._services, effect)
        except StoreError:
            settle_route(undo=True)
            if old:
                self._lanes.readmit(waiting, old)
            raise
        settle_route()
        if old:
            await self._close(old)
