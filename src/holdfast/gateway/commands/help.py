"""/help: what can be asked of the gateway itself."""

from collections.abc import Awaitable, Callable, Sequence

from holdfast.core.messages.source import Source
from holdfast.core.people.commands import COMMANDS_BY_NAME, CommandSpec, CommandTopic
from holdfast.gateway.commands.command import CommandRequest
from holdfast.gateway.commands.reply import send_reply
from holdfast.gateway.services import Services

_INTRODUCTION = (
    "Anything else you write goes to the agent. /help COMMAND says how a command is used."
)

ListCommands = Callable[[Source], Sequence[CommandSpec]]
"""The commands that whoever asks from there may give."""


class HelpCommand:
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
    """By topic, and without the arguments: twenty usages in a row are read by nobody."""
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
