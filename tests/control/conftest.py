"""The gateways of `tests/platforms`, for the window as for the doors."""

import aiohttp
import pytest
from tests.control.v1 import V1
from tests.platforms.conftest import client, http, model_process, serve, served
from tests.platforms.served import Served

__all__ = ["client", "http", "model_process", "serve", "served"]


@pytest.fixture
async def v1(served: Served, http: aiohttp.ClientSession) -> V1:
    return V1(served, http)
