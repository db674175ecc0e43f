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
from holdfast.core.retry import RetryPolicy
from holdfast.gateway.accounts.connection import BackoffSettings
from holdfast.testing.simulated.events import SayRequest
from holdfast.testing.simulated.platform import SimulatedPlatform
from holdfast.testing.simulated.service import ChatService

SHORT_BACKOFF = BackoffSettings(retry=RetryPolicy(first=0.02, longest=0.05), close_timeout=0.5)


class TwoAccountsHarness(GatewayHarness):
    """A gateway with the accounts `default` and `work`, each with its own chat service."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        usual = PlatformSettings(allow=("ann", "bob"))
        work = PlatformSettings(allow=("carl",))
        platform = msgspec.structs.replace(usual, accounts={"work": work})
        self.settings = Settings(platforms={"simulated": platform})
        self.backoff = SHORT_BACKOFF
        self.work = ChatService()
        self.extra_platforms = [SimulatedPlatform(self.work, account="work", longest_delay=0.02)]

    def say_to_work(self, text: str, *, user: str = "carl", chat: str = "office") -> str:
        return self.work.say(SayRequest(chat=chat, user=user, text=text, account="work"))

    async def work_texts(self, number: int) -> list[str]:
        ledger = await self.work.wait_for_ledger(sent=number, wait=30)
        assert len(ledger.sent) >= number, f"only {len(ledger.sent)} of {number} were sent"
        return [sent.outgoing.text for sent in ledger.sent]

    def status_of(self, account: str = "work") -> AccountStatus:
        (status,) = [
            each
            for each in self.gateway.accounts.statuses()
            if (each.name, each.account) == ("simulated", account)
        ]
        return status


class GatedPlatform(SimulatedPlatform):
    """A platform that connects and closes only when a test allows it."""

    def __init__(self, service: ChatService) -> None:
        super().__init__(service, account="work", longest_delay=0.02)
        self.may_connect = asyncio.Event()
        self.may_close = asyncio.Event()
        self.may_close.set()

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        await self.may_connect.wait()
        async with super().connect(intake):
            try:
                yield
            finally:
                await self.may_close.wait()
