"""A gateway in a process of its own with nobody around it: no vendor, and a model of its own."""

import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.support.fork_server import GATEWAY, ForkedProcess, fork_process, run_holdfast

import holdfast
from holdfast.core.config.settings import RunnerSettings
from holdfast.runner.runners import Runners
from holdfast.server.local.control_client import GatewayDown, read_status
from holdfast.service.child_process import cancel_respawn
from holdfast.system.clock import SystemClock
from holdfast.system.lock import read_holder
from holdfast.system.paths import Paths

WITHIN = 40.0

CONFIG = """
[gateway]
port = 0
restart_drain_timeout = {drain}
park_timeout = {park}
supervisor = "{supervisor}"

[model]
provider = "demo"

[agent]
toolsets = ["terminal"]

[log]
level = "debug"
"""


class Lone:
    """Owns a home and the processes that are started on it; none of them outlives it."""

    def __init__(self, home: Path, *, drain: float = 0, park: float = 1, kept_by: str = "none"):
        home.mkdir(mode=0o700)
        self.home = home
        self.paths = Paths(home)
        self.paths.config_file.write_text(CONFIG.format(drain=drain, park=park, supervisor=kept_by))
        self.process: ForkedProcess | None = None
        self.variables: dict[str, str] = {}
        self.address = ""
        self.session = ""  # that was spoken to last

    def environment(self, **variables: str) -> dict[str, str]:
        return {
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(Path(holdfast.__file__).parents[1]),
            "HOLDFAST_HOME": str(self.home),
            **self.variables,
            **variables,
        }

    def launch(self, stall: str = "") -> ForkedProcess:
        """Start it, and wait for nothing."""
        with (self.home / "errors").open("ab") as errors:
            environ = self.environment(HOLDFAST_STALL_AT=stall)
            self.process = fork_process(GATEWAY, "run", env=environ, stdout=errors, stderr=errors)
        return self.process

    def start(self, stall: str = "") -> "Lone":
        """Start it, and return when it takes messages."""
        process = self.launch(stall)

        def ready() -> bool:
            assert process.poll() is None, f"it died as it started: {self.said()}"
            status = self.status()
            return bool(status["state"] == "running" and status["pid"] == process.pid)

        self.until(ready)
        self.address = self.status()["snapshot"]["address"]
        return self

    def tell(self, which: signal.Signals = signal.SIGTERM) -> None:
        assert self.process is not None
        self.process.send_signal(which)

    def ended(self) -> int:
        """Its exit code, waited for."""
        assert self.process is not None
        try:
            return self.process.wait(timeout=WITHIN)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it does not end: {self.said()}") from None

    def stop(self, which: signal.Signals = signal.SIGTERM) -> int:
        self.tell(which)
        return self.ended()

    def cli(self, *words: str) -> subprocess.CompletedProcess[str]:
        return run_holdfast(*words, env=self.environment(), timeout=WITHIN)

    def ask(self, method: str, path: str, body: object = None) -> Any:
        token = self.paths.api_token.read_text().strip()
        request = urllib.request.Request(
            f"{self.address}/api/v1{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=WITHIN) as response:
            return json.load(response)

    def say(self, text: str, *, name: str = "test", id: str = "m1") -> int:
        """Say something; returns when it is durable, with the number of the message."""
        self.session = str(self.ask("POST", "/sessions", {"name": name})["id"])
        said = {"text": text, "message_id": id}
        return int(self.ask("POST", f"/sessions/{self.session}/messages", said)["id"])

    def answer(self, message: int) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("GET", f"/messages/{message}?wait=30")
        return found

    def status(self) -> dict[str, Any]:
        try:
            return read_status(self.paths, timeout=WITHIN)
        except GatewayDown:
            return {"state": "down", "snapshot": {"phase": "", "turns": {}}}

    def until(self, fact: Callable[[], object]) -> None:
        deadline = time.monotonic() + WITHIN
        while not fact():
            assert time.monotonic() < deadline, f"it did not come about: {self.said()}"
            time.sleep(0.05)

    def until_in(self, phase: str) -> None:
        self.until(lambda: self.status()["snapshot"]["phase"].startswith(phase))

    def until_heard(self) -> None:
        """Until no signal is on its way to it. Two that come together may be one to the kernel."""
        assert self.process is not None
        facts = Path(f"/proc/{self.process.pid}/status")
        pending = ("SigPnd:", "ShdPnd:")

        def none() -> bool:
            lines = [line.split() for line in facts.read_text().splitlines()]
            return not any(int(words[1], 16) for words in lines if words[0] in pending)

        self.until(none)

    def until_runs(self, turns: int = 1) -> None:
        self.until(lambda: self.status()["snapshot"]["turns"].get("running") == turns)

    def intent(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.paths.intent.read_text())
        return found

    def log(self) -> str:
        return self.paths.log_file.read_text() if self.paths.log_file.exists() else ""

    def said(self) -> str:
        """What it said last, for whoever has to find out why."""
        return f"{(self.home / 'errors').read_text()[-3000:]}\n--- log:\n{self.log()[-3000:]}"

    def lines(self, action: str) -> list[dict[str, Any]]:
        """What was logged under that name, in all lives."""
        found = (json.loads(line) for line in self.log().splitlines())
        return [line for line in found if line.get("action") == action]

    def phases(self) -> list[str]:
        """The phases that the last stop went through, in order."""
        return list(self.lines("shutdown_phases_done")[-1]["seconds"])

    def leave(self) -> None:
        """Whatever is left ends: the gateway, its successor, and every runner of the home."""
        cancel_respawn(
            str(self.paths.run)
        )  # or the starter of one that is killed would start the next
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if (holder := read_holder(self.home)) is not None:
            with suppress(ProcessLookupError):  # it has ended since
                os.kill(holder.pid, signal.SIGKILL)
            self.until(lambda: read_holder(self.home) is None)

    async def sweep(self) -> None:
        runners = Runners(
            self.home, RunnerSettings(), clock=SystemClock(), on_started=_ignore, on_ended=_ignore
        )
        await runners.end_all()


async def _ignore(_: object) -> None:
    """Nobody keeps a record of runners that are only ended."""
