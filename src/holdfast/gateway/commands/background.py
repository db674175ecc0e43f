"""/background: do something beside the conversation, and tell it there when it is done."""

from collections.abc import Awaitable

from holdfast.core.ids import CallId, SessionId
from holdfast.core.messages.inbox import Inbound
from holdfast.core.people.commands import COMMANDS_BY_NAME
from holdfast.core.sessions.session import CommandOutcome
from holdfast.core.sessions.worded import BackgroundStart, SessionOpening
from holdfast.core.turns.subagent import SubagentKind, SubagentTask
from holdfast.core.turns.tool import ToolFailed
from holdfast.gateway.commands.command import CommandRequest
from holdfast.gateway.commands.reply import commit_effect, prepare_effect, send_reply
from holdfast.gateway.delegating import DelegateService, delegation_requester
from holdfast.gateway.services import Services
from holdfast.gateway.sessions.resolver import SessionStore
from holdfast.gateway.turns.lanes import Lanes
from holdfast.gateway.turns.opening import session_owner

_STARTED = "Working on it in the background: {title}\nYou hear of it here when it is done."


class BackgroundCommand:
    """The child comes into the log with the answer, and so does the session it works for where
    its chat has none."""

    name = "background"

    def __init__(self, services: Services, lanes: Lanes, sessions: SessionStore) -> None:
        self._services = services
        self._lanes = lanes
        self._sessions = sessions

    def begin(self, request: CommandRequest) -> Awaitable[None]:
        if not request.argument:
            usage = COMMANDS_BY_NAME[self.name].usage
            return send_reply(self._services, request.row, f"Say what is to be done: {usage}")
        return self._start(request)

    async def _start(self, request: CommandRequest) -> None:
        house, row = self._services, request.row
        parent = request.session_id or SessionId(house.new_id("s"))
        asker = delegation_requester(
            row, session_id=parent, turn_id=None, toolsets=house.settings.agent.toolsets
        )
        call_id = CallId(f"{SubagentKind.BACKGROUND}.{row.id}")
        try:
            [work] = await DelegateService(
                house.subagents, asker, limits=house.settings.delegate
            ).prepare_background(call_id, [SubagentTask(text=request.argument)])
        except ToolFailed as error:
            await send_reply(house, row, f"Not begun: {error}.")
            return
        await self._commit(request, work, parent)

    async def _commit(
        self, request: CommandRequest, task_message: Inbound, parent: SessionId
    ) -> None:
        house, row = self._services, request.row
        ways = await house.subagents.callbacks()
        assert task_message.subagent is not None, "it is one that works in the background"
        opens = None if request.session_id else self._session_to_open(request)
        sent_off = BackgroundStart(
            inbound=task_message,
            route=ways.session_key(task_message.source),
            principal=row.principal,
            open_parent=opens,
        )
        pointed = self._lanes.point_route(row.route, parent) if opens else None

        def kept(settled: CommandOutcome) -> None:
            assert settled.background is not None, "it was asked for"
            if pointed is not None:
                pointed()
            house.feeds.session_changed(parent)
            ways.on_accepted(settled.background)

        text = _STARTED.format(title=task_message.subagent.title)
        await commit_effect(
            house, prepare_effect(house, row, text, sent_off=sent_off), on_committed=kept
        )

    def _session_to_open(self, request: CommandRequest) -> SessionOpening:
        return SessionOpening(
            route=request.row.route,
            principal=session_owner(request.row, self._services.settings.sessions),
            reset=self._sessions.reset_for(request),
        )
