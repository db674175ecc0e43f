"""The promises of every platform, kept by this door over a real Synapse."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.platforms.matrix.gate import Gate
from tests.platforms.matrix.ground import MatrixGround
from tests.platforms.matrix.people import Person as Client
from tests.platforms.matrix.synapse import Synapse

from holdfast.platforms.conformance.check import Check
from holdfast.platforms.conformance.ground import Person
from holdfast.platforms.conformance.suite import CHECKS


@pytest.fixture
async def ground(
    synapse: Synapse, bot: str, ann: Client, bob: Client, program: Client, tmp_path: Path
) -> AsyncIterator[MatrixGround]:
    people = {Person.ANN: ann, Person.BOB: bob, Person.PROGRAM: program}
    async with Gate(synapse.base_url).open() as gate, Client(synapse.base_url, bot) as client:
        yield await MatrixGround(gate, client, people, tmp_path).begin()


@pytest.mark.parametrize("check", CHECKS, ids=str)
async def test_a_promise_of_every_platform(check: Check, ground: MatrixGround) -> None:
    await check(ground)
