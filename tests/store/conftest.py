"""Fixtures of the contract suite: each test that uses them runs once for each implementation."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.store_chat import StoreChat
from tests.support.stores import IMPLEMENTATIONS, OpenStore, StoreImplementation

from holdfast.core.ports.store import Store


@pytest.fixture(params=[*IMPLEMENTATIONS])
def implementation(request: pytest.FixtureRequest) -> StoreImplementation:
    return IMPLEMENTATIONS[request.param]


@pytest.fixture
def open_store(implementation: StoreImplementation) -> OpenStore:
    return implementation.open


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of the store."""
    return tmp_path / "state.db"


@pytest.fixture
async def store(open_store: OpenStore, path: Path) -> AsyncIterator[Store]:
    async with open_store(path) as opened:
        yield opened


@pytest.fixture
def chat(store: Store) -> StoreChat:
    return StoreChat(store)
