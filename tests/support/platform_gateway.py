"""A real gateway in the test's own process, whose users are on one platform."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.approvals import HeldShell, PrefixJudge
from tests.support.gateway_harness import GatewayHarness

from holdfast.config import load
from holdfast.core.config.settings import GatewaySettings, PlatformSettings, Settings
from holdfast.core.messages.inbox import BusyMode
from holdfast.core.messages.outbox import DeliveryState
from holdfast.core.ports.platform import Platform
from holdfast.core.ports.runtime import Tool
from holdfast.core.ports.store_queries import CountOutbox
from holdfast.service.platforms import open_platforms
from holdfast.service.wiring import WorkspaceFiles
from holdfast.system.clock import SystemClock


class PlatformGatewayHarness(GatewayHarness):
    """A harness with one platform. `texts` returns the bot's messages at the vendor, oldest
    first. `shell` records the commands that the agent would run."""

    def __init__(
        self,
        home: Path,
        platform: Platform,
        settings: PlatformSettings,
        *,
        texts: Callable[[], Sequence[str]],
        tools: Sequence[Tool] = (),
    ) -> None:
        super().__init__(home / "state.db")
        self.home = home
        self.shell = HeldShell()
        self.extra_tools = [self.shell, *tools]
        self.judge = PrefixJudge()
        self.settings = Settings(
            platforms={platform.name: settings}, gateway=GatewaySettings(busy_mode=BusyMode.QUEUE)
        )
        self.extra_platforms = [platform]
        self.files = WorkspaceFiles(home)
        self._texts = texts

    async def wait_for_texts(self, *texts: str) -> None:
        """Wait until these are the messages of the bot; the test's timeout ends the wait."""
        while list(self._texts()) != list(texts):
            await asyncio.sleep(0.005)

    async def wait_for_deliveries(self, state: DeliveryState, number: int) -> None:
        """Wait until `number` deliveries have this state."""
        while (await self.store.read(CountOutbox()))[state] < number:
            await asyncio.sleep(0.005)


@asynccontextmanager
async def running_harness(harness: PlatformGatewayHarness) -> AsyncIterator[PlatformGatewayHarness]:
    """Starts the harness and stops it at the end, also if the test restarts it."""
    await harness.start()
    try:
        yield harness
    finally:
        await harness.stop()


def write_config(home: Path, text: str) -> Path:
    """A home with that configuration."""
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "holdfast.toml").write_text(text)
    return home


def open_accounts(home: Path, text: str, environ: dict[str, str]) -> list[Platform]:
    """The accounts of that configuration, as a gateway opens them."""
    config = load(write_config(home, text), environ)
    return list(open_platforms(config, clock=SystemClock(), new_id=lambda prefix: prefix))
