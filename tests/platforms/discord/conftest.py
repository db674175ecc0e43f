"""A pretend Discord for each test."""

from collections.abc import AsyncIterator

import pytest
from tests.platforms.discord.rest import Rest
from tests.platforms.discord.vendor import Vendor


@pytest.fixture
async def vendor() -> AsyncIterator[Vendor]:
    made = Vendor()
    async with Rest(made).serving():
        yield made
