"""One Synapse for all tests of this door, with new people in each."""

from collections.abc import AsyncIterator, Iterator
from itertools import count

import pytest
from tests.platforms.matrix.people import Person
from tests.platforms.matrix.synapse import Synapse

_numbers = count(1)


@pytest.fixture(scope="session")
def synapse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Synapse]:
    with Synapse(tmp_path_factory.mktemp("synapse")) as server:
        yield server


@pytest.fixture
def bot(synapse: Synapse) -> str:
    """The whole name of an account that nobody has talked to."""
    return synapse.register(f"bot{next(_numbers)}")


@pytest.fixture
async def ann(synapse: Synapse) -> AsyncIterator[Person]:
    async with Person(synapse.base_url, synapse.register(f"ann{next(_numbers)}")) as person:
        yield person


@pytest.fixture
async def bob(synapse: Synapse) -> AsyncIterator[Person]:
    async with Person(synapse.base_url, synapse.register(f"bob{next(_numbers)}")) as person:
        yield person


@pytest.fixture
async def program(synapse: Synapse) -> AsyncIterator[Person]:
    async with Person(synapse.base_url, synapse.register(f"program{next(_numbers)}")) as person:
        yield person
