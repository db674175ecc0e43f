"""A pretend Discord for each test."""

from collections.abc import AsyncIterator

import pytest
from tests.platforms.discord.fake import Vendor
from tests.platforms.discord.fake_rest import Rest


@pytest.fixture
async def vendor() -> AsyncIterator[Vendor]:
    made = Vendor()
    async with Rest(made).serving():
        yield made
