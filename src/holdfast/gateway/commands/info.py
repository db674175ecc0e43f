"""Commands that show information: /help, /status, /usage."""

from collections.abc import Iterator, Sequence

from holdfast.core.commands import (
    COMMANDS,
    COMMANDS_BY_NAME,
    CommandRequest,
    CommandSpec,
    CommandTopic,
)
from holdfast.core.ids import SessionId
from holdfast.core.ports.runtime import Lifecycle
from holdfast.core.ports.store_queries import (
    GetAuxiliaryUsage,
    GetLastTurn,
    GetSession,
    GetSessionUsage,
    GetSubagentsUsage,
    GetVisibleUsage,
)
from holdfast.core.text.locale_format import format_number
from holdfast.core.text.translation import N_, _
from holdfast.core.turns.model import AuxiliaryTask
from holdfast.core.turns.subagent import SubagentKind
from holdfast.core.turns.turn import Usage as Tokens
from holdfast.core.turns.turn_state import LaneState
from holdfast.gateway.access import AccessPolicy
from holdfast.gateway.commands.context import InfoContext, ReplyContext, allowed_commands
from holdfast.gateway.commands.reply import send_reply
from holdfast.gateway.commands.sessions import dm_principal

_SUBAGENT_TEXTS = {
    SubagentKind.FOREGROUND: N_("Subagent: {title}"),
    SubagentKind.BACKGROUND: N_("Subagent in the background: {title}"),
}
_STATE_TEXTS = {
    LaneState.IDLE: N_("idle"),
    LaneState.STARTING: N_("starting"),
    LaneState.RUNNING: N_("running"),
    LaneState.WAITING: N_("waiting for a person"),
    LaneState.PARKED: N_("parked"),
}
_TASK_TEXTS = {
    AuxiliaryTask.TITLE: N_("titles"),
    AuxiliaryTask.SUMMARY: N_("summaries"),
    AuxiliaryTask.VISION: N_("descriptions of pictures"),
}


async def cmd_help(replies: ReplyContext, access: AccessPolicy, request: CommandRequest) -> None:
    """List the commands, or explain one."""
    commands = allowed_commands(COMMANDS, access, request.row.inbound.source)
    one = COMMANDS_BY_NAME.get(request.argument.lower().removeprefix("/"))
    if not request.argument:
        text = _all_text(commands)
    elif one is None or one not in commands:
        text = _("There is no command {name!r}, or you may not use it. /help lists yours.").format(
            name=request.argument
        )
    else:
        text = _command_text(one)
    await send_reply(replies, request.row, text)


def _all_text(commands: Sequence[CommandSpec]) -> str:
    """By topic, without the arguments: a list of twenty usages would be too long to read."""
    topics = (
        _topic_text(topic, [spec for spec in commands if spec.topic is topic])
        for topic in CommandTopic
    )
    introduction = _("Anything else you write goes to the agent. {command} explains a command.")
    return "\n\n".join([introduction.format(command="/help COMMAND"), *filter(None, topics)])


def _topic_text(topic: CommandTopic, commands: Sequence[CommandSpec]) -> str:
    lines = [f"/{command.name} - {_(command.help)}" for command in commands]
    return "\n".join([f"{_(topic)}:", *lines]) if lines else ""


def _command_text(command: CommandSpec) -> str:
    lines = [f"{command.usage} - {_(command.help)}"]
    if command.aliases:
        names = ", ".join(f"/{alias}" for alias in command.aliases)
        lines.append(_("Also: {names}").format(names=names))
    if not command.allowed_mid_turn:
        lines.append(_("Not possible while the agent is working."))
    return "\n".join(lines)


