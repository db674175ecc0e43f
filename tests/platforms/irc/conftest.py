"""Fixtures: one real ngircd for all tests, a fake IRCv3 server for each, and unused nicks."""

from collections.abc import AsyncIterator, Callable, Iterator
from itertools import count

import pytest
from tests.platforms.irc.fake_ircv3 import FakeIrcServer
from tests.platforms.irc.ngircd import Ngircd, running

_NUMBERS = count(1)


@pytest.fixture(scope="session")
def ngircd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ngircd]:
    with running(tmp_path_factory.mktemp("ngircd"), tls=True) as made:
        yield made


@pytest.fixture
def port(ngircd: Ngircd) -> int:
    return ngircd.port


@pytest.fixture
def new_nick() -> Callable[[str], str]:
    """Returns unused nicks: a server frees a nick only once it notices a disconnect."""
    return lambda name: f"{name}{next(_NUMBERS)}"


@pytest.fixture
async def server() -> AsyncIterator[FakeIrcServer]:
    async with FakeIrcServer().serving() as made:
        yield made
