"""A lineage: the gateways of one home, one after the other, each a real process."""

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

import holdfast
from holdfast.core.config.settings import RunnerSettings
from holdfast.runner.runners import Runners
from holdfast.server.local.control_client import ControlClient
from holdfast.service.child_process import cancel_respawn
from holdfast.system.clock import SystemClock
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


DEMO = 'provider = "demo"'


class Life:
    """Owns one process of ours, and what it says."""

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
        """The address that it greets with."""
        assert self._process.stdout is not None
        async with asyncio.timeout(READY_WITHIN):
            line = await self._process.stdout.readline()
        assert b"listens on" in line, self.said()
        self.address = line.decode().split()[-1]
        return self.address

    def signal(self, which: signal.Signals) -> None:
        self._process.send_signal(which)

    async def ended(self) -> int:
        async with asyncio.timeout(ENDS_WITHIN):
            return await self._process.wait()

    async def kill(self) -> None:
        if self.alive:
            self._process.kill()
        await self._process.wait()

    @property
    def stderr(self) -> str:
        return self._errors.read_text()

    def said(self) -> str:
        """The end of its stderr, and of the log."""
        log = Paths(self._home).log_file
        logged = log.read_text() if log.exists() else ""
        return f"\n{self.stderr[-4000:]}\n--- log:\n{logged[-6000:]}"


class Lineage:
    """Owns a home and every process that was started on it here."""

    def __init__(
        self,
        home: Path,
        http: aiohttp.ClientSession,
        *,
        gateway: str = "",
        model: str = DEMO,
        nursed: bool = False,
    ) -> None:
        self.home = home
        self.paths = Paths(home)
        self._http = http
        self._model = model
        self._lives: list[Life] = []
        self._nursed = nursed  # plain runs are forked from a process that has imported them
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
        }

    async def launch(self, *arguments: str, program: str = "") -> Life:
        """`holdfast ARGUMENTS` (`run`), or a program of Python, not waited for."""
        command = ["-c", program] if program else ["-m", "holdfast.cli", *(arguments or ("run",))]
        errors = self.home / f"life-{len(self._lives)}.err"
        if self._nursed and not (arguments or program):
            process: asyncio.subprocess.Process | AsyncProcess = await start_process(
                GATEWAY, "run", env=self.environment, errors=errors
            )
        else:
            process = await self._spawn(command, errors)
        life = Life(process, home=self.home, errors=errors)
        self._lives.append(life)
        return life

    async def _spawn(self, command: list[str], errors: Path) -> asyncio.subprocess.Process:
        with errors.open("wb") as file:
            return await asyncio.create_subprocess_exec(
                sys.executable,
                *command,
                stdout=asyncio.subprocess.PIPE,
                stderr=file,
                env=self.environment,
            )

    async def start(self, *arguments: str, program: str = "") -> Life:
        """The same, waited for until it takes messages."""
        life = await self.launch(*arguments, program=program)
        await life.wait_until_ready()
        return life

    async def said_by(self, *arguments: str) -> tuple[int, str]:
        """The exit code of a command, and all that it printed."""
        done = await asyncio.to_thread(run_holdfast, *arguments, env=self.environment)
        return done.returncode, done.stdout + done.stderr

    async def ask(self, address: str, text: str, *, message_id: str) -> str:
        headers = {
            "Connection": "close",  # or it would be sent to whoever answered last, who may be gone
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

    async def leave(self) -> None:
        """Every process of this home ends: those started here, and whoever followed them."""
        for life in self._lives:
            if life.alive:
                life.signal(signal.SIGKILL)
        if cancel_respawn(str(self.paths.run)):
            await self.until(lambda: not cancel_respawn(str(self.paths.run)))
        await asyncio.to_thread(self._end_holder)
        for life in self._lives:
            await life.kill()  # only now: a gateway under a boot has the same stdout
        runners = Runners(
            self.home, RunnerSettings(), clock=SystemClock(), on_started=_ignore, on_ended=_ignore
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
    """Nobody keeps a record of runners that are only ended."""


@asynccontextmanager
async def lineage(
    home: Path, *, gateway: str = "", model: str = DEMO, nursed: bool = False
) -> AsyncIterator[Lineage]:
    async with aiohttp.ClientSession() as http:
        made = Lineage(home, http, gateway=gateway, model=model, nursed=nursed)
        try:
            yield made
        finally:
            await made.leave()