async def cmd_status(context: InfoContext, request: CommandRequest) -> None:
    """Show what the gateway and this session are doing."""
    session_id = request.session_id
    row = await context.store.read(GetSession(session_id=session_id)) if session_id else None
    chosen = row.model_override if row else None
    model = _("Model: {model} (chosen here)") if chosen else _("Model: {model}")
    lane = context.lanes.get(session_id) if session_id else None
    running = context.lanes.count(LaneState.RUNNING)
    subagents = context.subagents.of_session(session_id) if session_id else ()
    lines = (
        _("Session: {session} ({state}, {queued} queued)").format(
            session=session_id or _("not started yet"),
            state=_(_STATE_TEXTS[lane.state if lane else LaneState.IDLE]),
            queued=lane.queued if lane else 0,
        ),
        *(_(_SUBAGENT_TEXTS[each.kind]).format(title=each.title) for each in subagents),
        model.format(model=chosen or context.agents.model.name),
        _("Gateway: turns running: {running}, agents cached: {cached}").format(
            running=running, cached=context.agents.cached
        ),
        *_stop_lines(context.lifecycle),
    )
    await send_reply(context.replies, request.row, "\n".join(lines))


def _stop_lines(lifecycle: Lifecycle | None) -> Iterator[str]:
    """Whether the gateway stops or restarts, or is about to."""
    if lifecycle is None:
        return
    if (order := lifecycle.stop_order) is not None:
        if order.kind.restarts:
            yield _("The gateway is restarting now.")
        else:
            yield _("The gateway is shutting down now.")
    elif lifecycle.pending_restart is not None:
        yield _("A restart is scheduled for when the gateway is idle.")


async def cmd_usage(context: InfoContext, request: CommandRequest) -> None:
    """Show the tokens used by the last turn, in this conversation and in total."""
    row, session_id = request.row, request.session_id
    running = _running_usage(context, session_id)
    lines = await _session_usage_lines(context, session_id, running) if session_id else []
    total = await context.store.read(GetVisibleUsage(route=row.route, principal=dm_principal(row)))
    if dm_principal(row):
        text = _("All your conversations: {tokens}")
    else:
        text = _("All conversations in this chat: {tokens}")
    lines.append(text.format(tokens=_format_tokens(total + (running or Tokens()))))
    await send_reply(context.replies, row, "\n".join(lines))


async def _session_usage_lines(
    context: InfoContext, session_id: SessionId, running: Tokens | None
) -> list[str]:
    last = await context.store.read(GetLastTurn(session_id=session_id))
    lines = []
    if running is not None:
        lines.append(_("This turn so far: {tokens}").format(tokens=_format_tokens(running)))
    elif last is not None:
        lines.append(_("The last turn: {tokens}").format(tokens=_format_tokens(last.usage)))
    subagents = await context.store.read(GetSubagentsUsage(session_id=session_id))
    total = (
        await context.store.read(GetSessionUsage(session_id=session_id))
        + subagents
        + (running or Tokens())
    )
    lines.append(_("This conversation: {tokens}").format(tokens=_format_tokens(total)))
    if subagents != Tokens():
        lines.append(_("Of that, its subagents: {tokens}").format(tokens=_format_tokens(subagents)))
    if auxiliary := await context.store.read(GetAuxiliaryUsage(session_id=session_id)):
        tasks = ", ".join(_(_TASK_TEXTS[AuxiliaryTask(each)]) for each in sorted(auxiliary))
        used = _format_tokens(sum(auxiliary.values(), Tokens()))
        lines.append(_("In addition, for {tasks}: {tokens}").format(tasks=tasks, tokens=used))
    return lines


def _running_usage(context: InfoContext, session_id: SessionId | None) -> Tokens | None:
    """The usage of the running turn, which is stored only when it ends."""
    lane = context.lanes.get(session_id) if session_id else None
    return lane.running_turn.usage if lane is not None and lane.running_turn is not None else None


def _format_tokens(usage: Tokens) -> str:
    read, cached = format_number(usage.input_tokens), format_number(usage.cached_tokens)
    written, thought = format_number(usage.output_tokens), format_number(usage.reasoning_tokens)
    if usage.cached_tokens:
        text = _("{tokens} tokens in ({cached} of them cached)").format(tokens=read, cached=cached)
    else:
        text = _("{tokens} tokens in").format(tokens=read)
    if usage.reasoning_tokens:
        more = _("{tokens} out ({reasoning} of them reasoning)").format(
            tokens=written, reasoning=thought
        )
    else:
        more = _("{tokens} out").format(tokens=written)
    return f"{text}, {more}"
