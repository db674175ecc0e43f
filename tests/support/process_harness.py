"""A simulated vendor, a model and a gateway, each in a process of its own, for fault tests."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.support.async_process import AsyncProcess, start_process
from tests.support.fork_server import GATEWAY, VENDOR
from tests.support.stores import implementation, store_variables

import holdfast
from holdfast.core.config.settings import RunnerSettings
from holdfast.runner.runners import Runners
from holdfast.server.local.control_client import ControlClient
from holdfast.system.clock import SystemClock
from holdfast.system.egress import EgressPolicy
from holdfast.system.paths import Paths
from holdfast.testing.misbehaving_model.process import ModelProcess
from holdfast.testing.simulated.events import Ledger
from holdfast.testing.simulated.people import PeopleClient

_PENDING = ("pending", "sending", "streaming")
READY_WITHIN = 30.0
DIES_WITHIN = 30.0
SETTLES_WITHIN = 40.0

CONFIG = """
[gateway]
port = 0
busy_mode = "{busy_mode}"

[model]
provider = "openai"
name = "scripted"
base_url = "{model}"

[platforms.simulated]
base_url = "{vendor}"
allow = ["*", "ann"]

[log]
level = "debug"
"""


class ProcessHarness:
    """Owns a home and at most one gateway in it; the vendor and the model outlive each of those.

    A gateway is started, dies or is stopped, and the next one is started on the same home.
    """

    def __init__(
        self,
        home: Path,
        *,
        model: ModelProcess,
        http: aiohttp.ClientSession,
    ) -> None:
        self.home = home
        self.paths = Paths(home)
        self.model = model
        self.http = http
        self.address = ""
        self.runs = 0
        self._gateway: AsyncProcess | None = None
        self._people: PeopleClient | None = None

    @property
    def people(self) -> PeopleClient:
        assert self._people is not None, "the vendor is not there yet"
        return self._people

    @property
    def token(self) -> str:
        return self.paths.api_token.read_text().strip()

    @property
    def alive(self) -> bool:
        return self._gateway is not None and self._gateway.returncode is None

    def write_config(self, vendor: str, *, busy_mode: str) -> None:
        self.home.mkdir(mode=0o700)
        config = CONFIG.format(model=self.model.base_url, vendor=vendor, busy_mode=busy_mode)
        self.paths.config_file.write_text(config)
        self._people = PeopleClient(vendor, http=self.http)

    def environment(self, crash_at: str = "") -> dict[str, str]:
        """The environment of a process of this home; it runs the code that this test imported."""
        return {
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(Path(holdfast.__file__).parents[1]),
            "HOLDFAST_HOME": str(self.home),
            "HOLDFAST_CRASH_AT": crash_at,
            **store_variables(),
        }

    async def launch(self, crash_at: str = "") -> None:
        """Start a gateway and do not wait for it: it may be about to die."""
        assert not self.alive, "one gateway at a time"
        self.runs += 1
        errors = self.home / f"run-{self.runs}.err"
        self._gateway = await start_process(
            GATEWAY, "run", env=self.environment(crash_at), errors=errors
        )

    async def start(self, crash_at: str = "") -> None:
        """Start a gateway and wait until it takes messages."""
        await self.launch(crash_at)
        assert await self.wait_until_ready(), f"the gateway died as it started: {self.errors()}"

    async def wait_until_ready(self) -> bool:
        """True once it takes messages; False if it died before."""
        assert self._gateway is not None
        async with asyncio.timeout(READY_WITHIN):
            line = await self._gateway.stdout.readline()
            if not line:
                await self._gateway.wait()
                return False
        self.address = line.decode().split()[-1]
        return True

    async def wait_for_crash(self) -> None:
        """It kills itself at its crash point; a point that is never reached fails the test."""
        assert self._gateway is not None
        try:
            async with asyncio.timeout(DIES_WITHIN):
                code = await self._gateway.wait()
        except TimeoutError:
            raise AssertionError(f"the crash point was never reached: {self.errors()}") from None
        assert code == -signal.SIGKILL, f"it ended with {code}: {self.errors()}"

    async def kill(self) -> None:
        """SIGKILL, from outside and at this instant."""
        assert self._gateway is not None
        self._gateway.kill()
        await self._gateway.wait()

    async def stop(self) -> None:
        """SIGTERM; its runners end with it."""
        assert self._gateway is not None
        self._gateway.terminate()
        async with asyncio.timeout(30):
            code = await self._gateway.wait()
        assert code == 0, f"it ended with {code}: {self.errors()}"

    async def wait_for_exit(self, code: int) -> None:
        """It ends by itself, as it was asked to, with this code."""
        assert self._gateway is not None
        async with asyncio.timeout(30):
            ended = await self._gateway.wait()
        assert ended == code, f"it ended with {ended}: {self.errors()}"

    async def end_processes(self) -> None:
        """End what the test left behind: the gateway, and every runner of its home."""
        if self.alive:
            await self.kill()
        runners = Runners(
            self.home,
            RunnerSettings(),
            clock=SystemClock(),
            on_started=_ignore,
            on_ended=_ignore,
            egress=EgressPolicy,
        )
        await runners.end_all()

    async def status(self) -> dict[str, Any]:
        found: dict[str, Any] = await asyncio.to_thread(ControlClient(self.paths).get, "/status")
        return found

    async def wait_until_settled(self, *, within: float = SETTLES_WITHIN) -> Ledger:
        """Wait until all messages are accepted, ended and delivered; the vendor's ledger."""
        async with asyncio.timeout(within):
            while True:
                ledger = await self.people.ledger()
                if all(said.acked for said in ledger.said):
                    status = await self.status()
                    counts = status["inbox_counts"]
                    busy = counts["queued"] or counts["running"] or status["outbox"]
                    if not busy and not self._has_pending_deliveries():
                        return await self.people.ledger()
                await asyncio.sleep(0.03)

    def _has_pending_deliveries(self) -> bool:
        """Whether the store has a delivery that the gateway has not taken up yet: the end of a turn
        is in the ledger an instant before its reply is on its way."""
        with implementation().stored_rows(self.paths.db) as rows:
            return any(row["state"] in _PENDING for row in rows.table("outbox"))

    async def wait_for_running_turn(self, requests: int = 1) -> None:
        """Until the model got so many requests and the turn is in the store. A request may precede
        the commit of its turn, and a gateway that is killed between them has begun nothing."""
        await self.until(lambda: self.model.requests(last=1)["count"] >= requests)
        async with asyncio.timeout(SETTLES_WITHIN):
            while (await self.status())["inbox_counts"]["running"] != 1:
                await asyncio.sleep(0.02)

    async def until(self, fact: Callable[[], bool], *, within: float = 30.0) -> None:
        """Wait until `fact` returns true."""
        async with asyncio.timeout(within):
            while not fact():
                await asyncio.sleep(0.02)

    def effects(self, name: str = "effects.log") -> list[str]:
        """The lines that commands wrote to that file, in all workspaces."""
        files = sorted(self.paths.workspaces.glob(f"*/{name}"))
        return [line for file in files for line in file.read_text().splitlines()]

    def errors(self) -> str:
        """The stderr of the current gateway, and the end of the log."""
        stderr = (self.home / f"run-{self.runs}.err").read_text()
        log = self.paths.log_file.read_text() if self.paths.log_file.exists() else ""
        return f"\n{stderr[-4000:]}\n--- log:\n{log[-6000:]}"


