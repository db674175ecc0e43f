"""A machine with a fake supervisor: fakes first on its PATH, a home, and real gateways."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner, Result
from tests.service.supervisors.fakes.process_tree import descendants
from tests.support.fork_server import run_holdfast

import holdfast
from holdfast.cli.root import cli, exit_code
from holdfast.core.errors import HoldfastError
from holdfast.system.paths import Paths

REPO = Path(__file__).parents[3]
FAKES = Path(__file__).parent / "fakes"
HOLDFAST = Path(sys.executable).with_name("holdfast")
SPEED = 20.0  # the fake waits this much shorter between restarts
TIMEOUT = 80.0


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def run(words: tuple[str, ...]) -> None:
    """The whole command line, as `holdfast.cli.root.run` has it."""
    try:
        cli.main(list(words), prog_name="holdfast", standalone_mode=True)
    except HoldfastError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(exit_code(error))


@dataclass
class Machine:
    """Owns a folder with a PATH of fakes, a user's home and a gateway's; `cli` runs there."""

    root: Path
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def bin(self) -> Path:
        return self.root / "bin"

    @property
    def runtime(self) -> Path:
        return self.root / "run"

    @property
    def home(self) -> Path:
        return self.root / "ann" / ".holdfast"

    @property
    def paths(self) -> Paths:
        return Paths(self.home)

    @property
    def units(self) -> Path:
        return self.root / "ann/.config/systemd/user"

    @property
    def unit(self) -> Path:
        return self.units / "holdfast.service"

    @property
    def environ(self) -> dict[str, str]:
        return {
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "HOME": str(self.root / "ann"),
            "USER": "ann",
            "LANG": "C.UTF-8",
            "XDG_RUNTIME_DIR": str(self.runtime),
            "SYSTEMD_UNIT_PATH": str(self.root / "machine"),
            "PYTHONPATH": f"{Path(holdfast.__file__).parents[1]}:{REPO}",
            **self.variables,
        }

    def cli(self, *words: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        done = run_holdfast(*words, env=self.environ, timeout=TIMEOUT)
        assert code is None or done.returncode == code, (
            f"{done.stdout}\n{done.stderr}\n{self.diagnostics}"
        )
        return done

    def call(self, *words: str, code: int | None = 0) -> Result:
        """As `cli`, without a process of its own: for commands that start nothing."""
        for name in [name for name in os.environ if name.startswith("HOLDFAST_")]:
            assert name == "HOLDFAST_SOAK", f"{name} is set around the tests"
        done = CliRunner().invoke(run, words, env={"XDG_CONFIG_HOME": None, **self.environ})
        assert code is None or done.exit_code == code, (
            f"{done.output}\n{done.exception!r}\n{self.diagnostics}"
        )
        return done

    def fake(self, name: str, source: Path) -> None:
        """A program of that name, run by this interpreter and nothing around it."""
        self.bin.mkdir(exist_ok=True)
        program = self.bin / name
        program.write_text(f"#!{sys.executable} -IS\n{source.read_text()}")
        program.chmod(0o755)

    @property
    def calls(self) -> list[list[str]]:
        """The calls of the fakes in order, without read-only ones."""
        file = self.runtime / "calls"
        calls = (
            [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        )
        return [call for call in calls if not {"show", "--version", "print"} & set(call)]

    @property
    def events(self) -> list[str]:
        file = self.runtime / "events"
        return file.read_text().splitlines() if file.exists() else []

    @property
    def diagnostics(self) -> str:
        texts = [self.runtime / "journal", self.runtime / "events", self.paths.log_file]
        return "\n".join(
            f"--- {file}:\n{file.read_text()[-4000:]}" for file in texts if file.exists()
        )

    def refuse(self, word: str) -> None:
        """From now on the fake refuses this command."""
        (self.runtime / f"refuse-{word}").touch()

    def wait_for_log(self, text: str) -> None:
        """Wait for a log line: a thread of the gateway writes it a moment later."""
        log = self.paths.log_file
        self.until(lambda: log.exists() and text in log.read_text())

    def until(self, fact: Callable[[], Any]) -> Any:
        end = time.monotonic() + TIMEOUT
        while not (found := fact()):
            assert time.monotonic() < end, self.diagnostics
            time.sleep(0.02)
        return found


@dataclass
class FakeSystemd:
    """A machine on which the fake systemd runs, as a process."""

    machine: Machine

    def show(self, name: str = "holdfast.service") -> dict[str, str]:
        """As `systemctl show`, without a process for each call."""
        request = {"program": "systemctl", "arguments": ["show", name], "pid": 0}
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self.machine.runtime / "systemd/private"))
            connection.sendall(json.dumps(request).encode() + b"\n")
            answer = json.loads(b"".join(iter(lambda: connection.recv(65536), b"")))
        assert answer["code"] == 0, answer
        return dict(line.split("=", 1) for line in answer["out"].splitlines())

    @property
    def pid(self) -> int:
        return int(self.show()["MainPID"])

    def is_running(self, *, but: int = 0) -> bool:
        """The unit is ready, in another process than that one."""
        shown = self.show()
        return shown["SubState"] == "running" and shown["MainPID"] not in ("0", str(but))


def end_descendants(pid: int) -> None:
    """Kill until none is left that could write into a folder which is removed next."""
    os.kill(pid, signal.SIGSTOP)  # or it would start again what it sees ending
    while below := descendants(pid, excluded=set()):
        for each in below:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        time.sleep(0.01)
