"""A pretend Slack for each test."""

from collections.abc import AsyncIterator

import pytest
from tests.platforms.slack.fake import Vendor
from tests.platforms.slack.fake_web_api import WebApi


@pytest.fixture
def vendor() -> Vendor:
    return Vendor()


@pytest.fixture
def web_api(vendor: Vendor) -> WebApi:
    return WebApi(vendor)


@pytest.fixture
async def base_url(web_api: WebApi) -> AsyncIterator[str]:
    async with web_api.serving() as url:
        yield url
