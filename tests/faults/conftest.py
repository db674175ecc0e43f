"""Worlds for the fault tests: built on demand, and left without a process behind."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from tests.faults.world import World, vendor

from holdfast.testing.misbehaving_model.process import ModelProcess

Worlds = Callable[..., AbstractAsyncContextManager[World]]


@pytest.fixture(scope="session")
def model_process() -> Iterator[ModelProcess]:
    with ModelProcess() as process:
        yield process


@pytest.fixture
def worlds(tmp_path: Path, model_process: ModelProcess) -> Worlds:
    """Makes a world; `options` are the vendor's. Worlds of other homes may live beside it."""

    @asynccontextmanager
    async def make(
        *options: str, busy_mode: str = "queue", home: str = "home"
    ) -> AsyncIterator[World]:
        model_process.reset()
        async with vendor(*options) as base_url, aiohttp.ClientSession() as http:
            world = World(tmp_path / home, model=model_process, http=http)
            world.settle_in(base_url, busy_mode=busy_mode)
            try:
                yield world
            finally:
                await world.leave()

    return make


@pytest.fixture
async def world(worlds: Worlds) -> AsyncIterator[World]:
    async with worlds() as made:
        yield made
