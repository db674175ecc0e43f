"""/background: do something beside the conversation, and tell it there when it is done."""

from collections.abc import Awaitable

from holdfast.core.ids import CallId, SessionId
from holdfast.core.messages.inbox import Inbound
from holdfast.core.people.commands import BY_NAME
from holdfast.core.sessions.session import Settled
from holdfast.core.sessions.worded import Opens, SentOff
from holdfast.core.turns.subagent import ChildKind, Task
from holdfast.core.turns.tool import ToolFailed
from holdfast.gateway.commands.command import Asked
from holdfast.gateway.commands.reply import answer, prepare, settle
from holdfast.gateway.delegating import Delegating, asker_of
from holdfast.gateway.services import House
from holdfast.gateway.sessions.resolver import SessionStore
from holdfast.gateway.turns.lanes import Lanes
from holdfast.gateway.turns.opening import owner_of

_UNDER_WAY = "Working on it in the background: {title}\nYou hear of it here when it is done."


class Background:
    """The child comes into the log with the answer, and so does the session it works for where
    its chat has none."""

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
        parent = asked.session_id or SessionId(house.new_id("s"))
        asker = asker_of(
            row, session_id=parent, turn_id=None, toolsets=house.settings.agent.toolsets
        )
        call_id = CallId(f"{ChildKind.BACKGROUND}.{row.id}")
        try:
            [work] = await Delegating(
                house.children, asker, limits=house.settings.delegate
            ).in_background(call_id, [Task(text=asked.argument)])
        except ToolFailed as error:
            await answer(house, row, f"Not begun: {error}.")
            return
        await self._keep(asked, work, parent)

    async def _keep(self, asked: Asked, work: Inbound, parent: SessionId) -> None:
        house, row = self._house, asked.row
        ways = await house.children.ways()
        assert work.child is not None, "it is one that works in the background"
        opens = None if asked.session_id else self._opens(asked)
        sent_off = SentOff(
            inbound=work, route=ways.key(work.source), principal=row.principal, opens=opens
        )
        pointed = self._lanes.point(row.route, parent) if opens else None

        def kept(settled: Settled) -> None:
            assert settled.sent_off is not None, "it was asked for"
            if pointed is not None:
                pointed()
            house.feeds.changed(parent)
            ways.kept(settled.sent_off)

        text = _UNDER_WAY.format(title=work.child.title)
        await settle(house, prepare(house, row, text, sent_off=sent_off), kept=kept)

    def _opens(self, asked: Asked) -> Opens:
        return Opens(
            route=asked.row.route,
            principal=owner_of(asked.row, self._house.settings.sessions),
            opening=self._sessions.opening_for(asked),
        )
