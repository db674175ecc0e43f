"""A successor takes over from a live gateway: by `--replace`, by force, or by a restart."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import aiohttp
import msgspec
import pytest
from tests.faults.gateway_sequence import GatewaySequence, open_sequence

from holdfast.runner.paths import SessionPaths, connect_socket, labelled_runners
from holdfast.runner.runners import peer_pid
from holdfast.system import exit_codes
from holdfast.system.lock import read_holder
from holdfast.system.process import start_time

pytestmark = pytest.mark.timeout(150)  # many starts of real processes, on a busy machine too

# As `run --replace`, with short timeouts.
REPLACE_SOON = """
import sys
from holdfast.cli.gateway.takeover import Takeover
from holdfast.config import load, resolve_home
from holdfast.service.main import run
from holdfast.service.start import LaunchOptions
from holdfast.system.lock import HomeLock
config = load(resolve_home())
lock = HomeLock(config.home)
report = lambda text: print(text, file=sys.stderr, flush=True)
takeover = Takeover(config, lock=lock, report=report, response_timeout=0.5, stop_timeout=STOPS)
sys.exit(run(config, LaunchOptions(lock=lock, sockets=takeover.take_over())))
"""


@pytest.fixture
async def sequence(tmp_path: Path) -> AsyncIterator[GatewaySequence]:
    async with open_sequence(tmp_path / "home") as made:
        yield made


def listener_inode(port: int) -> str:
    """Which socket listens at this port, as /proc/PID/fd would show it."""
    for row in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = row.split()
        if fields[3] == "0A" and fields[1].endswith(f":{port:04X}"):
            return f"socket:[{fields[9]}]"
    raise AssertionError(f"nothing listens at {port}")


def open_files(pid: int) -> set[str]:
    """Nothing where it has ended: a command that waits begins one `sleep` after the other."""
    folder = Path(f"/proc/{pid}/fd")
    found = set()
    with suppress(FileNotFoundError, ProcessLookupError):
        for each in os.listdir(folder):
            with suppress(FileNotFoundError):  # closed meanwhile
                found.add(os.readlink(folder / each))
    return found


def tree_of(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return []  # it has ended since it was named
    return [pid, *(each for child in children for each in tree_of(int(child)))]


def runner_pids(sequence: GatewaySequence) -> list[int]:
    [label] = labelled_runners(sequence.home)
    connection = connect_socket(SessionPaths(sequence.home, label.session_id))
    assert connection is not None
    with connection:
        return tree_of(peer_pid(connection))


async def test_a_successor_takes_over_sockets_and_work_and_tools_inherit_neither_lock_nor_listener(
    sequence: GatewaySequence,
) -> None:
    """E4, C4, H6: one after the other on one address; a command that runs goes on, once. The
    first of them found no process to replace, and just started."""
    first = await sequence.start("run", "--replace")
    text = "run echo once >> effects.log; until [ -e go ]; do sleep 0.1; done; echo was done"
    asking = asyncio.create_task(sequence.ask(first.address, text, message_id="m-1"))
    await sequence.until(lambda: sequence.effects() == ["once"])
    listens = listener_inode(int(first.address.rpartition(":")[2]))
    pids = runner_pids(sequence)
    assert len(pids) > 1
    for pid in pids:
        assert not open_files(pid) & {listens, str(sequence.home)}
    assert open_files(first.pid) >= {listens, str(sequence.home)}
    second = await sequence.start("run", "--replace")
    assert await first.wait_for_exit() == 0, first.output()
    with pytest.raises(aiohttp.ClientError):
        await asking  # it has to retry, with the same id
    assert second.address == first.address
    assert runner_pids(sequence)[0] == pids[0]
    [workspace] = sequence.paths.workspaces.iterdir()
    (workspace / "go").touch()
    assert "was done" in await sequence.ask(second.address, text, message_id="m-1")
    assert sequence.effects() == ["once"]
    last = (await sequence.status())["restarts"][0]
    assert (last["order"]["kind"], last["order"]["by"]) == ("replace", "successor")
    assert (last["parked"], last["interrupted"]) == (1, 0)


async def test_a_supervised_gateway_is_restarted_by_its_supervisor(tmp_path: Path) -> None:
    """E1: `--replace` does not take it out of its supervisor's hands."""
    async with open_sequence(tmp_path / "home", gateway='supervisor = "s6"') as sequence:
        first = await sequence.start()
        code, output = await sequence.run_command("run", "--replace")
        assert code == 0
        assert "s6 runs the gateway of" in output
        assert await first.wait_for_exit() == exit_codes.GATEWAY_SERVICE_RESTART_EXIT_CODE, (
            first.output()
        )


