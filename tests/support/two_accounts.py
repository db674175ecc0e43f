"""A gateway with two accounts of one platform, and a platform whose connection a test controls."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from tests.support.gateway_harness import GatewayHarness

from holdfast.core.config.settings import PlatformSettings, Settings
from holdfast.core.ops.status import AccountStatus
from holdfast.core.ports.platform import Intake
from holdfast.gateway.accounts.connection import BackoffSettings
from holdfast.testing.simulated.events import SayRequest
from holdfast.testing.simulated.platform import SimulatedPlatform
from holdfast.testing.simulated.service import ChatService

AT_ONCE = BackoffSettings(first_wait=0.02, max_wait=0.05, close_timeout=0.5)


class Two(GatewayHarness):
    """A second account of the same platform, at a service of its own."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        usual = PlatformSettings(allow=("ann", "bob"))
        work = PlatformSettings(allow=("carl",))
        platform = msgspec.structs.replace(usual, accounts={"work": work})
        self.settings = Settings(platforms={"simulated": platform})
        self.backoff = AT_ONCE
        self.work = ChatService()
        self.extra_platforms = [SimulatedPlatform(self.work, account="work", longest_delay=0.02)]

    def say_at_work(self, text: str, *, user: str = "carl", chat: str = "office") -> str:
        return self.work.say(SayRequest(chat=chat, user=user, text=text, account="work"))

    async def sent_at_work(self, number: int) -> list[str]:
        ledger = await self.work.wait_for_ledger(sent=number, wait=30)
        assert len(ledger.sent) >= number, f"only {len(ledger.sent)} of {number} were sent"
        return [sent.outgoing.text for sent in ledger.sent]

    def facts(self, account: str = "work") -> AccountStatus:
        (found,) = [
            each
            for each in self.gateway.accounts.statuses()
            if (each.name, each.account) == ("simulated", account)
        ]
        return found


class Late(SimulatedPlatform):
    """A door that is not through until it is let in, and hangs on its way out if it is told to."""

    def __init__(self, service: ChatService) -> None:
        super().__init__(service, account="work", longest_delay=0.02)
        self.let_in = asyncio.Event()
        self.let_out = asyncio.Event()
        self.let_out.set()

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        await self.let_in.wait()
        async with super().connect(intake):
            try:
                yield
            finally:
                await self.let_out.wait()
