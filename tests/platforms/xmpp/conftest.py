"""Fixtures: one Prosody for all tests, and a user who is online."""

from collections.abc import AsyncIterator, Iterator

import pytest
from tests.platforms.xmpp.prosody import Prosody, need_prosody
from tests.platforms.xmpp.users import ANN, XmppUser, online


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prosody]:
    need_prosody()
    with Prosody(tmp_path_factory.mktemp("prosody")).running() as prosody:
        yield prosody


@pytest.fixture
async def ann(server: Prosody) -> AsyncIterator[XmppUser]:
    async with online(server, ANN) as user:
        yield user
