"""The gateways of one home, one after the other, each a real process."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from tests.support.async_process import AsyncProcess, start_process
from tests.support.fork_server import GATEWAY, run_holdfast
from tests.support.stores import store_variables

import holdfast
from holdfast.core.config.settings import RunnerSettings
from holdfast.runner.runners import Runners
from holdfast.server.local.control_client import ControlClient
from holdfast.service.child_process import cancel_respawn
from holdfast.system.clock import SystemClock
from holdfast.system.egress import EgressPolicy
from holdfast.system.lock import read_holder
from holdfast.system.paths import Paths
from holdfast.system.process import open_pidfd

READY_WITHIN = 40.0
ENDS_WITHIN = 40.0

CONFIG = """
[gateway]
port = 0
{gateway}

[model]
{model}

[log]
level = "debug"
"""


DEMO_MODEL = 'provider = "demo"'


class LaunchedProcess:
    """Owns one process that was started on the home, and its stderr."""

    def __init__(
        self, process: asyncio.subprocess.Process | AsyncProcess, *, home: Path, errors: Path
    ) -> None:
        self._process = process
        self._home = home
        self._errors = errors
        self.address = ""

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    async def wait_until_ready(self) -> str:
        """The address that its first line of output names."""
        assert self._process.stdout is not None
        async with asyncio.timeout(READY_WITHIN):
            line = await self._process.stdout.readline()
        assert b"listens on" in line, self.output()
        self.address = line.decode().split()[-1]
        return self.address

    def signal(self, which: signal.Signals) -> None:
        self._process.send_signal(which)

    async def wait_for_exit(self) -> int:
        async with asyncio.timeout(ENDS_WITHIN):
            return await self._process.wait()

    async def kill(self) -> None:
        if self.alive:
            self._process.kill()
        await self._process.wait()

    @property
    def stderr(self) -> str:
        return self._errors.read_text()

    def output(self) -> str:
        """The end of its stderr, and of the log."""
        log = Paths(self._home).log_file
        logged = log.read_text() if log.exists() else ""
        return f"\n{self.stderr[-4000:]}\n--- log:\n{logged[-6000:]}"


class GatewaySequence:
    """Owns a home and every process that was started on it here."""

    def __init__(
        self,
        home: Path,
        http: aiohttp.ClientSession,
        *,
        gateway: str = "",
        model: str = DEMO_MODEL,
        forked: bool = False,
    ) -> None:
        self.home = home
        self.paths = Paths(home)
        self._http = http
        self._model = model
        self._launched: list[LaunchedProcess] = []
        self._forked = forked  # plain runs come from the fork server
        home.mkdir(mode=0o700)
        self.configure(gateway)

    def configure(self, gateway: str = "") -> None:
        self.paths.config_file.write_text(CONFIG.format(gateway=gateway, model=self._model))

    @property
    def environment(self) -> dict[str, str]:
        return {
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(Path(holdfast.__file__).parents[1]),
            "HOLDFAST_HOME": str(self.home),
            **store_variables(),
        }

    async def launch(self, *arguments: str, program: str = "") -> LaunchedProcess:
        """`holdfast ARGUMENTS` (`run`), or a program of Python, not waited for."""
        command = ["-c", program] if program else ["-m", "holdfast.cli", *(arguments or ("run",))]
        errors = self.home / f"run-{len(self._launched)}.err"
        if self._forked and not (arguments or program):
            process: asyncio.subprocess.Process | AsyncProcess = await start_process(
                GATEWAY, "run", env=self.environment, errors=errors
            )
        else:
            process = await self._spawn(command, errors)
        launched = LaunchedProcess(process, home=self.home, errors=errors)
        self._launched.append(launched)
        return launched

    async def _spawn(self, command: list[str], errors: Path) -> asyncio.subprocess.Process:
        with errors.open("wb") as file:
            return await asyncio.create_subprocess_exec(
                sys.executable,
                *command,
                stdout=asyncio.subprocess.PIPE,
                stderr=file,
                env=self.environment,
            )

    async def start(self, *arguments: str, program: str = "") -> LaunchedProcess:
        """The same, and wait until it takes messages."""
        launched = await self.launch(*arguments, program=program)
        await launched.wait_until_ready()
        return launched

    async def run_command(self, *arguments: str) -> tuple[int, str]:
        """The exit code and the output of a command."""
        done = await asyncio.to_thread(run_holdfast, *arguments, env=self.environment)
        return done.returncode, done.stdout + done.stderr

    async def ask(self, address: str, text: str, *, message_id: str) -> str:
        headers = {
            "Connection": "close",  # a kept-alive connection may lead to a gateway that is gone
            "Authorization": f"Bearer {self.paths.api_token.read_text().strip()}",
            "X-Holdfast-Session": "me",
            "X-Holdfast-Message-Id": message_id,
        }
        body = {"model": "holdfast", "messages": [{"role": "user", "content": text}]}
        url = f"{address}/v1/chat/completions"
        async with self._http.post(url, json=body, headers=headers) as response:
            response.raise_for_status()
            answer: str = (await response.json())["choices"][0]["message"]["content"]
            return answer

    async def status(self) -> dict[str, Any]:
        found: dict[str, Any] = await asyncio.to_thread(ControlClient(self.paths).get, "/status")
        return found

    async def end_processes(self) -> None:
        """End every process of this home: those launched here, and their successors."""
        for process in self._launched:
            if process.alive:
                process.signal(signal.SIGKILL)
        if cancel_respawn(str(self.paths.run)):
            await self.until(lambda: not cancel_respawn(str(self.paths.run)))
        await asyncio.to_thread(self._end_holder)
        for process in self._launched:
            await process.kill()  # only now: a gateway under `gateway boot` has the same stdout
        runners = Runners(
            self.home,
            RunnerSettings(),
            clock=SystemClock(),
            on_started=_ignore,
            on_ended=_ignore,
            egress=EgressPolicy,
        )
        await runners.end_all()

    def effects(self) -> list[str]:
        """The lines that commands wrote to `effects.log`, in all workspaces."""
        files = sorted(self.paths.workspaces.glob("*/effects.log"))
        return [line for file in files for line in file.read_text().splitlines()]

    async def until(self, fact: Callable[[], bool]) -> None:
        async with asyncio.timeout(ENDS_WITHIN):
            while not fact():
                await asyncio.sleep(0.02)

    def _end_holder(self) -> None:
        holder = read_holder(self.home)
        fd = holder and open_pidfd(holder.pid, expected_start=holder.start_time)
        if fd:
            signal.pidfd_send_signal(fd, signal.SIGKILL)
            os.close(fd)


async def _ignore(_: object) -> None:
    """Drops the event: no row of these runners is stored."""


@asynccontextmanager
async def open_sequence(
    home: Path, *, gateway: str = "", model: str = DEMO_MODEL, forked: bool = False
) -> AsyncIterator[GatewaySequence]:
    async with aiohttp.ClientSession() as http:
        made = GatewaySequence(home, http, gateway=gateway, model=model, forked=forked)
        try:
            yield made
        finally:
            await made.end_processes()