async def _ignore(_: object) -> None:
    """Drops the event: no row of these runners is stored."""


@asynccontextmanager
async def vendor(*options: str) -> AsyncIterator[str]:
    """The simulated platform in a process of its own; yields its base URL."""
    process = await start_process(VENDOR, *options, env=os.environ)
    try:
        line = json.loads(await process.stdout.readline())
        yield line["base_url"]
    finally:
        process.terminate()
        await process.wait()


NewProcessHarness = Callable[..., AbstractAsyncContextManager[ProcessHarness]]


@pytest.fixture
def new_process_harness(tmp_path: Path, model_process: ModelProcess) -> NewProcessHarness:
    """Make a harness; `options` are those of the simulated vendor, `home` names its directory."""

    @asynccontextmanager
    async def make(
        *options: str, busy_mode: str = "queue", home: str = "home"
    ) -> AsyncIterator[ProcessHarness]:
        model_process.reset()
        async with vendor(*options) as base_url, aiohttp.ClientSession() as http:
            harness = ProcessHarness(tmp_path / home, model=model_process, http=http)
            harness.write_config(base_url, busy_mode=busy_mode)
            try:
                yield harness
            finally:
                await harness.end_processes()

    return make


@pytest.fixture
async def process_harness(
    new_process_harness: NewProcessHarness,
) -> AsyncIterator[ProcessHarness]:
    async with new_process_harness() as made:
        yield made
