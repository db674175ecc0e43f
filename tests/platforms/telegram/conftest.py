"""Fixtures: a fake Telegram for each test."""

from collections.abc import AsyncIterator

import pytest
from tests.platforms.telegram.fake import FakeTelegram
from tests.platforms.telegram.fake_bot_api import FakeBotApi


@pytest.fixture
def vendor() -> FakeTelegram:
    return FakeTelegram()


@pytest.fixture
async def base_url(vendor: FakeTelegram) -> AsyncIterator[str]:
    async with FakeBotApi(vendor).serving() as url:
        yield url
