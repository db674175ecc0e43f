"""Passes listening sockets from a running gateway to its successor, over a private Unix socket.

They pass by SCM_RIGHTS, from one process of this user to another, both verified by the kernel.
Both own the socket then, so no client is refused when the first process ends.
"""

import os
import socket
import stat
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import msgspec

from holdfast.core.errors import HoldfastError
from holdfast.system.paths import Paths, private_dir
from holdfast.system.process import start_time
from holdfast.system.sockets import receive_with_sockets

HANDOVER_TIMEOUT = 5.0
_ACK = b"\n"
_MAX_BYTES = 16 * 1024
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


class HandoverFailed(HoldfastError):
    """The sockets were not passed, for this reason; the sender still has them."""


class HandoverNote(msgspec.Struct, frozen=True, kw_only=True):
    """Describes the sender; it is sent with the sockets."""

    pid: int
    start_time: int | None
    home: str
    address: str


def make_note(home: Path, *, address: str) -> HandoverNote:
    pid = os.getpid()
    return HandoverNote(pid=pid, start_time=start_time(pid), home=str(home), address=address)


def send_sockets(
    to: Path, note: HandoverNote, sockets: Sequence[socket.socket], *, paths: Paths
) -> int:
    """Connect to a successor that waits at `to`, and return when it has the sockets. Blocks.

    Returns a pidfd of its process, which shows whether it is still running.

    Connects only to a socket in the home's own private folder, of this user: the request may come
    from any process that can open the control socket, with any path.
    """
    _check_path(to, paths)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(HANDOVER_TIMEOUT)
        try:
            connection.connect(str(to))
            # While it is connected its pid cannot have been reused.
            successor = os.pidfd_open(_check_peer(connection))
        except OSError as error:
            raise HandoverFailed(
                "cannot connect to the waiting gateway at {to}: {error}", to=to, error=error
            ) from None
        try:
            _send(connection, note, sockets)
        except (OSError, HandoverFailed) as error:
            os.close(successor)
            raise HandoverFailed(
                "{to} did not accept the sockets: {error}", to=to, error=error
            ) from None
    return successor


def _send(connection: socket.socket, note: HandoverNote, sockets: Sequence[socket.socket]) -> None:
    fds = [sock.fileno() for sock in sockets]
    socket.send_fds(connection, [msgspec.json.encode(note)], fds)
    if connection.recv(1) != _ACK:
        raise HandoverFailed("the receiver has exited")


def _check_path(to: Path, paths: Paths) -> None:
    if to.parent != paths.run:
        raise HandoverFailed(
            "{to} is not in {run}, where a successor of this home waits", to=to, run=paths.run
        )
    try:
        found = to.lstat()
    except OSError as error:
        raise HandoverFailed("{to}: {error}", to=to, error=error.strerror) from None
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise HandoverFailed("{to} is not a socket of this user alone (mode 0600)", to=to)


def _check_peer(connection: socket.socket) -> int:
    """The pid at the other end, which must be of this user."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(raw)
    if uid != os.getuid():
        raise HandoverFailed(
            "the other end is process {pid} of another user (uid {uid})", pid=pid, uid=uid
        )
    return int(pid)


class HandoverReceiver:
    """Owns the private socket at which a successor waits for the listening sockets."""

    def __init__(self, paths: Paths) -> None:
        self._home = paths.home
        # No longer than `control.sock`: the folder was chosen so that that path fits.
        self.path = paths.run / f"{os.getpid()}.next"
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    def __enter__(self) -> Self:
        private_dir(self.path.parent)
        self.path.unlink(missing_ok=True)
        self._listener.bind(str(self.path))
        self.path.chmod(0o600)
        self._listener.listen(1)
        return self

    def __exit__(self, *exc: object) -> None:
        self._listener.close()
        self.path.unlink(missing_ok=True)

    def cancel(self) -> None:
        """End a waiting `receive` by a connection from a process that is not the sender."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.setblocking(False)
            sock.connect_ex(str(self.path))

    def receive(
        self, *, sender_pid: int, timeout: float
    ) -> tuple[HandoverNote, list[socket.socket]]:
        """Receive the sockets of the process `sender_pid`. Blocks. Raises `HandoverFailed` if it
        sends none, or if another process connects."""
        self._listener.settimeout(timeout)
        try:
            connection, _ = self._listener.accept()
        except OSError as error:
            raise HandoverFailed(
                "process {sender_pid} did not pass its sockets on: {error}",
                sender_pid=sender_pid,
                error=error,
            ) from None
        with connection:
            connection.settimeout(timeout)
            if (pid := _check_peer(connection)) != sender_pid:
                raise HandoverFailed(
                    "process {pid} connected instead of {sender_pid}, which holds the lock of the"
                    " home",
                    pid=pid,
                    sender_pid=sender_pid,
                )
            return self._receive(connection)

    def _receive(self, connection: socket.socket) -> tuple[HandoverNote, list[socket.socket]]:
        try:
            body, sockets = receive_with_sockets(connection, _MAX_BYTES)
        except OSError as error:
            raise HandoverFailed("the sockets did not arrive: {error}", error=error) from None
        try:
            note = msgspec.json.decode(body, type=HandoverNote)
            if note.home != str(self._home):
                raise HandoverFailed("the sockets belong to a gateway of {home}", home=note.home)
            connection.sendall(_ACK)
        except (OSError, msgspec.MsgspecError, HandoverFailed) as error:
            for sock in sockets:
                sock.close()
            raise HandoverFailed("the handover message is invalid: {error}", error=error) from None
        return note, sockets
