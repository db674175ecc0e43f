"""Fixtures: a fake Slack for each test."""

from collections.abc import AsyncIterator

import pytest
from tests.platforms.slack.fake import FakeSlack
from tests.platforms.slack.fake_web_api import FakeWebApi


@pytest.fixture
def vendor() -> FakeSlack:
    return FakeSlack()


@pytest.fixture
def web_api(vendor: FakeSlack) -> FakeWebApi:
    return FakeWebApi(vendor)


@pytest.fixture
async def base_url(web_api: FakeWebApi) -> AsyncIterator[str]:
    async with web_api.serving() as url:
        yield url
