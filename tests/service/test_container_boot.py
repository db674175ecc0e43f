"""`holdfast gateway boot`: the first process of a container, and what it keeps running."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.faults import stand_in
from tests.faults.gateway_sequence import GatewaySequence, open_sequence

import holdfast
from holdfast.core.turns.stop import StopKind, StopOrder, StopRequester
from holdfast.service.intent import Intent, IntentFile, IntentState
from holdfast.service.supervisors.container import ask_container_supervisor, should_start
from holdfast.system.lock import LockHolder, read_holder
from holdfast.system.paths import Paths
from holdfast.system.process import has_ended, open_pidfd

pytestmark = pytest.mark.timeout(150)  # many starts of real processes, on a busy machine too

BOOT = """
import sys
from pathlib import Path
from holdfast.cli.gateway.lifecycle import boot
from holdfast.service.child_process import RestartBackoff
command = [sys.executable, *sys.argv[2:]]
backoff = RestartBackoff(first_wait=0.05, max_wait=0.2)
sys.exit(boot(Path(sys.argv[1]), command=command, backoff=backoff))
"""


class ContainerBoot:
    """Owns a boot process and the stand-ins that it starts instead of gateways."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.paths = Paths(home)
        self.plan = home / "plan"
        self.errors = home / "boot.err"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *plan: str, inside: tuple[str, ...] = ()) -> None:
        self.plan.write_text("\n".join(plan))
        argv = [sys.executable, "-c", BOOT, str(self.home), stand_in.__file__, str(self.plan)]
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "PYTHONPATH": str(Path(holdfast.__file__).parents[1]),
        }
        with self.errors.open("ab") as errors:
            self.process = subprocess.Popen([*inside, *argv], stderr=errors, env=environ)

    @property
    def output(self) -> str:
        return self.errors.read_text()

    @property
    def runs(self) -> int:
        file = Path(f"{self.plan}.runs")
        return len(file.read_text().splitlines()) if file.exists() else 0

    async def until(self, text: str, *, times: int = 1) -> None:
        async with asyncio.timeout(30):
            while self.output.count(text) < times:
                await asyncio.sleep(0.01)

    def signal(self, which: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(which)

    def wait_for_exit(self) -> int:
        assert self.process is not None
        return self.process.wait(30)

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()  # its gateway goes with it
            self.process.wait(30)


@pytest.fixture
def container(tmp_path: Path) -> Iterator[ContainerBoot]:
    made = ContainerBoot(tmp_path)
    yield made
    made.end()


def recorded(state: IntentState, *, restart: str | None = None) -> Intent:
    return Intent(state=state, at=1.0, restart=restart)


@pytest.mark.parametrize(
    ("intent", "starts"),
    [
        (None, True),
        (recorded(IntentState.RUNNING), True),
        (recorded(IntentState.STARTING), True),
        (recorded(IntentState.DRAINING), True),
        (recorded(IntentState.STOPPED, restart="r_1"), True),
        (recorded(IntentState.STOPPED), False),
    ],
)
def test_a_boot_starts_a_running_home_and_not_a_stopped_one(
    intent: Intent | None, starts: bool
) -> None:
    """E3: an open restart and a leftover start or drain count as running; so does a new home."""
    assert should_start(intent) is starts


async def test_a_gateway_that_ends_is_started_again_and_signals_reach_it(
    container: ContainerBoot,
) -> None:
    """E1, E3: 75 at once, a failure after growing waits; the container's end is the gateway's."""
    container.start("75", "1", "9", "ready", "ready")
    await container.until("the gateway is ready")
    assert container.runs == 4
    assert "started again in 0.05 s" in container.output
    assert "started again in 0.1 s" in container.output
    container.signal(signal.SIGUSR1)
    await container.until("the gateway is ready", times=2)
    assert "SIGUSR1 is passed on" in container.output
    container.signal(signal.SIGTERM)
    assert container.wait_for_exit() == 0
    assert (container.runs, container.output.count("ended with 0")) == (5, 1)


async def test_a_stopped_home_stays_down_until_it_is_started(container: ContainerBoot) -> None:
    """E3: also one whose configuration has to be mended; the container goes on, idle."""
    stop = StopOrder(kind=StopKind.STOP, by=StopRequester.CLI, at=1.0)
    IntentFile(container.paths.intent, now=lambda: 1.0).record_stopping(stop, "")
    container.start("78", "ready")
    await container.until("nothing is started: it was stopped, and stays down")
    assert ask_container_supervisor(container.paths, "state") == "idle"
    assert ask_container_supervisor(container.paths, "start") == "starting"
    await container.until("its configuration has to be mended")
    assert container.runs == 1
    container.signal(signal.SIGHUP)
    await container.until("the gateway is ready")
    assert ask_container_supervisor(container.paths, "start") == "running"
    container.signal(signal.SIGTERM)
    assert container.wait_for_exit() == 0
    assert ask_container_supervisor(container.paths, "state") is None


async def test_an_idle_container_ends_on_a_signal(container: ContainerBoot) -> None:
    container.start("78")
    await container.until("nothing is started")
    container.signal(signal.SIGINT)
    assert container.wait_for_exit() == 0


async def test_the_first_process_of_a_container_reaps_orphans(
    container: ContainerBoot,
) -> None:
    """As pid 1 must: an orphan that ends is no zombie for the rest of the container's life."""
    if shutil.which("bwrap") is None:
        pytest.skip("needs bubblewrap, for a process namespace")
    namespace = ("bwrap", "--dev-bind", "/", "/", "--unshare-pid", "--as-pid-1", "--proc", "/proc")
    container.start("orphan", inside=namespace)
    await container.until("the gateway is ready")
    assert container.process is not None
    [boot] = children(container.process.pid)
    async with asyncio.timeout(30):
        # One orphan comes to it, ends, and is gone; the gateway stays.
        while len(children(boot)) != 1 or zombies(boot):
            await asyncio.sleep(0.01)
    os.kill(boot, signal.SIGTERM)
    assert container.wait_for_exit() == 0


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def zombies(pid: int) -> list[int]:
    states = {each: Path(f"/proc/{each}/stat").read_text() for each in children(pid)}
    return [each for each, stat in states.items() if stat.rpartition(")")[2].split()[0] == "Z"]


@pytest.fixture
async def sequence(tmp_path: Path) -> AsyncIterator[GatewaySequence]:
    async with open_sequence(tmp_path / "home") as made:
        yield made


async def test_a_container_keeps_its_gateway_and_its_address_through_kill_restart_and_stop(
    sequence: GatewaySequence,
) -> None:
    """E1, E3, E4: the real one: its sockets outlive each process, and a stop is for good."""
    boot = await sequence.launch("gateway", "boot")
    await sequence.until(lambda: "the gateway is ready" in boot.stderr)
    address = _holder(sequence).address
    assert await sequence.ask(address, "hello", message_id="m-1")
    await asyncio.to_thread(kill, _holder(sequence))
    assert await sequence.ask(address, "hello", message_id="m-2")  # it waits, and is not refused
    before = _holder(sequence).pid
    code, output = await sequence.run_command("gateway", "restart")
    assert code == 0, output
    assert _holder(sequence).pid != before
    assert await sequence.ask(address, "hello", message_id="m-3")
    code, output = await sequence.run_command("gateway", "stop")
    assert code == 0, output
    await sequence.until(lambda: "nothing is started: it was stopped" in boot.stderr)
    code, output = await sequence.run_command("gateway", "start")
    assert code == 0, output
    await sequence.until(lambda: boot.stderr.count("the gateway is ready") == 4)
    boot.signal(signal.SIGTERM)
    assert await boot.wait_for_exit() == 0
    assert read_holder(sequence.home) is None


def kill(holder: LockHolder) -> None:
    fd = open_pidfd(holder.pid, expected_start=holder.start_time)
    assert fd is not None
    signal.pidfd_send_signal(fd, signal.SIGKILL)
    assert has_ended(fd, timeout=30)
    os.close(fd)


def _holder(sequence: GatewaySequence) -> LockHolder:
    holder = read_holder(sequence.home)
    assert holder is not None
    return holder
