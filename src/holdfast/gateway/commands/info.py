"""Commands that inform: /help, /status, /usage."""

from collections.abc import Awaitable, Callable, Iterator, Sequence

from holdfast.core.commands import COMMANDS_BY_NAME, CommandSpec, CommandTopic
from holdfast.core.ids import SessionId
from holdfast.core.messages.source import Source
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
from holdfast.core.turns.turn import LaneState
from holdfast.core.turns.turn import Usage as Tokens
from holdfast.gateway.commands.command import CommandRequest
from holdfast.gateway.commands.reply import send_reply
from holdfast.gateway.commands.sessions import dm_principal
from holdfast.gateway.services import Services
from holdfast.gateway.turns.lanes import Lanes

_KIND_TEXTS = {SubagentKind.FOREGROUND: "waited for", SubagentKind.BACKGROUND: "in the background"}
_INTRODUCTION = (
    "Anything else you write goes to the agent. /help COMMAND says how a command is used."
)

ListCommands = Callable[[Source], Sequence[CommandSpec]]
"""The commands that the sender may use."""


class HelpCommand:
    """/help: list the commands, or explain one."""

    name = "help"

    def __init__(self, services: Services, *, commands: ListCommands) -> None:
        self._services = services
        self._commands = commands

    def begin(self, request: CommandRequest) -> Awaitable[None]:
        commands = self._commands(request.row.inbound.source)
        one = COMMANDS_BY_NAME.get(request.argument.lower().removeprefix("/"))
        if not request.argument:
            text = _all_text(commands)
        elif one is None or one not in commands:
            text = f"There is no command {request.argument!r} for you. /help lists those there are."
        else:
            text = _command_text(one)
        return send_reply(self._services, request.row, text)


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


class StatusCommand:
    """/status: what the gateway and this session are doing."""

    name = "status"

    def __init__(self, services: Services, lanes: Lanes, *, lifecycle: Lifecycle | None) -> None:
        self._services = services
        self._lanes = lanes
        self._lifecycle = lifecycle

    async def begin(self, request: CommandRequest) -> None:
        row = (
            await self._services.store.read(GetSession(session_id=request.session_id))
            if request.session_id
            else None
        )
        chosen = row.model_override if row else None
        model = f"{chosen} (chosen here)" if chosen else self._services.agent_factory.model_name
        await send_reply(self._services, request.row, self._text(request, model))

    def _text(self, request: CommandRequest, model: str) -> str:
        lane = self._lanes.get(request.session_id) if request.session_id else None
        here = f"{lane.state}, {lane.queued} queued" if lane else "idle"
        running = self._lanes.count(LaneState.RUNNING)
        return "\n".join(
            (
                f"Session: {request.session_id or 'not begun yet'} ({here})",
                *self._subagent_lines(request),
                f"Model: {model}",
                f"Gateway: turns running: {running}, agents cached: {len(self._services.cache)}",
                *self._stop_lines(),
            )
        )

    def _stop_lines(self) -> Iterator[str]:
        """Whether the gateway stops or restarts, or is about to."""
        if self._lifecycle is None:
            return
        if (order := self._lifecycle.stop_order) is not None:
            yield "It is restarting now." if order.kind.restarts else "It is shutting down now."
        elif self._lifecycle.pending_restart is not None:
            yield "A restart waits until no turn runs."

    def _subagent_lines(self, request: CommandRequest) -> Iterator[str]:
        if request.session_id is None:
            return
        for subagent in self._services.subagents.of_session(request.session_id):
            yield f"Subagent ({_KIND_TEXTS[subagent.kind]}): {subagent.title}"


class UsageCommand:
    """/usage: the tokens used by this turn, in this conversation, and in all."""

    name = "usage"

    def __init__(self, services: Services, lanes: Lanes) -> None:
        self._services = services
        self._lanes = lanes

    def begin(self, request: CommandRequest) -> Awaitable[None]:
        return self._reply(request)

    async def _reply(self, request: CommandRequest) -> None:
        store, row = self._services.store, request.row
        running = self._running_usage(request.session_id)
        lines = await self._session_lines(request.session_id, running) if request.session_id else []
        total = await store.read(GetVisibleUsage(route=row.route, principal=dm_principal(row)))
        where = "All your conversations" if dm_principal(row) else "All conversations in this place"
        lines.append(f"{where}: {format_tokens(total + (running or Tokens()))}")
        await send_reply(self._services, row, "\n".join(lines))

    async def _session_lines(self, session_id: SessionId, running: Tokens | None) -> list[str]:
        store = self._services.store
        last = await store.read(GetLastTurn(session_id=session_id))
        lines = []
        if running is not None:
            lines.append(f"This turn, so far: {format_tokens(running)}")
        elif last is not None:
            lines.append(f"The last turn: {format_tokens(last.usage)}")
        subagents = await store.read(GetSubagentsUsage(session_id=session_id))
        total = (
            await store.read(GetSessionUsage(session_id=session_id))
            + subagents
            + (running or Tokens())
        )
        lines.append(f"This conversation: {format_tokens(total)}")
        if subagents != Tokens():
            lines.append(f"Of that, its subagents: {format_tokens(subagents)}")
        if auxiliary := await store.read(GetAuxiliaryUsage(session_id=session_id)):
            tasks, used = " and ".join(sorted(auxiliary)), sum(auxiliary.values(), Tokens())
            lines.append(f"Beside it, for its {tasks}: {format_tokens(used)}")
        return lines

    def _running_usage(self, session_id: SessionId | None) -> Tokens | None:
        """The usage of the running turn, which is stored only when it ends."""
        lane = self._lanes.get(session_id) if session_id else None
        return (
            lane.running_turn.usage if lane is not None and lane.running_turn is not None else None
        )


def format_tokens(usage: Tokens) -> str:
    cached = f" ({usage.cached_tokens:,} of them cached)" if usage.cached_tokens else ""
    thought = f" ({usage.reasoning_tokens:,} of them thought)" if usage.reasoning_tokens else ""
    return f"{usage.input_tokens:,} tokens in{cached}, {usage.output_tokens:,} out{thought}"
