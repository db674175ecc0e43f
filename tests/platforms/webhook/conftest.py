"""A receiver of webhooks for each test."""

from collections.abc import AsyncIterator

import pytest
from tests.contract.conftest import Clock
from tests.platforms.webhook.doors import OURS
from tests.platforms.webhook.receiver import Receiver


@pytest.fixture
def receiver() -> Receiver:
    return Receiver(OURS, clock=Clock())


@pytest.fixture
async def url(receiver: Receiver) -> AsyncIterator[str]:
    async with receiver.serving() as found:
        yield found
