"""Commands about running work: /stop, /queue, /steer, /background."""

import logging
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from holdfast.core.commands import COMMANDS_BY_NAME, CommandRequest
from holdfast.core.errors import StoreError
from holdfast.core.ids import CallId, SessionId
from holdfast.core.messages.inbox import BusyMode, Inbound, InboxRow
from holdfast.core.sessions.session import (
    BackgroundStart,
    CommandEffect,
    CommandOutcome,
    SessionOpening,
)
from holdfast.core.text.translation import _, _n
from holdfast.core.turns.subagent import Subagent, SubagentKind, SubagentTask
from holdfast.core.turns.tool import ToolFailed
from holdfast.gateway.commands.context import RunningTurnContext
from holdfast.gateway.commands.reply import build_reply, no_effect, prepare_effect, send_reply
from holdfast.gateway.sessions.teardown import SUSPENDED_NOTICE, CheckStopped
from holdfast.gateway.subagents import DelegateService, delegation_requester
from holdfast.gateway.turns.endings import superseded_ends
from holdfast.gateway.turns.transcript_notes import session_owner

log = logging.getLogger(__name__)


def cmd_stop(context: RunningTurnContext, request: CommandRequest) -> Awaitable[None]:
    """End the running turn for good, without the agent's help."""
    session_id, everything = request.session_id, request.argument.lower() == "all"
    running = context.subagents.in_background(session_id) if session_id else []
    remark = _background_text(running, everything=everything)
    idle = [] if everything and running else [_("Nothing is running.")]
    check = (
        context.force_stop.before_stop(session_id, at=request.row.accepted_at)
        if session_id
        else None
    )
    turn_stopped = _stop_turn(
        context, request, done=" ".join([_("Stopped."), *remark]), idle=" ".join([*idle, *remark])
    )

    async def finish() -> None:
        if everything and session_id is not None:
            await context.subagents.stop_background(session_id)
        await turn_stopped
        if check is not None:
            await _check_stopped(context, check, request.row)

    return finish()


def _stop_turn(
    context: RunningTurnContext, request: CommandRequest, *, done: str, idle: str
) -> Awaitable[None]:
    replies, row = context.replies, request.row
    lane = context.lanes.get(request.session_id) if request.session_id else None
    if lane is None:
        return send_reply(replies, row, idle)
    waiting = lane.drop_waiting_messages()
    end, reply = build_reply(replies, row, done)
    ends = (*superseded_ends(waiting), end)
    if lane.stop(ends, [reply]):
        return no_effect()  # the row ends in the commit that ends the turn
    if not waiting:
        return send_reply(replies, row, idle)
    effect = prepare_effect(replies, row, done, inbox_ends=ends, deliveries=(reply,))
    return _drop_waiting(context, waiting, lane.session_id, effect)


async def _drop_waiting(
    context: RunningTurnContext,
    waiting: Sequence[InboxRow],
    session_id: SessionId,
    effect: CommandEffect,
) -> None:
    try:
        await context.replies.effects.commit(effect)
    except StoreError:
        context.lanes.readmit(waiting, session_id)
        raise


async def _check_stopped(context: RunningTurnContext, check: CheckStopped, row: InboxRow) -> None:
    """F9: after a repeated /stop, notify the chat that the session was suspended. The command has
    been committed before, so that a store failure here does not affect it."""
    delivery_factory = context.replies.delivery_factory
    try:
        if await check() and not delivery_factory.is_fetched(row):
            notice = delivery_factory.notice(row, _(SUSPENDED_NOTICE), session_id=row.session_id)
            at = context.runtime.clock.now()
            effect = CommandEffect(inbox_ends=(), deliveries=(notice,), at=at)
            await context.replies.effects.commit(effect)
    except StoreError as error:
        about = {"action": "stop_check_failed"}
        log.error("Could not check whether /stop took effect: %s", error, extra=about)


def _background_text(subagents: Sequence[Subagent], *, everything: bool) -> list[str]:
    """A sentence about the work that was stopped in the background too, or continues there."""
    if not subagents:
        return []
    titles = "; ".join(subagent.title for subagent in subagents)
    if everything:
        return [_("Stopped in the background: {titles}.").format(titles=titles)]
    return [
        _("Still working in the background: {titles}. Send {command} to stop that too.").format(
            titles=titles, command="/stop all"
        )
    ]


def cmd_queue(context: RunningTurnContext, request: CommandRequest) -> Awaitable[None]:
    """Send a message that is answered after the running turn, in a turn of its own."""
    return _admit_message(context, request, mode=BusyMode.QUEUE, mergeable=False)


