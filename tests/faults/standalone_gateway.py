"""A gateway in a process of its own, without a vendor, with the demo model."""

import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from tests.support.fork_server import GATEWAY, ForkedProcess, fork_process, run_holdfast
from tests.support.store_file import open_read_only
from tests.support.stores import store_variables

import holdfast
from holdfast.core.config.settings import RunnerSettings
from holdfast.core.turns.stop import StopRow
from holdfast.runner.runners import Runners
from holdfast.server.local.control_client import GatewayDown, read_status
from holdfast.service.child_process import cancel_respawn
from holdfast.store.sqlite.writes import gateway_stops
from holdfast.system.clock import SystemClock
from holdfast.system.egress import EgressPolicy
from holdfast.system.lock import read_holder
from holdfast.system.paths import Paths

TIMEOUT = 40.0

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


class StandaloneGateway:
    """Owns a home and the gateways that are started on it, one at a time."""

    def __init__(self, home: Path, *, drain: float = 0, park: float = 1, supervisor: str = "none"):
        home.mkdir(mode=0o700)
        self.home = home
        self.paths = Paths(home)
        self.paths.config_file.write_text(
            CONFIG.format(drain=drain, park=park, supervisor=supervisor)
        )
        self.process: ForkedProcess | None = None
        self.variables: dict[str, str] = {}
        self.address = ""
        self.session = ""  # of the last message

    def environment(self, **variables: str) -> dict[str, str]:
        return {
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(Path(holdfast.__file__).parents[1]),
            "HOLDFAST_HOME": str(self.home),
            **store_variables(),
            **self.variables,
            **variables,
        }

    def launch(self, stall: str = "") -> ForkedProcess:
        """Start it without waiting."""
        with (self.home / "errors").open("ab") as errors:
            environ = self.environment(HOLDFAST_STALL_AT=stall)
            self.process = fork_process(GATEWAY, "run", env=environ, stdout=errors, stderr=errors)
        return self.process

    def start(self, stall: str = "") -> Self:
        """Start it, and return when it takes messages."""
        process = self.launch(stall)

        def ready() -> bool:
            assert process.poll() is None, f"it died as it started: {self.output()}"
            status = self.status()
            return bool(status["state"] == "running" and status["pid"] == process.pid)

        self.until(ready)
        self.address = self.status()["snapshot"]["address"]
        return self

    def send_signal(self, which: signal.Signals = signal.SIGTERM) -> None:
        assert self.process is not None
        self.process.send_signal(which)

    def wait_for_exit(self) -> int:
        """Wait for its end; returns its exit code."""
        assert self.process is not None
        try:
            return self.process.wait(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it does not end: {self.output()}") from None

    def stop(self, which: signal.Signals = signal.SIGTERM) -> int:
        self.send_signal(which)
        return self.wait_for_exit()

    def cli(self, *words: str) -> subprocess.CompletedProcess[str]:
        return run_holdfast(*words, env=self.environment(), timeout=TIMEOUT)

    def ask(self, method: str, path: str, body: object = None) -> Any:
        token = self.paths.api_token.read_text().strip()
        request = urllib.request.Request(
            f"{self.address}/api/v1{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
            return json.load(response)

    def say(self, text: str, *, name: str = "test", id: str = "m1") -> int:
        """Send a message; returns its number once it is durable."""
        self.session = str(self.ask("POST", "/sessions", {"name": name})["id"])
        body = {"text": text, "message_id": id}
        return int(self.ask("POST", f"/sessions/{self.session}/messages", body)["id"])

    def answer(self, message: int) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("GET", f"/messages/{message}?wait=30")
        return found

    def status(self) -> dict[str, Any]:
        try:
            return read_status(self.paths, timeout=TIMEOUT)
        except GatewayDown:
            return {"state": "down", "snapshot": {"phase": "", "turns": {}}}

    def until(self, fact: Callable[[], object]) -> None:
        deadline = time.monotonic() + TIMEOUT
        while not fact():
            assert time.monotonic() < deadline, f"timed out: {self.output()}"
            time.sleep(0.05)

    def wait_for_phase(self, phase: str) -> None:
        self.until(lambda: self.status()["snapshot"]["phase"].startswith(phase))

    def wait_until_signals_delivered(self) -> None:
        """Until no signal is pending. The kernel may merge two signals that come together."""
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status")
        pending = ("SigPnd:", "ShdPnd:")

        def delivered() -> bool:
            lines = [line.split() for line in status.read_text().splitlines()]
            return not any(int(words[1], 16) for words in lines if words[0] in pending)

        self.until(delivered)

    def wait_for_running_turns(self, turns: int = 1) -> None:
        self.until(lambda: self.status()["snapshot"]["turns"].get("running") == turns)

    def intent(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.paths.intent.read_text())
        return found

    def log(self) -> str:
        return self.paths.log_file.read_text() if self.paths.log_file.exists() else ""

    def output(self) -> str:
        """The end of its output and of its log, for failure messages."""
        return f"{(self.home / 'errors').read_text()[-3000:]}\n--- log:\n{self.log()[-3000:]}"

    def log_records(self, action: str) -> list[dict[str, Any]]:
        """The log records of that action, of all runs."""
        found = (json.loads(line) for line in self.log().splitlines())
        return [line for line in found if line.get("action") == action]

    def phases(self) -> list[str]:
        """The phases that the last stop went through, in order."""
        return list(self.log_records("shutdown_phases_done")[-1]["seconds"])

    def stop_rows(self) -> list[StopRow]:
        """The recorded stops of this home's processes, the latest first."""
        with open_read_only(self.paths.db) as db:
            return gateway_stops.last_stops(db, 50)

    def end_processes(self) -> None:
        """End what is left: the gateway and its successor."""
        cancel_respawn(
            str(self.paths.run)
        )  # or the respawner of a killed gateway would start the next
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if (holder := read_holder(self.home)) is not None:
            with suppress(ProcessLookupError):  # it has ended since
                os.kill(holder.pid, signal.SIGKILL)
            self.until(lambda: read_holder(self.home) is None)

    async def end_runners(self) -> None:
        runners = Runners(
            self.home,
            RunnerSettings(),
            clock=SystemClock(),
            on_started=_ignore,
            on_ended=_ignore,
            egress=EgressPolicy,
        )
        await runners.end_all()


async def _ignore(_: object) -> None:
    """Drops the event: no row of these runners is stored."""


MakeGateway = Callable[..., StandaloneGateway]
