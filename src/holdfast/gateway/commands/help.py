"""/help: what can be asked of the gateway itself."""

from collections.abc import Awaitable, Callable, Iterable

from holdfast.core.commands import CommandSpec
from holdfast.gateway.commands.answer import answer
from holdfast.gateway.commands.command import Asked
from holdfast.gateway.house import House


class Help:
    name = "help"

    def __init__(self, house: House, *, commands: Callable[[], Iterable[CommandSpec]]) -> None:
        self._house = house
        self._commands = commands

    def begin(self, asked: Asked) -> Awaitable[None]:
        lines = [f"{command.usage} - {command.help}" for command in self._commands()]
        text = "\n".join(["Anything else you write goes to the agent.", *lines])
        return answer(self._house, asked.row, text)