def cmd_steer(context: RunningTurnContext, request: CommandRequest) -> Awaitable[None]:
    """Send a message that reaches the running turn between two steps."""
    return _admit_message(context, request, mode=BusyMode.STEER, mergeable=True)


def _admit_message(
    context: RunningTurnContext, request: CommandRequest, *, mode: BusyMode, mergeable: bool
) -> Awaitable[None]:
    """The argument of the command is a message like any other, and a turn answers it. Its row keeps
    the text as it was typed, so that a restart makes the same decision."""
    row = request.row
    inbound = msgspec.structs.replace(
        row.inbound, text=request.argument, busy_mode=mode, commands=False, mergeable=mergeable
    )
    message = msgspec.structs.replace(row, inbound=inbound)
    context.sessions.admit(message, known=request.session_id, route_target=request.route_target)
    return no_effect()


def cmd_background(context: RunningTurnContext, request: CommandRequest) -> Awaitable[None]:
    """Start a subagent in the background; the conversation gets its result. The subagent is
    committed with the reply, and so is the session for which it works, if the chat has none."""
    if not request.argument:
        usage = COMMANDS_BY_NAME["background"].usage
        text = _("Say what to do: {usage}").format(usage=usage)
        return send_reply(context.replies, request.row, text)
    if request.session_id is not None:
        return _start_background(context, request, request.session_id)
    parent = SessionId(context.runtime.new_id("s"))
    if request.route_target is not None:  # a reset is due, which the first message must tell
        return _start_background(context, request, parent)
    # From this instant, so that a message which comes while this is prepared opens no second one.
    settle_route = context.lanes.point_route(request.row.route, parent)
    return _start_background(context, request, parent, settle_route=settle_route)


async def _start_background(
    context: RunningTurnContext,
    request: CommandRequest,
    parent: SessionId,
    *,
    settle_route: Callable[[], None] | None = None,
) -> None:
    row, settings = request.row, context.live_settings.current
    requester = delegation_requester(
        row, session_id=parent, turn_id=None, toolsets=settings.agent.toolsets
    )
    call_id = CallId(f"{SubagentKind.BACKGROUND}.{row.id}")
    try:
        [task_message] = await DelegateService(
            context.subagents, requester, limits=settings.delegate
        ).prepare_background(call_id, [SubagentTask(text=request.argument)])
        if request.session_id is None and settle_route is None:
            settle_route = context.lanes.point_route(row.route, parent)
        await _commit_background(context, request, task_message, on_committed=settle_route)
    except ToolFailed:  # for one reason: there are too many, and its text is for a model
        await send_reply(context.replies, row, _too_many_text(context, parent))
    finally:
        if settle_route is not None:
            settle_route()


def _too_many_text(context: RunningTurnContext, parent: SessionId) -> str:
    running = len(context.subagents.in_background(parent))
    return _n(
        "Not started: {n} task is already running in the background here, and {limit} may. Wait "
        "until it is done, or send {command} to stop everything.",
        "Not started: {n} tasks are already running in the background here, and {limit} may. Wait "
        "until one is done, or send {command} to stop everything.",
        running,
    ).format(
        n=running,
        limit=context.live_settings.current.delegate.max_background,
        command="/stop all",
    )


async def _commit_background(
    context: RunningTurnContext,
    request: CommandRequest,
    task_message: Inbound,
    *,
    on_committed: Callable[[], None] | None,
) -> None:
    row, subagent = request.row, task_message.subagent
    assert subagent is not None, "it is the task of a subagent"
    background = BackgroundStart(
        inbound=task_message,
        route=context.subagents.session_key(task_message.source),
        principal=row.principal,
        open_parent=None if request.session_id else _session_to_open(context, request),
    )

    def started(outcome: CommandOutcome) -> None:
        assert outcome.background is not None, "the effect asked for it"
        if on_committed is not None:
            on_committed()

    text = _(
        "Working on it in the background: {title}\nYou will get the result here when it is done."
    ).format(title=subagent.title)
    effect = prepare_effect(context.replies, row, text, background=background)
    await context.replies.effects.commit(effect, on_committed=started)


def _session_to_open(context: RunningTurnContext, request: CommandRequest) -> SessionOpening:
    return SessionOpening(
        route=request.row.route,
        principal=session_owner(request.row, context.live_settings.current.sessions),
        reset=context.sessions.reset_for(request),
    )
