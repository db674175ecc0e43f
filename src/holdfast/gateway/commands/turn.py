"""Commands about running work: /stop, /queue, /steer, /background."""

import logging
from collections.abc import Awaitable, Sequence

import msgspec

from holdfast.core.commands import COMMANDS_BY_NAME
from holdfast.core.errors import StoreError
from holdfast.core.ids import CallId, SessionId
from holdfast.core.messages.inbox import BusyMode, Inbound, InboxRow
from holdfast.core.sessions.session import (
    BackgroundStart,
    CommandEffect,
    CommandOutcome,
    SessionOpening,
)
from holdfast.core.turns.subagent import Subagent, SubagentKind, SubagentTask
from holdfast.core.turns.tool import ToolFailed
from holdfast.gateway.commands.command import CommandRequest
from holdfast.gateway.commands.reply import (
    build_reply,
    commit_effect,
    no_effect,
    prepare_effect,
    send_reply,
)
from holdfast.gateway.services import Services
from holdfast.gateway.sessions.resolver import SessionStore
from holdfast.gateway.sessions.teardown import SUSPENDED_NOTICE, CheckStopped, ForceStop
from holdfast.gateway.subagents import DelegateService, delegation_requester
from holdfast.gateway.turns.endings import superseded_ends
from holdfast.gateway.turns.lanes import Lanes
from holdfast.gateway.turns.transcript_notes import session_owner

log = logging.getLogger(__name__)


_STARTED = "Working on it in the background: {title}\nYou hear of it here when it is done."


class StopCommand:
    """/stop: end the running turn for good, without the agent's help."""

    name = "stop"

    def __init__(self, services: Services, lanes: Lanes, force_stop: ForceStop) -> None:
        self._services = services
        self._lanes = lanes
        self._force_stop = force_stop

    def begin(self, request: CommandRequest) -> Awaitable[None]:
        everything = request.argument.lower() == "all"
        running = (
            self._services.subagents.in_background(request.session_id) if request.session_id else []
        )
        remark = _background_text(running, everything=everything)
        idle = "" if everything and running else "Nothing is running. "
        check = self._stop_check(request)
        stopped = self._stop_turn(request, done=f"Stopped. {remark}", idle=f"{idle}{remark}")
        stopped = self._stop_background_too(stopped, request) if everything else stopped
        return self._stop_and_check(stopped, check, request.row)

    def _stop_check(self, request: CommandRequest) -> CheckStopped | None:
        if request.session_id is None:
            return None
        return self._force_stop.before_stop(request.session_id, at=request.row.accepted_at)

    async def _stop_and_check(
        self, stopped: Awaitable[None], check: CheckStopped | None, row: InboxRow
    ) -> None:
        """F9: after a repeated /stop, the chat is told that the session was suspended. The command
        is done before that, so that a store failure here does not affect it."""
        await stopped
        try:
            if (
                check is not None
                and await check()
                and not self._services.delivery_factory.is_fetched(row)
            ):
                await self._send_suspended_notice(row)
        except StoreError as error:
            about = {"action": "stop_check_failed"}
            log.error("Could not check whether /stop took effect: %s", error, extra=about)

    async def _send_suspended_notice(self, row: InboxRow) -> None:
        notice = self._services.delivery_factory.notice(
            row, SUSPENDED_NOTICE, session_id=row.session_id
        )
        effect = CommandEffect(inbox_ends=(), deliveries=(notice,), at=self._services.clock.now())
        await commit_effect(self._services, effect)

    async def _stop_background_too(self, stopped: Awaitable[None], request: CommandRequest) -> None:
        if request.session_id is not None:
            await self._services.subagents.stop_background(request.session_id)
        await stopped

    def _stop_turn(self, request: CommandRequest, *, done: str, idle: str) -> Awaitable[None]:
        done, idle = done.strip(), idle.strip()
        lane = self._lanes.get(request.session_id) if request.session_id else None
        if lane is None:
            return send_reply(self._services, request.row, idle)
        waiting = lane.drop_waiting_messages()
        end, reply = build_reply(self._services, request.row, done)
        ends = (*superseded_ends(waiting), end)
        if lane.stop(ends, [reply]):
            return no_effect()  # the row ends in the commit that ends the turn
        if not waiting:
            return send_reply(self._services, request.row, idle)
        effect = prepare_effect(
            self._services, request.row, done, inbox_ends=ends, deliveries=(reply,)
        )
        return self._drop(waiting, lane.session_id, effect)

    async def _drop(
        self, waiting: Sequence[InboxRow], session_id: SessionId, effect: CommandEffect
    ) -> None:
        try:
            await commit_effect(self._services, effect)
        except StoreError:
            self._lanes.readmit(waiting, session_id)
            raise


