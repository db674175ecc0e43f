"""Commands that inform: /help, /status, /usage."""

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
from holdfast.core.turns.subagent import SubagentKind
from holdfast.core.turns.turn import Usage as Tokens
from holdfast.core.turns.turn_state import LaneState
from holdfast.gateway.access import AccessPolicy
from holdfast.gateway.commands.context import InfoContext, ReplyContext, allowed_commands
from holdfast.gateway.commands.reply import send_reply
from holdfast.gateway.commands.sessions import dm_principal

_KIND_TEXTS = {SubagentKind.FOREGROUND: "waited for", SubagentKind.BACKGROUND: "in the background"}
_INTRODUCTION = (
    "Anything else you write goes to the agent. /help COMMAND says how a command is used."
)


async def cmd_help(replies: ReplyContext, access: AccessPolicy, request: CommandRequest) -> None:
    """List the commands, or explain one."""
    commands = allowed_commands(COMMANDS, access, request.row.inbound.source)
    one = COMMANDS_BY_NAME.get(request.argument.lower().removeprefix("/"))
    if not request.argument:
        text = _all_text(commands)
    elif one is None or one not in commands:
        text = f"There is no command {request.argument!r} for you. /help lists those there are."
    else:
        text = _command_text(one)
    await send_reply(replies, request.row, text)


def _all_text(commands: Sequence[CommandSpec]) -> str:
    """By topic, without the arguments: a list of twenty usages would be too long to read."""
    topics = (
        _topic_text(topic, [spec for spec in commands if spec.topic is topic])
        for topic in CommandTopic
    )
    return "\n\n".join([_INTRODUCTION, *filter(None, topics)])


def _topic_text(topic: CommandTopic, commands: Sequence[CommandSpec]) -> str:
    lines = [f"/{command.name} - {command.help}" for command in commands]
    return "\n".join([f"{topic}:", *lines]) if lines else ""


def _command_text(command: CommandSpec) -> str:
    lines = [f"{command.usage} - {command.help}"]
    if command.aliases:
        lines.append("Also: " + ", ".join(f"/{alias}" for alias in command.aliases))
    if not command.allowed_mid_turn:
        lines.append("Not while the agent works on something.")
    return "\n".join(lines)


async def cmd_status(context: InfoContext, request: CommandRequest) -> None:
    """What the gateway and this session are doing."""
    session_id = request.session_id
    row = await context.store.read(GetSession(session_id=session_id)) if session_id else None
    chosen = row.model_override if row else None
    model = f"{chosen} (chosen here)" if chosen else context.agents.model.name
    lane = context.lanes.get(session_id) if session_id else None
    here = f"{lane.state}, {lane.queued} queued" if lane else "idle"
    running = context.lanes.count(LaneState.RUNNING)
    subagents = context.subagents.of_session(session_id) if session_id else ()
    lines = (
        f"Session: {session_id or 'not begun yet'} ({here})",
        *(f"Subagent ({_KIND_TEXTS[each.kind]}): {each.title}" for each in subagents),
        f"Model: {model}",
        f"Gateway: turns running: {running}, agents cached: {context.agents.cached}",
        *_stop_lines(context.lifecycle),
    )
    await send_reply(context.replies, request.row, "\n".join(lines))


def _stop_lines(lifecycle: Lifecycle | None) -> Iterator[str]:
    """Whether the gateway stops or restarts, or is about to."""
    if lifecycle is None:
        return
    if (order := lifecycle.stop_order) is not None:
        yield "It is restarting now." if order.kind.restarts else "It is shutting down now."
    elif lifecycle.pending_restart is not None:
        yield "A restart waits until no turn runs."


async def cmd_usage(context: InfoContext, request: CommandRequest) -> None:
    """The tokens used by this turn, in this conversation, and in all."""
    row, session_id = request.row, request.session_id
    running = _running_usage(context, session_id)
    lines = await _session_usage_lines(context, session_id, running) if session_id else []
    total = await context.store.read(GetVisibleUsage(route=row.route, principal=dm_principal(row)))
    where = "All your conversations" if dm_principal(row) else "All conversations in this place"
    lines.append(f"{where}: {_format_tokens(total + (running or Tokens()))}")
    await send_reply(context.replies, row, "\n".join(lines))


async def _session_usage_lines(
    context: InfoContext, session_id: SessionId, running: Tokens | None
) -> list[str]:
    last = await context.store.read(GetLastTurn(session_id=session_id))
    lines = []
    if running is not None:
        lines.append(f"This turn, so far: {_format_tokens(running)}")
    elif last is not None:
        lines.append(f"The last turn: {_format_tokens(last.usage)}")
    subagents = await context.store.read(GetSubagentsUsage(session_id=session_id))
    total = (
        await context.store.read(GetSessionUsage(session_id=session_id))
        + subagents
        + (running or Tokens())
    )
    lines.append(f"This conversation: {_format_tokens(total)}")
    if subagents != Tokens():
        lines.append(f"Of that, its subagents: {_format_tokens(subagents)}")
    if auxiliary := await context.store.read(GetAuxiliaryUsage(session_id=session_id)):
        tasks, used = " and ".join(sorted(auxiliary)), sum(auxiliary.values(), Tokens())
        lines.append(f"Beside it, for its {tasks}: {_format_tokens(used)}")
    return lines


def _running_usage(context: InfoContext, session_id: SessionId | None) -> Tokens | None:
    """The usage of the running turn, which is stored only when it ends."""
    lane = context.lanes.get(session_id) if session_id else None
    return lane.running_turn.usage if lane is not None and lane.running_turn is not None else None


def _format_tokens(usage: Tokens) -> str:
    cached = f" ({usage.cached_tokens:,} of them cached)" if usage.cached_tokens else ""
    thought = f" ({usage.reasoning_tokens:,} of them thought)" if usage.reasoning_tokens else ""
    return f"{usage.input_tokens:,} tokens in{cached}, {usage.output_tokens:,} out{thought}"
