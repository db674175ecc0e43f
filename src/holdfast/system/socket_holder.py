"""Keeps the listening sockets open in a process of their own while the gateway runs.

A gateway that is killed would free its port: another process of the machine could take it, and
receive the tokens of the clients. The holder process has copies of the sockets, and passes them to
the next gateway. It ends with an orderly stop, or when no gateway came for some time.
"""

import logging
import os
import socket
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

from holdfast.system.paths import Paths, private_dir
from holdfast.system.sockets import receive_with_sockets

log = logging.getLogger(__name__)

_PROGRAM = Path(__file__).with_name("socket_holder_program.py")
_HOLD, _RELEASE = b"H", b"R"  # as in the program
_CHANNEL_FD = 3  # of the connection to us, in the process
_TIMEOUT = 1.0  # seconds; a holder that hangs must not delay a start or a stop for longer
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


class SocketHolder:
    """Owns the connection to the holder process of a home, if there is one."""

    def __init__(self, paths: Paths) -> None:
        self._path = paths.run / "port.sock"
        self._channel: socket.socket | None = None
        self._pid: int | None = None  # of the process, if this one started it

    def take(self) -> list[socket.socket]:
        """The sockets of the gateway that was killed; none if there is no holder. Blocks for a
        second at most."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(_TIMEOUT)
        try:
            connection.connect(str(self._path))
            raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            if _CREDENTIALS.unpack(raw)[1] != os.getuid():
                raise PermissionError("the holder of the sockets is a process of another user")
            greeting, held = receive_with_sockets(connection, 1)
        except OSError as error:
            connection.close()
            if not isinstance(error, FileNotFoundError | ConnectionRefusedError):
                _log_failure(error)
            return []
        if not greeting:
            connection.close()
            return []
        self._channel = connection
        return held

    def hold(self, listening: Sequence[socket.socket], *, seconds: float) -> None:
        """Have copies of these kept from now on, and for so long after this process is killed.
        Blocks for a second at most; without a holder the gateway runs as well."""
        if self._channel is None:
            for sock in self.take():
                sock.close()
        try:
            channel = self._channel or self._start(seconds)
            socket.send_fds(channel, [_HOLD], [sock.fileno() for sock in listening])
        except OSError as error:
            self.leave()
            _log_failure(error)

    def release(self) -> None:
        """End the holder: returns when the port is free, after a second at most."""
        channel, self._channel = self._channel, None
        if channel is None:
            return
        with channel:
            try:
                channel.sendall(_RELEASE)
                channel.recv(1)  # it closes the sockets before this connection
            except OSError as error:
                _log_failure(error)
        if self._pid is not None:
            os.waitpid(self._pid, os.WNOHANG)

    def leave(self) -> None:
        """Leave the sockets with the holder: a successor takes them, or they are kept as long as
        after a crash."""
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def _start(self, seconds: float) -> socket.socket:
        private_dir(self._path.parent)
        ours, theirs = socket.socketpair()
        ours.settimeout(_TIMEOUT)
        with theirs:
            # Isolated and without site-packages: it needs less memory and starts sooner.
            command = [sys.executable, "-I", "-S", str(_PROGRAM), str(self._path)]
            self._pid = os.posix_spawn(
                sys.executable,
                [*command, str(seconds), str(_CHANNEL_FD)],
                {},
                file_actions=[
                    *((os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in range(3)),
                    (os.POSIX_SPAWN_DUP2, theirs.fileno(), _CHANNEL_FD),
                ],
                setsid=True,  # neither Ctrl-C nor the end of the terminal is for it
            )
        self._channel = ours
        return ours


def _log_failure(error: OSError) -> None:
    log.warning(
        "The port is free if the gateway is killed: the process that keeps it failed (%s).",
        error,
        extra={"action": "socket_holder_failed"},
    )