async def test_an_unresponsive_gateway_is_killed_once_it_is_identified(
    sequence: GatewaySequence,
) -> None:
    """E4: SIGTERM first, and SIGKILL when that does not help, as for one that stands still."""
    first = await sequence.start()
    first.signal(signal.SIGSTOP)
    second = await sequence.start(program=REPLACE_SOON.replace("STOPS", "0.5"))
    assert await first.wait_for_exit() == -signal.SIGKILL
    assert "SIGTERM" in second.stderr
    assert "SIGKILL" in second.stderr
    assert await sequence.ask(second.address, "hello", message_id="m-1")


async def test_a_gateway_without_a_control_socket_is_stopped_by_a_signal(
    sequence: GatewaySequence,
) -> None:
    """E4: one that lost its socket still stops as it should, when it is signalled."""
    first = await sequence.start()
    sequence.paths.control_socket.unlink()
    second = await sequence.start(program=REPLACE_SOON.replace("STOPS", "30"))
    assert await first.wait_for_exit() == 0
    assert "SIGKILL" not in second.stderr


async def test_a_successor_that_cannot_start_or_identify_the_holder_leaves_it_running(
    sequence: GatewaySequence,
) -> None:
    """E4: a broken configuration is detected before another process is asked to stop; and a
    process that merely has the pid in the file is not signalled."""
    first = await sequence.start()
    sequence.configure("port = -1")
    second = await sequence.launch("run", "--replace")
    assert await second.wait_for_exit() == exit_codes.CONFIG_EXIT
    sequence.configure()
    bystander = await asyncio.create_subprocess_exec("sleep", "60")
    try:
        _name_as_holder(sequence, bystander.pid)
        sequence.paths.control_socket.unlink()
        third = await sequence.launch(program=REPLACE_SOON.replace("STOPS", "0.5"))
        assert await third.wait_for_exit() == exit_codes.FAILED
        assert "No signal was sent" in third.stderr
        assert bystander.returncode is None
    finally:
        bystander.kill()
        await bystander.wait()
    assert await sequence.ask(first.address, "hello", message_id="m-1")


def _name_as_holder(sequence: GatewaySequence, pid: int) -> None:
    holder = read_holder(sequence.home)
    assert holder is not None
    other = msgspec.structs.replace(holder, pid=pid, start_time=start_time(pid))
    sequence.paths.lock.write_bytes(msgspec.json.encode(other))


async def test_a_successor_that_dies_while_it_waits_is_followed_by_another(
    sequence: GatewaySequence,
) -> None:
    """It had the sockets and not yet the lock: the one that goes has another started."""
    sequence.configure("restart_drain_timeout = 30")
    first = await sequence.start()
    text = "run echo once >> effects.log; until [ -e go ]; do sleep 0.1; done; echo was done"
    asking = asyncio.create_task(sequence.ask(first.address, text, message_id="m-1"))
    await sequence.until(lambda: sequence.effects() == ["once"])
    second = await sequence.launch("run", "--replace")
    await sequence.until(lambda: "drain" in second.stderr)
    await second.kill()
    [workspace] = sequence.paths.workspaces.iterdir()
    (workspace / "go").touch()
    assert await first.wait_for_exit() == 0, first.output()
    assert "was done" in await asking  # it ended while it was waited for
    assert await sequence.ask(first.address, "hello", message_id="m-2")
    holder = read_holder(sequence.home)
    assert holder is not None
    assert holder.pid not in (first.pid, second.pid)


async def test_a_restart_is_refused_if_the_successor_would_not_start_and_otherwise_completes(
    sequence: GatewaySequence,
) -> None:
    """E1: the reason comes with place and remedy, and the gateway goes on; once it is mended, a
    detached starter brings the successor up, on the same address."""
    first = await sequence.start()
    sequence.configure("prot = 1")
    code, output = await sequence.run_command("gateway", "restart")
    assert code == exit_codes.FAILED
    assert "gateway.prot" in output
    assert "did you mean `port`" in output
    assert "continues" in output
    sequence.configure()
    assert await sequence.ask(first.address, "hello", message_id="m-1")
    code, output = await sequence.run_command("gateway", "restart")
    assert (code, await first.wait_for_exit()) == (0, 0), output + first.output()
    assert await sequence.ask(first.address, "hello", message_id="m-2")
    # Its starter writes that down when it hears of it, which is after those who ask the gateway.
    await sequence.until(lambda: "The successor is ready" in sequence.paths.log_file.read_text())
    code, output = await sequence.run_command("gateway", "stop")
    assert code == 0, output
    assert read_holder(sequence.home) is None
