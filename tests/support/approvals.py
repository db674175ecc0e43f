"""A harness for approvals: its shell holds commands, its judge knows a few of them by prefix."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
from tests.support.gateway_harness import GatewayHarness, HeldTool

from holdfast.core.config.settings import ApprovalSettings
from holdfast.core.messages.outbox import DeliveryState
from holdfast.core.messages.transcript import Message, ToolMessage
from holdfast.core.people.approval import HARMLESS, Approval, CommandRisk, CommandVerdict
from holdfast.core.turns.tool import Arguments, ReplayClass
from holdfast.core.turns.turn import LaneState

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


class ApprovalHarness(GatewayHarness):
    """A harness with a held shell and a judge of its commands."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.shell = HeldShell()
        self.extra_tools = [self.shell]
        self.judge = PrefixJudge()

    async def configure(self, **approvals: Any) -> None:
        await self.stop()
        settings = ApprovalSettings(**approvals)
        self.settings = msgspec.structs.replace(self.settings, approvals=settings)
        await self.start()

    async def asked(self, *, number: int = 1) -> list[Approval]:
        """What is pending, once it is so much, with the lanes at rest."""
        async with asyncio.timeout(30):
            while True:
                rows = await self.store.approvals(limit=50, pending=True)
                waits = self.gateway.lanes.count(LaneState.WAITING)
                if len(rows) >= number and waits:
                    return rows[::-1]
                await asyncio.sleep(0.005)

    async def ended(self) -> list[Approval]:
        """All that was asked, once nothing is pending any more."""
        async with asyncio.timeout(30):
            while await self.store.approvals(limit=1, pending=True):
                await asyncio.sleep(0.005)
        return (await self.store.approvals(limit=50))[::-1]

    async def receipts(self, number: int) -> None:
        """Returns when so many messages are known to have arrived."""
        async with asyncio.timeout(30):
            while (await self.store.outbox_counts())[DeliveryState.SENT] < number:
                await asyncio.sleep(0.005)

    async def told(self, text: str) -> None:
        """Returns when the chat has this; a question that expires at once may never come there."""
        async with asyncio.timeout(30):
            while text not in await self.texts(0):
                await asyncio.sleep(0.005)

    async def row(self, approval: Approval) -> Approval:
        found = await self.store.approval(approval.id)
        assert found is not None
        return found

    async def result(self) -> ToolMessage:
        """The last tool result that the model was shown."""
        messages: tuple[Message, ...] = self.model.requests[-1].messages
        return [m for m in messages if isinstance(m, ToolMessage)][-1]
