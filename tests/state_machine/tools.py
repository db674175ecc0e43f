"""The tools of the machine: each waits to be let go, and remembers what was done with it."""

import asyncio
from collections import Counter

from holdfast.core.ids import CallId
from holdfast.core.people.approval import HARMLESS, CommandRisk, CommandVerdict
from holdfast.core.turns.model import ToolSchema
from holdfast.core.turns.tool import Arguments, Danger, ReplayClass, ToolContext, ToolOutput

SHELL = "shell"
HARMLESS_WORD, DANGEROUS, STRANGE, HOPELESS = "harmless", "dangerous", "strange", "hopeless"
COMMANDS_RUN = (HARMLESS_WORD, DANGEROUS, DANGEROUS, DANGEROUS, STRANGE, HOPELESS)


class Lever:
    """A tool that waits until it is let go. It outlives the gateway, as a runner does: `attach`
    finds what was pulled by an earlier life."""

    toolset = "test"
    danger = Danger.NONE

    def __init__(self, replay: ReplayClass, name: str = "") -> None:
        parameters = {"type": "object"}
        self.schema = ToolSchema(name=name or replay, description="x", parameters=parameters)
        self.replay = replay
        self.started: Counter[CallId] = Counter()
        self.held: list[asyncio.Event] = []

    async def run(self, context: ToolContext, arguments: Arguments) -> ToolOutput:
        self.started[context.call_id] += 1
        return await self._let_go(context)

    async def attach(self, context: ToolContext, arguments: Arguments) -> ToolOutput | None:
        if not self.started[context.call_id]:
            return None
        return await self._let_go(context)

    async def _let_go(self, context: ToolContext) -> ToolOutput:
        go = asyncio.Event()
        self.held.append(go)
        try:
            context.progress("it moves")
            await go.wait()
        finally:
            self.held.remove(go)
        return ToolOutput(text=f"{context.call_id} is pulled")


class Shell(Lever):
    """A lever that runs commands: it remembers what each call was to run."""

    def __init__(self) -> None:
        super().__init__(ReplayClass.ATTACH, SHELL)
        self.ran: dict[CallId, str] = {}
        self.free: set[CallId] = set()  # those for which nobody had to be asked
        self.asks = True

    def command(self, arguments: Arguments) -> str | None:
        wanted = arguments.get("command")
        return wanted if isinstance(wanted, str) else None

    async def run(self, context: ToolContext, arguments: Arguments) -> ToolOutput:
        self.ran[context.call_id] = self.command(arguments) or ""
        if not self.asks:
            self.free.add(context.call_id)
        return await super().run(context, arguments)


class ByWord:
    """Judges by the word itself; `asked` is how often a person is to be asked."""

    def __init__(self) -> None:
        self.asked = 0

    def judge(self, command: str) -> CommandVerdict:
        if command == HOPELESS:
            return CommandVerdict(
                level=CommandRisk.FORBIDDEN, rule=HOPELESS, why="It helps nobody."
            )
        if command in (DANGEROUS, STRANGE):
            self.asked += 1
            rule = DANGEROUS if command == DANGEROUS else ""
            return CommandVerdict(level=CommandRisk.DANGEROUS, rule=rule, why="It may do harm.")
        return HARMLESS
