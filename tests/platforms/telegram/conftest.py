"""A pretend Telegram for each test."""

from collections.abc import AsyncIterator

import pytest
from tests.platforms.telegram.fake import Vendor
from tests.platforms.telegram.fake_bot_api import BotApi


@pytest.fixture
def vendor() -> Vendor:
    return Vendor()


@pytest.fixture
async def base_url(vendor: Vendor) -> AsyncIterator[str]:
    async with BotApi(vendor).serving() as url:
        yield url
