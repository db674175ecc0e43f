"""Fixtures: a fake Discord for each test."""

from collections.abc import AsyncIterator

import pytest
from tests.platforms.discord.fake import FakeDiscord
from tests.platforms.discord.fake_rest import FakeRestApi


@pytest.fixture
async def vendor() -> AsyncIterator[FakeDiscord]:
    made = FakeDiscord()
    async with FakeRestApi(made).serving():
        yield made
