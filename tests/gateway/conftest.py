"""Fixtures that tests of several gateway packages share."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.gateway_harness import GatewayHarness, ManualClock
from tests.support.stores import each_store  # noqa: F401 - these tests run for each store

from holdfast.core.config.settings import ChatSettings, PlatformSettings, Settings


@pytest.fixture
async def pairing_harness(tmp_path: Path) -> AsyncIterator[GatewayHarness]:
    """A gateway that ann operates and bob may talk to, with a clock that a test moves."""
    harness = GatewayHarness(tmp_path / "state.db")
    account = PlatformSettings(
        operators=("ann",), allow=("bob",), chats={"open": ChatSettings(allow=("*",))}
    )
    harness.settings = Settings(platforms={"simulated": account})
    harness.clock = ManualClock()
    await harness.start()
    yield harness
    await harness.stop()
