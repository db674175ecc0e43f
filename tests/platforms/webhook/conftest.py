"""Fixtures: a fake receiver of webhooks for each test."""

from collections.abc import AsyncIterator

import pytest
from tests.platforms.webhook.builders import OURS
from tests.platforms.webhook.fake_receiver import FakeReceiver
from tests.support.gateway_harness import WallClock


@pytest.fixture
def receiver() -> FakeReceiver:
    return FakeReceiver(OURS, clock=WallClock())


@pytest.fixture
async def url(receiver: FakeReceiver) -> AsyncIterator[str]:
    async with receiver.serving() as found:
        yield found
