"""Listening sockets that pass from one process to the next, with real sockets and processes."""

import json
import os
import socket
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.core.config.settings import GatewaySettings
from holdfast.server.http_listener import PortInUse, open_listening_sockets
from holdfast.service.child_process import GatewayLauncher
from holdfast.system import sockets
from holdfast.system.paths import Paths
from holdfast.system.process import has_ended
from holdfast.system.socket_handover import (
    HandoverFailed,
    HandoverReceiver,
    make_note,
    send_sockets,
)

ADOPT = """
import json, os, subprocess
from holdfast.config.home import pop_variables, process_environment
from holdfast.system.sockets import LISTEN_VARIABLES, adopt_inherited, bound_address
found = adopt_inherited(pop_variables(LISTEN_VARIABLES), pid=os.getpid())
listed = subprocess.run(["ls", "-l", "/proc/self/fd"], close_fds=False, capture_output=True)
print(json.dumps({
    "addresses": [bound_address(each) for each in found],
    "left": [name for name in LISTEN_VARIABLES if name in process_environment()],
    "inherited": listed.stdout.decode().count("socket:"),
}))
"""


@pytest.fixture
def bound() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        yield sock


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path)


def output_of(launcher: GatewayLauncher, program: str) -> str:
    """The output of a program started with the sockets of the launcher."""
    reading, writing = os.pipe()
    environ = {"PYTHONPATH": os.pathsep.join(sys.path), "PATH": os.environ["PATH"]}
    pid = launcher.start([sys.executable, "-c", program], environ, output=writing)
    os.close(writing)
    with open(reading) as output:
        text = output.read()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, text
    return text


def test_passed_sockets_are_adopted_and_not_inherited_by_child_processes(
    paths: Paths, bound: socket.socket
) -> None:
    """E4: a successor has them at once; what it starts inherits neither socket nor variable."""
    where = sockets.bound_address(bound)
    with GatewayLauncher(str(paths.home), sockets=[bound.dup(), bound.dup()]) as launcher:
        adopted = json.loads(output_of(launcher, ADOPT))
    assert [tuple(each) for each in adopted["addresses"]] == [where, where]
    assert adopted["left"] == []
    assert adopted["inherited"] == 0


def test_sockets_that_were_meant_for_another_process_are_not_touched() -> None:
    handed = {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid() + 1)}
    assert sockets.adopt_inherited(handed, pid=os.getpid()) == []


@pytest.mark.parametrize("count", ["", "x", "-1", "²"])
def test_an_invalid_number_of_sockets_adopts_nothing(count: str) -> None:
    assert sockets.adopt_inherited({"LISTEN_FDS": count, "LISTEN_PID": "7"}, pid=7) == []


def test_stored_sockets_are_passed_to_the_next_gateway(paths: Paths) -> None:
    """The way of systemd's descriptor store, for those who have none."""
    keep = (
        "import os, socket\n"
        "from holdfast.service.supervisors.current import SdNotifier\n"
        "sock = socket.create_server(('127.0.0.1', 0))\n"
        "SdNotifier(os.environ).notify('FDSTORE=1', 'FDNAME=http', fds=[sock.fileno()])\n"
        "SdNotifier(os.environ).notify('READY=1')\n"
        "print(sock.getsockname()[1])\n"
    )
    with GatewayLauncher(str(paths.home)) as launcher:
        port = int(output_of(launcher, keep))
        assert launcher.read_notifications()
        assert [sockets.bound_address(each) for each in launcher.sockets] == [("127.0.0.1", port)]
        with socket.create_connection(("127.0.0.1", port)):
            pass  # the process that listened is gone, and no connection is refused
        assert json.loads(output_of(launcher, ADOPT))["addresses"] == [["127.0.0.1", port]]


async def test_an_inherited_socket_is_used_if_its_address_matches(
    bound: socket.socket,
) -> None:
    port = sockets.bound_address(bound)[1]
    for settings in (GatewaySettings(port=port), GatewaySettings(port=0)):
        mine = bound.dup()
        made = await open_listening_sockets(settings, inherited=[mine], port_chosen=True)
        assert made[0] is mine
        # The address that the predecessor did not listen on is added, at the same port.
        assert [sockets.bound_address(each) for each in made[1:]] == [("::1", port)]
        for each in made:
            each.close()


