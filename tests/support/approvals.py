"""A harness for approvals: its shell holds commands, its judge knows a few of them by prefix."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
from tests.support.gateway_harness import GatewayHarness, HeldTool

from holdfast.core.config.settings import ApprovalSettings
from holdfast.core.messages.outbox import DeliveryState
from holdfast.core.messages.transcript import Message, ToolMessage
from holdfast.core.people.approval import (
    HARMLESS,
    Approval,
    CommandJudge,
    CommandRisk,
    CommandVerdict,
)
from holdfast.core.ports.store_queries import CountOutbox, GetApproval, ListApprovals
from holdfast.core.turns.model import ToolSchema
from holdfast.core.turns.tool import Arguments, Danger, ReplayClass, ToolContext, ToolOutput
from holdfast.core.turns.turn_state import LaneState

RM = '{"command": "rm -rf build"}'
DD = '{"command": "dd if=/dev/zero of=disk"}'
LS = '{"command": "ls"}'
WIPE = '{"command": "rm -rf /"}'


class PrefixJudge:
    """Judges a command by its prefix; the real judge has tests of its own."""

    def judge(self, command: str) -> CommandVerdict:
        if command == "rm -rf /":
            return CommandVerdict(
                level=CommandRisk.FORBIDDEN, rule="wipe", why="It wipes the disk."
            )
        for word, rule, why in (
            ("rm", "delete", "It deletes files."),
            ("dd", "dd", "It writes raw."),
        ):
            if command.startswith(word):
                return CommandVerdict(level=CommandRisk.DANGEROUS, rule=rule, why=why)
        if command.startswith("("):
            return CommandVerdict(level=CommandRisk.DANGEROUS, why="It cannot be read.")
        return HARMLESS


class HeldShell(HeldTool):
    """A held tool whose calls are shell commands."""

    def __init__(self) -> None:
        super().__init__("shell", ReplayClass.ATTACH)

    def command(self, arguments: Arguments) -> str | None:
        command = arguments.get("command")
        return command if isinstance(command, str) else None


class InstantShell:
    """A tool that needs permission for its commands and runs none of them."""

    schema = ToolSchema(name="shell", description="x", parameters={"type": "object"})
    toolset = "test"
    replay = ReplayClass.NEVER
    danger = Danger.CONFINED

    def command(self, arguments: Arguments) -> str | None:
        return str(arguments["command"])

    async def run(self, context: ToolContext, arguments: Arguments) -> ToolOutput:
        return ToolOutput(text="done")

    async def attach(self, context: ToolContext, arguments: Arguments) -> ToolOutput | None:
        return None


class AlwaysDangerousJudge:
    """Finds every command dangerous."""

    def judge(self, command: str) -> CommandVerdict:
        return CommandVerdict(level=CommandRisk.DANGEROUS, rule="test", why="It is dangerous.")


class ApprovalHarness(GatewayHarness):
    """A harness with a held shell and a judge of its commands."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.shell = HeldShell()
        self.extra_tools = [self.shell]
        self.judge: CommandJudge = PrefixJudge()

    async def configure(self, **approvals: Any) -> None:
        await self.stop()
        settings = ApprovalSettings(**approvals)
        self.settings = msgspec.structs.replace(self.settings, approvals=settings)
        await self.start()

    async def pending_approvals(self, *, number: int = 1) -> list[Approval]:
        """The pending approvals, once there are so many and a lane waits for them."""
        async with asyncio.timeout(30):
            while True:
                rows = await self.store.read(ListApprovals(limit=50, pending=True))
                waits = self.gateway.lanes.count(LaneState.WAITING)
                if len(rows) >= number and waits:
                    return rows[::-1]
                await asyncio.sleep(0.005)

    async def ended_approvals(self) -> list[Approval]:
        """All approvals, once none is pending."""
        async with asyncio.timeout(30):
            while await self.store.read(ListApprovals(limit=1, pending=True)):
                await asyncio.sleep(0.005)
        return (await self.store.read(ListApprovals(limit=50)))[::-1]

    async def wait_for_receipts(self, number: int) -> None:
        """Return when so many messages have a receipt."""
        async with asyncio.timeout(30):
            while (await self.store.read(CountOutbox()))[DeliveryState.SENT] < number:
                await asyncio.sleep(0.005)

    async def wait_for_text(self, text: str) -> None:
        """Return when the chat got this text; a question that expires at once may never be sent."""
        async with asyncio.timeout(30):
            while text not in await self.texts(0):
                await asyncio.sleep(0.005)

    async def stored(self, approval: Approval) -> Approval:
        """The row of an approval as it is now."""
        found = await self.store.read(GetApproval(approval_id=approval.id))
        assert found is not None
        return found

    async def result(self) -> ToolMessage:
        """The last tool result in the last model request."""
        messages: tuple[Message, ...] = self.model.requests[-1].messages
        return [m for m in messages if isinstance(m, ToolMessage)][-1]
