"""The respawner: it retries the start of a successor, gives up where it should, and ends."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.faults import stand_in

from holdfast.cli.gateway.lifecycle import cancel_pending_start
from holdfast.service import successor
from holdfast.service.intent import IntentFile, IntentState
from holdfast.system.clock import SystemClock
from holdfast.system.paths import Paths
from holdfast.system.process import has_ended


class RespawnerHarness:
    """Owns a home, a plan for its stand-ins, and the respawner."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.paths = Paths(home)
        self._plan = home / "plan"
        self._pid = 0

    def start(
        self,
        *plan: str,
        sockets: tuple[socket.socket, ...] = (),
        wait: float = 0.02,
        predecessor: int = 0,
    ) -> None:
        self.plan(*plan)
        self._pid = successor.start_successor(
            self.home,
            environ=dict(os.environ),
            sockets=sockets,
            options=("--port", "0"),
            command=(sys.executable, stand_in.__file__, str(self._plan)),
            first_wait=wait,
            after_pid=predecessor,
        )

    def plan(self, *words: str) -> Path:
        self._plan.write_text("\n".join(words))
        return self._plan

    def wait_for_exit(self) -> None:
        """Wait until the respawner has ended without an error."""
        fd = os.pidfd_open(self._pid)
        try:
            assert has_ended(fd, timeout=30), self.log
        finally:
            os.close(fd)
        assert os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1]) == 0

    @property
    def runs(self) -> list[list[str]]:
        file = Path(f"{self._plan}.runs")
        return [line.split() for line in file.read_text().splitlines()] if file.exists() else []

    @property
    def log(self) -> str:
        return self.paths.log_file.read_text() if self.paths.log_file.exists() else ""

    def end_stand_in(self) -> None:
        """Kill the last stand-in if it still runs. Its parent has ended; its pid is in a file of
        this test's own folder."""
        for pid, *_ in self.runs[-1:]:
            command = Path(f"/proc/{pid}/cmdline")
            if command.exists() and str(self._plan) in command.read_text():
                os.kill(int(pid), signal.SIGKILL)


@pytest.fixture
def respawner(tmp_path: Path) -> Iterator[RespawnerHarness]:
    made = RespawnerHarness(tmp_path)
    yield made
    made.end_stand_in()


def test_a_failed_successor_is_retried_with_backoff_and_keeps_its_sockets(
    respawner: RespawnerHarness,
) -> None:
    """E1: who connects meanwhile waits in the queue, and is not refused."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        address = sock.getsockname()
        respawner.start("1", "75", "1", "ready", sockets=(sock,))
    with socket.create_connection(address):
        respawner.wait_for_exit()
    assert [run[1] for run in respawner.runs] == [f"1@{address[1]}"] * 4
    assert respawner.runs[0][2:] == [
        "run",
        "--home",
        str(respawner.home),
        "--unattended",
        "--port",
        "0",
    ]
    assert "Retrying in 0.02 s" in respawner.log
    assert "exited with 75" in respawner.log
    assert "Retrying in 0.04 s" in respawner.log
    assert "the plan says 1" in respawner.log
    assert f"The successor is ready, as process {respawner.runs[-1][0]}." in respawner.log


@pytest.mark.parametrize("code", ["78", "4", "0"])
def test_a_successor_that_needs_an_operator_is_not_retried(
    respawner: RespawnerHarness, code: str
) -> None:
    """E1: 78 is not retried; nor is one that found the home taken, or was told to stop."""
    respawner.start(code, "ready")
    respawner.wait_for_exit()
    assert len(respawner.runs) == 1
    assert f"the plan says {code}" in respawner.log
    assert "It is not started again." in respawner.log


def test_a_start_that_keeps_failing_can_be_cancelled(respawner: RespawnerHarness) -> None:
    """E3: that is an operator's stop, and stays one."""
    assert not cancel_pending_start(respawner.home)
    respawner.start("1", wait=600)
    until(lambda: "Retrying in 600 s" in respawner.log)
    assert cancel_pending_start(respawner.home)
    respawner.wait_for_exit()
    assert "was cancelled" in respawner.log
    intent = IntentFile(respawner.paths.intent, now=SystemClock().now).read()
    assert intent is not None
    assert intent.state is IntentState.STOPPED
    assert not intent.should_start


def test_a_successor_is_not_started_before_its_predecessor_has_ended(
    respawner: RespawnerHarness,
) -> None:
    """E4: one that could not close its store keeps the lock to its very end."""
    begin = (
        "import os, sys; from pathlib import Path\n"
        "from holdfast.service.successor import start_successor\n"
        "home, plan, stand_in = sys.argv[1:]\n"
        "command = (sys.executable, stand_in, plan)\n"
        "pid = start_successor(Path(home), environ=dict(os.environ), command=command)\n"
        "print(pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    plan = respawner.plan("ready")
    argv = [sys.executable, "-c", begin, str(respawner.home), str(plan), stand_in.__file__]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as old:
        assert old.stdout is not None
        respawner_pid = int(old.stdout.readline())
        until(lambda: f"Pid:\t{old.pid}\n" in descriptors(respawner_pid))  # it waits for that end
        assert respawner.runs == []
    until(lambda: "The successor is ready" in respawner.log)


def descriptors(pid: int) -> str:
    """The fdinfo of all descriptors of a process; that of a pidfd names its process."""
    try:
        return "".join(each.read_text() for each in Path(f"/proc/{pid}/fdinfo").iterdir())
    except OSError:
        return ""  # one was closed meanwhile; look again


def until(fact: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not fact():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.01)