def _background_text(subagents: Sequence[Subagent], *, everything: bool) -> str:
    """What was stopped in the background too, or continues there."""
    if not subagents:
        return ""
    listed = "; ".join(subagent.title for subagent in subagents)
    if everything:
        return f"Stopped in the background: {listed}."
    return f"In the background there still is: {listed}. /stop all ends that too."


class QueueSteerCommand:
    """/queue and /steer: a message that says itself what it does to the running turn.

    What follows the command is a message like any other, and the turn answers it. Its row keeps
    the text as it was typed, so a restart reads the same decision from it.
    """

    def __init__(self, name: str, sessions: SessionStore, *, mode: BusyMode) -> None:
        self.name = name
        self._sessions = sessions
        self._mode = mode

    def begin(self, request: CommandRequest) -> Awaitable[None]:
        row = request.row
        inbound = msgspec.structs.replace(
            row.inbound,
            text=request.argument,
            busy_mode=self._mode,
            commands=False,
            mergeable=self._mode is not BusyMode.QUEUE,  # queued ones are a turn each
        )
        message = msgspec.structs.replace(row, inbound=inbound)
        self._sessions.admit(message, known=request.session_id, route_target=request.route_target)
        return no_effect()


class BackgroundCommand:
    """/background: start a subagent beside the conversation, which gets the result. The subagent is
    committed with the reply, and so is the session it works for, where the chat has none."""

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
        services, row = self._services, request.row
        parent = request.session_id or SessionId(services.new_id("s"))
        requester = delegation_requester(
            row, session_id=parent, turn_id=None, toolsets=services.settings.agent.toolsets
        )
        call_id = CallId(f"{SubagentKind.BACKGROUND}.{row.id}")
        try:
            [task_message] = await DelegateService(
                services.subagents, requester, limits=services.settings.delegate
            ).prepare_background(call_id, [SubagentTask(text=request.argument)])
        except ToolFailed as error:
            await send_reply(services, row, f"Not begun: {error}.")
            return
        await self._commit(request, task_message, parent)

    async def _commit(
        self, request: CommandRequest, task_message: Inbound, parent: SessionId
    ) -> None:
        services, row = self._services, request.row
        assert task_message.subagent is not None, "it is the task of a subagent"
        opening = None if request.session_id else self._session_to_open(request)
        background = BackgroundStart(
            inbound=task_message,
            route=services.subagents.session_key(task_message.source),
            principal=row.principal,
            open_parent=opening,
        )
        settle_route = self._lanes.point_route(row.route, parent) if opening else None

        def on_committed(outcome: CommandOutcome) -> None:
            assert outcome.background is not None, "the effect asked for it"
            if settle_route is not None:
                settle_route()
            services.feeds.session_changed(parent)

        text = _STARTED.format(title=task_message.subagent.title)
        effect = prepare_effect(services, row, text, background=background)
        await commit_effect(services, effect, on_committed=on_committed)

    def _session_to_open(self, request: CommandRequest) -> SessionOpening:
        return SessionOpening(
            route=request.row.route,
            principal=session_owner(request.row, self._services.settings.sessions),
            reset=self._sessions.reset_for(request),
        )
