"""Fixtures: one Synapse with the same users for all tests, and a new bot account for each."""

from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path

import pytest
from tests.platforms.matrix.builders import write_checkpoint
from tests.platforms.matrix.encrypting_user import EncryptingUser
from tests.platforms.matrix.synapse import Account, Synapse
from tests.platforms.matrix.users import MatrixUser

_numbers = count(1)


@pytest.fixture(scope="session")
def synapse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Synapse]:
    with Synapse(tmp_path_factory.mktemp("synapse")) as server:
        yield server


@pytest.fixture(scope="session")
def known(synapse: Synapse) -> dict[str, Account]:
    return {name: synapse.register(name) for name in ("ann", "bob", "program")}


@pytest.fixture(scope="session")
def eve(synapse: Synapse, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EncryptingUser]:
    account, folder = synapse.register("eve"), tmp_path_factory.mktemp("eve")
    with EncryptingUser(synapse.base_url, account, folder) as user:
        yield user


@pytest.fixture
async def ann(synapse: Synapse, known: dict[str, Account]) -> AsyncIterator[MatrixUser]:
    async with MatrixUser(synapse.base_url, known["ann"]) as user:
        yield user


@pytest.fixture
async def bob(synapse: Synapse, known: dict[str, Account]) -> AsyncIterator[MatrixUser]:
    async with MatrixUser(synapse.base_url, known["bob"]) as user:
        yield user


@pytest.fixture
async def program(synapse: Synapse, known: dict[str, Account]) -> AsyncIterator[MatrixUser]:
    async with MatrixUser(synapse.base_url, known["program"]) as user:
        yield user


@pytest.fixture
def bot(synapse: Synapse) -> Account:
    """A new account."""
    return synapse.register(f"bot{next(_numbers)}")


@pytest.fixture(scope="session")
def shared(synapse: Synapse) -> tuple[Account, dict[object, str]]:
    """The account of all conformance checks, and its rooms."""
    return synapse.register("regular"), {}


@pytest.fixture
async def client(synapse: Synapse, bot: Account) -> AsyncIterator[MatrixUser]:
    """A client for the account of the bot."""
    async with MatrixUser(synapse.base_url, bot) as user:
        yield user


@pytest.fixture
async def folder(tmp_path: Path, client: MatrixUser) -> Path:
    """The folder of an account with a checkpoint, so that only later messages are read."""
    await write_checkpoint(client, tmp_path / "account")
    return tmp_path / "account"
