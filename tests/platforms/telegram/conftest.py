"""A pretend Telegram for each test, and the vendor's usual library as a bot of it."""

from collections.abc import AsyncIterator

import pytest
from telegram import Bot
from tests.platforms.telegram.bot_api import BotApi
from tests.platforms.telegram.vendor import Vendor


@pytest.fixture
def vendor() -> Vendor:
    return Vendor()


@pytest.fixture
async def base_url(vendor: Vendor) -> AsyncIterator[str]:
    async with BotApi(vendor).serving() as url:
        yield url


@pytest.fixture
async def ptb(vendor: Vendor, base_url: str) -> AsyncIterator[Bot]:
    """python-telegram-bot, which nobody here wrote: what it understands was not shaped to us."""
    bot = Bot(vendor.token, base_url=f"{base_url}/bot", base_file_url=f"{base_url}/file/bot")
    async with bot:
        yield bot
