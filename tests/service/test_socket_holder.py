"""The port of a gateway that was killed: no other process gets it, and the next gateway does."""

import os
import signal
import socket
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.support.gateway_process import NewGateway, SpawnedGateway
from tests.support.ports import own_port

from holdfast.server.local.control_client import ControlClient
from holdfast.system.lock import read_holder

_BIND = """
import socket, sys
for address in ("127.0.0.1", "::1"):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            attempt.bind((address, int(sys.argv[1])))
            attempt.listen()
            print(address, "taken")
        except OSError as error:
            print(address, error.strerror)
"""
IN_USE = ["127.0.0.1 Address already in use", "::1 Address already in use"]
FREE = ["127.0.0.1 taken", "::1 taken"]


def take_port(port: int) -> list[str]:
    """What another process gets that tries to listen there."""
    done = subprocess.run(
        [sys.executable, "-c", _BIND, str(port)], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def holder_pid(gateway: SpawnedGateway) -> int | None:
    """The process that holds the port, if there is one."""
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(str(gateway.paths.run / "port.sock"))
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int(struct.unpack("3i", raw)[0])


def wait_for_holder(gateway: SpawnedGateway) -> int:
    """The process that the gateway has started."""
    while (pid := holder_pid(gateway)) is None:
        time.sleep(0.01)
    return pid


def rss_kb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1])


def ask_health(connection: socket.socket) -> bytes:
    connection.settimeout(30)
    connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    return connection.recv(4096)


@pytest.fixture
def port() -> int:
    return own_port()


@pytest.fixture
def held(new_gateway: NewGateway, port: int) -> Iterator[SpawnedGateway]:
    gateway = new_gateway(HOLDFAST_GATEWAY_PORT=str(port))
    yield gateway
    if (pid := holder_pid(gateway)) is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_no_process_takes_the_port_of_a_killed_gateway_and_the_next_start_serves(
    held: SpawnedGateway, port: int
) -> None:
    """The attack: wait for a crash, listen on the port, and receive the owner's token."""
    held.start()
    assert take_port(port) == IN_USE
    held.end(signal.SIGKILL)
    assert take_port(port) == IN_USE
    with (
        socket.create_connection(("127.0.0.1", port)) as waiting,
        socket.create_connection(("::1", port)) as also,
    ):
        held.start()  # a client that waited meanwhile is served
        assert held.address == f"http://127.0.0.1:{port}"
        assert b"200 OK" in ask_health(waiting) and b"200 OK" in ask_health(also)
    held.end(signal.SIGKILL)
    held.start()
    held.end()
    assert holder_pid(held) is None and take_port(port) == FREE


def test_an_orderly_stop_frees_the_port_at_once(held: SpawnedGateway, port: int) -> None:
    held.start()
    held.end()
    assert take_port(port) == FREE
    assert holder_pid(held) is None
    assert not (held.paths.run / "port.sock").exists()


def test_a_restart_keeps_the_port_and_the_stop_after_it_frees_it(
    held: SpawnedGateway, port: int
) -> None:
    held.start()
    before = wait_for_holder(held)
    first = read_holder(held.home)
    ControlClient(held.paths).post("/restart", {})
    assert held.wait_for_exit() == 0
    while (now := read_holder(held.home)) is None or first is None or now.pid == first.pid:
        time.sleep(0.01)
    while not _is_ready(port):
        time.sleep(0.01)
    assert holder_pid(held) == before
    ControlClient(held.paths).post("/stop", {})
    while read_holder(held.home) is not None:
        time.sleep(0.01)
    while holder_pid(held) is not None:  # the lock is released before it
        time.sleep(0.01)
    while take_port(port) != FREE:  # the respawner is a process of its own
        time.sleep(0.01)


def _is_ready(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        return b"200 OK" in ask_health(connection)


def test_the_holder_ends_when_no_gateway_came(new_gateway: NewGateway, port: int) -> None:
    gateway = new_gateway(HOLDFAST_GATEWAY_PORT=str(port), HOLDFAST_GATEWAY_HOLD_PORT="0.5")
    gateway.start()
    pid = wait_for_holder(gateway)
    gateway.end(signal.SIGKILL)
    with suppress(ChildProcessError, ProcessLookupError):
        while True:
            os.kill(pid, 0)
            time.sleep(0.01)
    assert take_port(port) == FREE


def test_clients_are_turned_away_if_no_gateway_comes_soon(held: SpawnedGateway, port: int) -> None:
    """For five seconds they wait, as for a restart; then a closed connection is the truth."""
    held.start()
    held.end(signal.SIGKILL)
    with socket.create_connection(("127.0.0.1", port)) as waiting:
        waiting.settimeout(30)
        assert waiting.recv(1) == b""
    assert take_port(port) == IN_USE


@pytest.mark.parametrize("variables", [{"PORT": "0"}, {"HOLD_PORT": "0"}])
def test_without_a_fixed_port_or_with_hold_port_0_there_is_no_holder(
    new_gateway: NewGateway, port: int, variables: dict[str, str]
) -> None:
    settings = {"PORT": str(port)} | variables
    gateway = new_gateway(**{f"HOLDFAST_GATEWAY_{key}": each for key, each in settings.items()})
    gateway.start()
    assert holder_pid(gateway) is None
    gateway.end()


def test_the_holder_is_private_and_small(held: SpawnedGateway) -> None:
    held.start()
    pid = wait_for_holder(held)
    path = held.paths.run / "port.sock"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert rss_kb(pid) < 10_000
    assert os.getsid(pid) == pid  # neither Ctrl-C nor the end of a terminal reaches it
    open_files = {os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir()}
    assert not [each for each in open_files if each.startswith(str(held.home))]


def test_a_holder_that_hangs_delays_no_start_for_long(held: SpawnedGateway, port: int) -> None:
    """E4: it is an aid, and never a condition."""
    held.start()
    pid = wait_for_holder(held)
    os.kill(pid, signal.SIGSTOP)
    held.end(signal.SIGKILL)
    process = held.launch()
    output, error = process.communicate(timeout=30)
    assert str(port) in output + error  # the port is in use: said, and not waited for
    os.kill(pid, signal.SIGCONT)
