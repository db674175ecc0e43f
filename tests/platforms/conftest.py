"""One gateway and one model for all tests that need nothing of their own."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import aiohttp
import openai
import pytest
from tests.platforms.served import Served

from holdfast.testing.misbehaving_model.process import ModelProcess


@pytest.fixture(scope="session")
def model_process() -> Iterator[ModelProcess]:
    with ModelProcess() as process:
        yield process


@pytest.fixture(scope="session")
def served(
    tmp_path_factory: pytest.TempPathFactory, model_process: ModelProcess
) -> Iterator[Served]:
    """A running gateway; tests share it, and keep apart by the names of their sessions."""
    gateway = Served(
        tmp_path_factory.mktemp("served") / "home",
        model=model_process,
        HOLDFAST_GATEWAY_ALLOWED_HOSTS='["Bot.Example.org"]',
    )
    try:
        yield gateway.start()
    finally:
        gateway.end()


Serve = Callable[..., Served]


@pytest.fixture
def serve(tmp_path: Path, model_process: ModelProcess) -> Iterator[Serve]:
    """Makes gateways of a home of their own, to be started, killed and started again."""
    made: list[Served] = []

    def make(**variables: str) -> Served:
        made.append(Served(tmp_path / "home", model=model_process, **variables))
        return made[-1]

    try:
        yield make
    finally:
        for gateway in made:
            gateway.end()


@pytest.fixture
def client(served: Served) -> Iterator[openai.OpenAI]:
    with served.client(max_retries=0) as made:
        yield made


@pytest.fixture
async def http(served: Served) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of the shared gateway that brings its token."""
    async with aiohttp.ClientSession(served.address, headers=served.auth) as session:
        yield session