async def test_a_second_copy_of_an_inherited_socket_is_closed_silently(
    bound: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    """A supervisor that is told twice keeps two."""
    first, second = bound.dup(), bound.dup()
    made = await open_listening_sockets(
        GatewaySettings(port=0), inherited=[first, second], port_chosen=True
    )
    assert made[0] is first and second not in made
    assert second.fileno() == -1
    assert caplog.records == []
    for each in made:
        each.close()


async def test_an_inherited_socket_that_listens_elsewhere_is_closed_with_a_warning(
    bound: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    mine, where = bound.dup(), sockets.bound_address(bound)
    with socket.create_server(("127.0.0.1", 0)) as other:
        wanted = GatewaySettings(port=sockets.bound_address(other)[1])
        with pytest.raises(PortInUse):
            await open_listening_sockets(wanted, inherited=[mine], port_chosen=True)
    assert mine.fileno() == -1
    assert f"listening socket at 127.0.0.1 port {where[1]}" in caplog.text


async def test_a_host_name_listens_on_one_port_for_all_its_addresses() -> None:
    made = await open_listening_sockets(GatewaySettings(host="localhost", port=0), port_chosen=True)
    try:
        assert len({sockets.bound_address(each)[1] for each in made}) == 1
    finally:
        for each in made:
            each.close()


def test_listening_sockets_pass_to_a_successor_that_confirms_them(
    paths: Paths, bound: socket.socket
) -> None:
    """E4: the same socket with two owners: when the first closes it, no connection is refused."""
    note = make_note(paths.home, address="http://127.0.0.1:1")
    with HandoverReceiver(paths) as receiver, ThreadPoolExecutor(1) as beside:
        receiving = beside.submit(receiver.receive, sender_pid=os.getpid(), timeout=10)
        successor = send_sockets(receiver.path, note, [bound], paths=paths)
        received, [taken] = receiving.result()
    where = sockets.bound_address(bound)
    bound.close()
    with taken, socket.create_connection(where):
        assert received == note
        assert not taken.get_inheritable()
        assert not has_ended(successor, timeout=0)
    os.close(successor)


def test_no_socket_is_sent_to_a_path_outside_of_the_home(
    tmp_path: Path, bound: socket.socket
) -> None:
    paths, theirs = Paths(tmp_path / "mine"), Paths(tmp_path / "theirs")
    paths.home.mkdir()
    theirs.home.mkdir()
    with HandoverReceiver(theirs) as receiver, pytest.raises(HandoverFailed, match="is not in"):
        send_sockets(receiver.path, make_note(paths.home, address=""), [bound], paths=paths)


def test_no_socket_is_sent_to_a_path_that_others_may_open(
    paths: Paths, bound: socket.socket
) -> None:
    with HandoverReceiver(paths) as receiver:
        receiver.path.chmod(0o666)
        with pytest.raises(HandoverFailed, match="not a socket of this user alone"):
            send_sockets(receiver.path, make_note(paths.home, address=""), [bound], paths=paths)


def test_a_link_to_a_socket_is_not_followed(paths: Paths, bound: socket.socket) -> None:
    with HandoverReceiver(paths) as receiver:
        link = paths.run / "1.next"
        link.symlink_to(receiver.path)
        with pytest.raises(HandoverFailed, match="not a socket"):
            send_sockets(link, make_note(paths.home, address=""), [bound], paths=paths)


def test_a_successor_accepts_nothing_from_a_process_that_does_not_hold_the_home(
    paths: Paths, bound: socket.socket
) -> None:
    with HandoverReceiver(paths) as receiver, ThreadPoolExecutor(1) as beside:
        receiving = beside.submit(receiver.receive, sender_pid=1, timeout=10)
        with pytest.raises(HandoverFailed):
            send_sockets(receiver.path, make_note(paths.home, address=""), [bound], paths=paths)
        with pytest.raises(HandoverFailed, match=f"process {os.getpid()} connected instead of 1"):
            receiving.result()


def test_a_successor_that_gives_up_waits_no_longer(paths: Paths) -> None:
    with HandoverReceiver(paths) as receiver, ThreadPoolExecutor(1) as beside:
        receiving = beside.submit(receiver.receive, sender_pid=1, timeout=60)
        receiver.cancel()
        with pytest.raises(HandoverFailed):
            receiving.result()


def test_a_missing_program_is_reported_in_a_sentence(paths: Paths) -> None:
    reading, writing = os.pipe()
    with GatewayLauncher(str(paths.home)) as launcher, open(reading) as output:
        pid = launcher.start(["/no/such/python"], {}, output=writing)
        os.close(writing)
        assert output.read() == "/no/such/python cannot be started: No such file or directory\n"
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 127
