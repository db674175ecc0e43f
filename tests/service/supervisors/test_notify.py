"""Notifications to a supervisor, on real sockets, and without a supervisor."""

import asyncio
import os
import socket
from pathlib import Path

from holdfast.service.supervisors.current import SdNotifier, WatchdogKeepalive, keepalive_interval


def test_a_socket_in_the_file_system_gets_messages_and_descriptors(tmp_path: Path) -> None:
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver, socket.socket() as stored:
        receiver.bind(str(path))
        notifier = SdNotifier({"NOTIFY_SOCKET": str(path)})
        notifier.notify("READY=1", "MAINPID=7")
        assert receiver.recv(100) == b"READY=1\nMAINPID=7"
        notifier.status("draining:\n3 turns")
        assert receiver.recv(100) == b"STATUS=draining: 3 turns"
        notifier.notify("FDSTORE=1", fds=[stored.fileno()])
        message, fds, _, _ = socket.recv_fds(receiver, 100, 1)
        assert (
            message == b"FDSTORE=1" and os.fstat(fds[0]).st_ino == os.fstat(stored.fileno()).st_ino
        )
        os.close(fds[0])
        notifier.close()
        notifier.notify("READY=1")


def test_a_missing_notify_socket_is_ignored(tmp_path: Path) -> None:
    for name in ("", "relative", str(tmp_path / "gone"), "@nobody-listens-here"):
        notifier = SdNotifier({"NOTIFY_SOCKET": name})
        notifier.notify("READY=1")
        notifier.close()


def test_a_notify_socket_that_is_not_read_blocks_nothing(tmp_path: Path) -> None:
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(path))
        notifier = SdNotifier({"NOTIFY_SOCKET": str(path)})
        for _ in range(5000):
            notifier.status("x" * 200)
        notifier.notify("READY=1", timeout=0.01)
        notifier.close()


async def test_the_watchdog_is_fed_only_while_the_event_loop_runs(tmp_path: Path) -> None:
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(path))
        receiver.setblocking(False)
        loop = asyncio.get_running_loop()
        notifier = SdNotifier({"NOTIFY_SOCKET": str(path)})
        with WatchdogKeepalive(loop, notifier, interval=0.005):
            for _ in range(3):
                assert await loop.sock_recv(receiver, 100) == b"WATCHDOG=1"
        notifier.close()


def test_the_watchdog_is_fed_at_half_the_interval_and_only_for_this_process() -> None:
    assert keepalive_interval({"WATCHDOG_USEC": "120000000"}, pid=5) == 60
    assert keepalive_interval({"WATCHDOG_USEC": "2000000", "WATCHDOG_PID": "5"}, pid=5) == 1
    assert keepalive_interval({"WATCHDOG_USEC": "2000000", "WATCHDOG_PID": "4"}, pid=5) is None
    for nothing in ({}, {"WATCHDOG_USEC": ""}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "soon"}):
        assert keepalive_interval(nothing, pid=5) is None
