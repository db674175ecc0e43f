"""A real gateway in a process of its own, for tests of the API and the listener."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest
from tests.support.fork_server import GATEWAY, ForkedProcess, fork_process

from holdfast.server.local.control_client import ControlClient
from holdfast.system.paths import Paths
from holdfast.testing.misbehaving_model.process import ModelProcess


class SpawnedGateway:
    """Owns the process; `variables` are the gateway's environment, besides home and model."""

    def __init__(self, home: Path, *, model: ModelProcess, **variables: str) -> None:
        self.home = home
        self.model = model
        self.paths = Paths(home)
        self.address = ""
        self._variables = variables
        self._process: ForkedProcess | None = None

    def launch(self) -> ForkedProcess:
        """Start the process and wait for nothing."""
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "HOLDFAST_HOME": str(self.home),
            "HOLDFAST_GATEWAY_PORT": "0",
            "HOLDFAST_MODEL_PROVIDER": "local",
            "HOLDFAST_MODEL_NAME": "scripted",
            "HOLDFAST_MODEL_BASE_URL": self.model.base_url,
            **self._variables,
        }
        variables = {key: value for key, value in environ.items() if value}
        self._process = fork_process(GATEWAY, "run", env=variables, text=True)
        return self._process

    def start(self) -> "SpawnedGateway":
        """Start it, and return when it takes messages."""
        process = self.launch()
        assert process.stdout is not None
        first_line: str = process.stdout.readline()
        if not first_line:
            raise AssertionError(process.communicate()[1])
        self.address = first_line.split()[-1]
        return self

    def end(self, by: signal.Signals = signal.SIGTERM) -> int:
        """End it and return its exit code; what it wrote goes with it."""
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(by)
        process.communicate(timeout=30)
        return process.wait()

    def interrupt_stop(self) -> None:
        """Send a second SIGTERM: it waits for nothing any more."""
        assert self._process is not None, "it is not running"
        self._process.send_signal(signal.SIGTERM)

    def wait_for_exit(self) -> int:
        """Wait until it ends by itself, as requested before; returns its exit code."""
        process, self._process = self._process, None
        assert process is not None, "it is not running"
        process.communicate(timeout=30)
        return process.wait()

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    @property
    def token(self) -> str:
        return self.paths.api_token.read_text().strip()

    @property
    def auth(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def client(self, **options: Any) -> openai.OpenAI:
        return openai.OpenAI(
            **{"base_url": f"{self.address}/v1", "api_key": self.token, "timeout": 30, **options}
        )

    def async_client(self, **options: Any) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(
            **{"base_url": f"{self.address}/v1", "api_key": self.token, "timeout": 30, **options}
        )

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = ControlClient(self.paths).get("/status")
        return found

    def ledger(self) -> dict[str, int]:
        found: dict[str, int] = self.status()["inbox_counts"]
        return found

    def model_requests(self, text: str) -> list[dict[str, Any]]:
        """The requests to the model whose last message holds the text."""
        found = self.model.requests()["requests"]
        return [body for body in found if text in str(body["messages"][-1]["content"])]


async def until(fact: Callable[[], object], *, within: float = 40) -> None:
    """Wait until `fact` is true of another process."""
    deadline = time.monotonic() + within
    while not fact():
        assert time.monotonic() < deadline, "timed out"
        await asyncio.sleep(0.02)


@pytest.fixture(scope="session")
def shared_gateway(
    tmp_path_factory: pytest.TempPathFactory, model_process: ModelProcess
) -> Iterator[SpawnedGateway]:
    """A running gateway; tests share it, and keep apart by the names of their sessions."""
    gateway = SpawnedGateway(
        tmp_path_factory.mktemp("gateway") / "home",
        model=model_process,
        HOLDFAST_GATEWAY_ALLOWED_HOSTS='["Bot.Example.org"]',
    )
    try:
        yield gateway.start()
    finally:
        gateway.end()


NewGateway = Callable[..., SpawnedGateway]


@pytest.fixture
def new_gateway(tmp_path: Path, model_process: ModelProcess) -> Iterator[NewGateway]:
    """Makes gateways on a home of the test, to be started, killed and started again."""
    made: list[SpawnedGateway] = []

    def make(**variables: str) -> SpawnedGateway:
        made.append(SpawnedGateway(tmp_path / "home", model=model_process, **variables))
        return made[-1]

    try:
        yield make
    finally:
        for gateway in made:
            gateway.end()


@pytest.fixture
def client(shared_gateway: SpawnedGateway) -> Iterator[openai.OpenAI]:
    with shared_gateway.client(max_retries=0) as made:
        yield made


@pytest.fixture
async def http(shared_gateway: SpawnedGateway) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of the shared gateway, with its token."""
    async with aiohttp.ClientSession(
        shared_gateway.address, headers=shared_gateway.auth
    ) as session:
        yield session
