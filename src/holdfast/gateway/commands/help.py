"""/help: what can be asked of the gateway itself."""

from collections.abc import Awaitable, Callable, Sequence

from holdfast.core.messages.source import Source
from holdfast.core.people.commands import BY_NAME, CommandSpec, Topic
from holdfast.gateway.commands.command import Asked
from holdfast.gateway.commands.reply import answer
from holdfast.gateway.services import House

_INTRODUCTION = (
    "Anything else you write goes to the agent. /help COMMAND says how a command is used."
)

Listed = Callable[[Source], Sequence[CommandSpec]]
"""The commands that whoever asks from there may give."""


class Help:
    name = "help"

    def __init__(self, house: House, *, commands: Listed) -> None:
        self._house = house
        self._commands = commands

    def begin(self, asked: Asked) -> Awaitable[None]:
        commands = self._commands(asked.row.inbound.source)
        one = BY_NAME.get(asked.argument.lower().removeprefix("/"))
        if not asked.argument:
            text = _all(commands)
        elif one is None or one not in commands:
            text = f"There is no command {asked.argument!r} for you. /help lists those there are."
        else:
            text = _one(one)
        return answer(self._house, asked.row, text)


def _all(commands: Sequence[CommandSpec]) -> str:
    """By topic, and without the arguments: twenty usages in a row are read by nobody."""
    topics = (_topic(topic, [spec for spec in commands if spec.topic is topic]) for topic in Topic)
    return "\n\n".join([_INTRODUCTION, *filter(None, topics)])


def _topic(topic: Topic, commands: Sequence[CommandSpec]) -> str:
    lines = [f"/{command.name} - {command.help}" for command in commands]
    return "\n".join([f"{topic}:", *lines]) if lines else ""


def _one(command: CommandSpec) -> str:
    lines = [f"{command.usage} - {command.help}"]
    if command.aliases:
        lines.append("Also: " + ", ".join(f"/{alias}" for alias in command.aliases))
    if not command.mid_turn:
        lines.append("Not while the agent works on something.")
    return "\n".join(lines)
