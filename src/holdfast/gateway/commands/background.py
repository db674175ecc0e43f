"""/background: do something beside the conversation, and tell it there when it is done."""

from collections.abc import Awaitable

from holdfast.core.child import ChildKind, Task
from holdfast.core.commands import BY_NAME
from holdfast.core.ids import CallId, SessionId
from holdfast.core.tool import ToolFailed
from holdfast.gateway.commands.answer import answer
from holdfast.gateway.commands.command import Asked
from holdfast.gateway.delegating import Delegating, asker_of
from holdfast.gateway.house import House
from holdfast.gateway.lanes import Lanes
from holdfast.gateway.opening import owner_of
from holdfast.gateway.sessions import SessionStore

_UNDER_WAY = "Working on it in the background: {title}\nYou hear of it here when it is done."


class Background:
    """The child is named by the command's own row: carried out again after a crash, it finds
    the child that it has, and answers."""

    name = "background"

    def __init__(self, house: House, lanes: Lanes, sessions: SessionStore) -> None:
        self._house = house
        self._lanes = lanes
        self._sessions = sessions

    def begin(self, asked: Asked) -> Awaitable[None]:
        if not asked.argument:
            usage = BY_NAME[self.name].usage
            return answer(self._house, asked.row, f"Say what is to be done: {usage}")
        return self._send_off(asked)

    async def _send_off(self, asked: Asked) -> None:
        house, row = self._house, asked.row
        parent = asked.session_id or await self._opened(asked)
        asker = asker_of(
            row, session_id=parent, turn_id=None, toolsets=house.settings.agent.toolsets
        )
        delegating = Delegating(house.children, asker)
        try:
            call_id = CallId(f"{ChildKind.BACKGROUND}.{row.id}")
            [title] = await delegating.send_off(call_id, [Task(text=asked.argument)])
        except ToolFailed as error:
            await answer(house, row, f"Not begun: {error}.", session_id=parent)
            return
        await answer(house, row, _UNDER_WAY.format(title=title), session_id=parent)

    async def _opened(self, asked: Asked) -> SessionId:
        """The session of a chat in which nothing was said yet, or whose last one cannot go on: that
        is where the reply goes."""
        house, route = self._house, asked.row.route
        fresh = SessionId(house.new_id("s"))
        settled = self._lanes.point(route, fresh)
        opened = await house.store.open_fresh(
            fresh,
            route=route,
            principal=owner_of(asked.row, house.settings.sessions),
            opening=self._sessions.opening_for(asked),
            at=house.clock.now(),
        )
        settled()
        return opened
