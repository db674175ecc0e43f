"""Identity: a process is its pid and its start time, proven before it is killed."""

import asyncio
import contextlib
import os
import signal
import socket
import struct

from holdfast.runner.program import tree

_PEER_CREDENTIALS = struct.Struct("3i")


def peer_pid(sock: socket.socket) -> int:
    """The process that listens at the other end, as the kernel knows it."""
    data = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER_CREDENTIALS.size)
    return int(_PEER_CREDENTIALS.unpack(data)[0])


def process_start_time(pid: int) -> int | None:
    return tree.start_time(pid)


async def kill_runner(pid: int, *, started: int, sandboxed: bool) -> bool:
    """Kill that very process with all it ever started, and wait until they are gone.

    False: it had ended before. In a sandbox its process is pid 1, whose end is the end of
    all; without one everything below it is killed first, while it still holds them together.
    """
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        # Between these two lines the pid cannot pass to another: the descriptor holds it.
        if tree.start_time(pid) != started:
            return False
        if not sandboxed:
            await asyncio.to_thread(_kill_descendants, fd, pid)
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(fd, signal.SIGKILL)
        await _wait_readable(fd)
        return True
    finally:
        os.close(fd)


def _kill_descendants(fd: int, pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(fd, signal.SIGSTOP)
    tree.kill_descendants(pid)


async def _wait_readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(fd, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(fd)
