"""The detached starter of a successor: it tries again, gives up where it should, and goes."""

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


class Scene:
    """Owns a home, a plan for its understudies, and the starter."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.paths = Paths(home)
        self._plan = home / "plan"
        self._starter = 0

    def start(
        self,
        *plan: str,
        sockets: tuple[socket.socket, ...] = (),
        wait: float = 0.02,
        follows: int = 0,
    ) -> None:
        self.plan(*plan)
        self._starter = successor.start_successor(
            self.home,
            environ=dict(os.environ),
            sockets=sockets,
            options=("--port", "0"),
            command=(sys.executable, stand_in.__file__, str(self._plan)),
            first_wait=wait,
            after_pid=follows,
        )

    def plan(self, *words: str) -> Path:
        self._plan.write_text("\n".join(words))
        return self._plan

    def ended(self) -> None:
        """The starter has gone, as it does when there is no more for it to do."""
        fd = os.pidfd_open(self._starter)
        try:
            assert has_ended(fd, timeout=30), self.log
        finally:
            os.close(fd)
        assert os.waitstatus_to_exitcode(os.waitpid(self._starter, 0)[1]) == 0

    @property
    def lives(self) -> list[list[str]]:
        file = Path(f"{self._plan}.lives")
        return [line.split() for line in file.read_text().splitlines()] if file.exists() else []

    @property
    def log(self) -> str:
        return self.paths.log_file.read_text() if self.paths.log_file.exists() else ""

    def leave(self) -> None:
        """The last understudy, if it is still there: its parent has gone, and it is named in a
        file of this test's own folder."""
        for pid, *_ in self.lives[-1:]:
            command = Path(f"/proc/{pid}/cmdline")
            if command.exists() and str(self._plan) in command.read_text():
                os.kill(int(pid), signal.SIGKILL)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.leave()


def test_a_successor_that_fails_is_tried_again_after_growing_waits_and_keeps_its_place(
    scene: Scene,
) -> None:
    """E1: who connects meanwhile waits in the queue, and is not refused."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        where = sock.getsockname()
        scene.start("1", "75", "1", "ready", sockets=(sock,))
    with socket.create_connection(where):
        scene.ended()
    assert [life[1] for life in scene.lives] == [f"1@{where[1]}"] * 4
    assert scene.lives[0][2:] == ["run", "--home", str(scene.home), "--unattended", "--port", "0"]
    assert "Retrying in 0.02 s" in scene.log
    assert "exited with 75" in scene.log
    assert "Retrying in 0.04 s" in scene.log
    assert "the plan says 1" in scene.log
    assert f"The successor is ready, as process {scene.lives[-1][0]}." in scene.log


@pytest.mark.parametrize("code", ["78", "4", "0"])
def test_a_successor_that_only_a_person_can_help_is_not_tried_again(
    scene: Scene, code: str
) -> None:
    """E1: 78 is not retried; nor is one that found the home taken, or was told to stop."""
    scene.start(code, "ready")
    scene.ended()
    assert len(scene.lives) == 1
    assert f"the plan says {code}" in scene.log
    assert "It is not started again." in scene.log


def test_a_start_that_fails_again_and_again_can_be_called_off(scene: Scene) -> None:
    """E3: that is an operator's stop, and stays one."""
    assert not cancel_pending_start(scene.home)
    scene.start("1", wait=600)
    until(lambda: "Retrying in 600 s" in scene.log)
    assert cancel_pending_start(scene.home)
    scene.ended()
    assert "was cancelled" in scene.log
    intent = IntentFile(scene.paths.intent, now=SystemClock().now).read()
    assert intent is not None
    assert intent.state is IntentState.STOPPED
    assert not intent.should_start


def test_a_successor_is_not_started_before_the_one_it_follows_has_ended(scene: Scene) -> None:
    """E4: one that could not close its store keeps the lock to its very end."""
    begin = (
        "import os, sys; from pathlib import Path\n"
        "from holdfast.service.successor import start_successor\n"
        "home, plan, understudy = sys.argv[1:]\n"
        "command = (sys.executable, understudy, plan)\n"
        "pid = start_successor(Path(home), environ=dict(os.environ), command=command)\n"
        "print(pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    plan = scene.plan("ready")
    argv = [sys.executable, "-c", begin, str(scene.home), str(plan), stand_in.__file__]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as old:
        assert old.stdout is not None
        starter = int(old.stdout.readline())
        until(lambda: f"Pid:\t{old.pid}\n" in descriptors(starter))  # it waits for that end
        assert scene.lives == []
    until(lambda: "The successor is ready" in scene.log)


def descriptors(pid: int) -> str:
    """What the kernel tells of a process's descriptors: of a pidfd, whose it is."""
    try:
        return "".join(each.read_text() for each in Path(f"/proc/{pid}/fdinfo").iterdir())
    except OSError:
        return ""  # one was closed meanwhile; look again


def until(fact: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not fact():
        assert time.monotonic() < deadline, "it has not come to that"
        time.sleep(0.01)
