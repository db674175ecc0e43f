"""The tools of the state machine: each call waits until a rule releases it, and is counted."""

import asyncio
from collections import Counter

from holdfast.core.ids import CallId
from holdfast.core.people.approval import HARMLESS, CommandRisk, CommandVerdict
from holdfast.core.turns.model import ToolSchema
from holdfast.core.turns.tool import Arguments, Danger, ReplayClass, ToolContext, ToolOutput

SHELL = "shell"
HARMLESS_COMMAND, DANGEROUS_COMMAND, UNCLASSIFIED_COMMAND, FORBIDDEN_COMMAND = (
    "harmless",
    "dangerous",
    "unclassified",
    "forbidden",
)
SHELL_COMMANDS = (
    HARMLESS_COMMAND,
    DANGEROUS_COMMAND,
    DANGEROUS_COMMAND,
    DANGEROUS_COMMAND,
    UNCLASSIFIED_COMMAND,
    FORBIDDEN_COMMAND,
)


class BlockingTool:
    """A tool whose calls wait until they are released. It outlives the gateway, as a runner does:
    `attach` finds the calls that an earlier run started."""

    toolset = "test"
    danger = Danger.NONE

    def __init__(self, replay: ReplayClass, name: str = "") -> None:
        parameters = {"type": "object"}
        self.schema = ToolSchema(name=name or replay, description="x", parameters=parameters)
        self.replay = replay
        self.started: Counter[CallId] = Counter()
        self.waiting: list[asyncio.Event] = []

    async def run(self, context: ToolContext, arguments: Arguments) -> ToolOutput:
        self.started[context.call_id] += 1
        return await self._wait_for_release(context)

    async def attach(self, context: ToolContext, arguments: Arguments) -> ToolOutput | None:
        if not self.started[context.call_id]:
            return None
        return await self._wait_for_release(context)

    async def _wait_for_release(self, context: ToolContext) -> ToolOutput:
        released = asyncio.Event()
        self.waiting.append(released)
        try:
            context.progress("working")
            await released.wait()
        finally:
            self.waiting.remove(released)
        return ToolOutput(text=f"{context.call_id} is done")


class BlockingShell(BlockingTool):
    """A blocking tool that runs commands and records the command of each call."""

    def __init__(self) -> None:
        super().__init__(ReplayClass.ATTACH, SHELL)
        self.ran: dict[CallId, str] = {}
        self.without_approval: set[CallId] = set()  # calls that needed none
        self.needs_approval = True

    def command(self, arguments: Arguments) -> str | None:
        command = arguments.get("command")
        return command if isinstance(command, str) else None

    async def run(self, context: ToolContext, arguments: Arguments) -> ToolOutput:
        self.ran[context.call_id] = self.command(arguments) or ""
        if not self.needs_approval:
            self.without_approval.add(context.call_id)
        return await super().run(context, arguments)


class WordJudge:
    """Judges a command by its one word; `flagged` counts those that need an approval."""

    def __init__(self) -> None:
        self.flagged = 0

    def judge(self, command: str) -> CommandVerdict:
        if command == FORBIDDEN_COMMAND:
            return CommandVerdict(
                level=CommandRisk.FORBIDDEN, rule=FORBIDDEN_COMMAND, why="It is forbidden."
            )
        if command in (DANGEROUS_COMMAND, UNCLASSIFIED_COMMAND):
            self.flagged += 1
            rule = DANGEROUS_COMMAND if command == DANGEROUS_COMMAND else ""
            return CommandVerdict(level=CommandRisk.DANGEROUS, rule=rule, why="It may do harm.")
        return HARMLESS
