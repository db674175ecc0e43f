"""A gateway as a child process of ours: what it is given, what it reports, and the restart backoff.

It gets listening sockets as systemd would pass them, and reports as it would to systemd
(sd_notify): that it is ready, and which sockets to keep for its successor.

Imports the standard library only: the respawner must start at once.
"""

import fcntl
import os
import signal
import socket
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import NoReturn, Self

from holdfast.system.sockets import FD_NAME, bound_address, receive_with_sockets

# It is given listening sockets as systemd would give them, and tells as it would tell systemd
# (sd_notify): that it is ready, and what sockets are to be kept for the one after it.
_FIRST_FD = 3
_EXEC_FAILED = 127
_MAX_BYTES = 8 * 1024
_SOCKET_SUFFIX = ".told"
_CANCEL_MESSAGE = "X_CALLED_OFF=1"


def cancel_respawn(folder: str) -> bool:
    """Tell whoever keeps starting gateways in this home to stop it. True if somebody is told."""
    told = False
    # Whoever may not read the folder tells nobody: it is another user's, like what is in it.
    for name in os.listdir(folder) if os.access(folder, os.R_OK | os.X_OK) else ():
        if name.endswith(_SOCKET_SUFFIX):
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out, suppress(OSError):
                out.sendto(_CANCEL_MESSAGE.encode(), f"{folder}/{name}")
                told = True
    return told


class GatewayLauncher:
    """Owns the notification socket and the listening sockets that pass from life to life.

    One process starts gateways from it, one after the other, and has no threads: it forks.
    """

    def __init__(self, folder: str, *, sockets: Sequence[socket.socket] = ()) -> None:
        """`folder`: where the sockets of the home are, which is there, and for its owner alone."""
        # No longer than `control.sock`, by which the folder was chosen.
        self._path = f"{folder}/{os.getpid()}{_SOCKET_SUFFIX}"
        self.sockets = list(sockets)
        self.cancelled = False  # somebody wants no gateway after all
        self._notify_socket = socket.socket(
            socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK
        )

    def __enter__(self) -> Self:
        self._remove_socket_file()
        self._notify_socket.bind(self._path)
        os.chmod(self._path, 0o600)
        return self

    def __exit__(self, *exc: object) -> None:
        self._notify_socket.close()
        self._remove_socket_file()
        self.close_sockets()

    def _remove_socket_file(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self._path)

    def fileno(self) -> int:
        """Readable when something was told."""
        return self._notify_socket.fileno()

    def close_sockets(self) -> None:
        """Close the sockets. Where nobody else has them, who connects is refused from now on, and
        does not wait in vain."""
        sockets, self.sockets = self.sockets, []
        for sock in sockets:
            sock.close()

    def start(
        self,
        argv: Sequence[str],
        environ: Mapping[str, str],
        *,
        output: int | None = None,
        extra_fd: int | None = None,
    ) -> int:
        """Start a gateway and return its pid. `output` becomes its stdout and stderr, and it has
        no stdin then; without it, it has what this process has. `line` is a descriptor, beyond
        those of the sockets, that it has too."""
        # Until it is another program, a signal for the child would be heard by handlers of ours.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        pid = os.fork()
        if pid == 0:
            if extra_fd is not None:
                os.set_inheritable(extra_fd, True)
            self._exec(argv, environ, output, before)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return pid

    def read_notifications(self) -> bool:
        """Take in all that was told; True if the gateway has said that it is ready."""
        ready = False
        while True:
            try:
                text, given = receive_with_sockets(self._notify_socket, _MAX_BYTES)
            except BlockingIOError:
                return ready
            words = text.decode("utf-8", "replace").splitlines()
            if "FDSTOREREMOVE=1" in words:
                self.close_sockets()
            self.cancelled = self.cancelled or _CANCEL_MESSAGE in words
            self._store_sockets(given, requested="FDSTORE=1" in words)
            ready = ready or "READY=1" in words

    def _store_sockets(self, sockets: Sequence[socket.socket], *, requested: bool) -> None:
        """The newest at each place is kept: it is the one that the gateway listens on."""
        for sock in sockets:
            if not requested:
                sock.close()
                continue
            where = bound_address(sock)
            for old in [each for each in self.sockets if bound_address(each) == where]:
                self.sockets.remove(old)
                old.close()
            self.sockets.append(sock)

    def _exec(
        self,
        argv: Sequence[str],
        environ: Mapping[str, str],
        output: int | None,
        mask: Collection[int],
    ) -> NoReturn:
        """In the child: a few system calls, and then it is another program."""
        try:
            _reset_signal_handlers()
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            # A group of its own: Ctrl-C in a terminal is for the starter, which passes it on.
            os.setpgid(0, 0)
            if output is not None:
                _redirect_stdio(output)
            given = dict(environ) | {"NOTIFY_SOCKET": self._path}
            if self.sockets:
                _place_sockets(self.sockets)
                given["LISTEN_FDS"] = str(len(self.sockets))
                given["LISTEN_PID"] = str(os.getpid())
                given["LISTEN_FDNAMES"] = ":".join([FD_NAME] * len(self.sockets))
            os.execve(argv[0], list(argv), given)
        except OSError as error:
            os.write(2, f"{argv[0]} cannot be started: {error.strerror}\n".encode())
        finally:
            os._exit(_EXEC_FAILED)


def _reset_signal_handlers() -> None:
    signal.set_wakeup_fd(-1)
    for each in signal.valid_signals():
        if callable(signal.getsignal(each)):
            signal.signal(each, signal.SIG_DFL)


def _redirect_stdio(output: int) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)


def _place_sockets(sockets: Sequence[socket.socket]) -> None:
    """At 3 and up, inheritable. First out of the way: one may stand where another goes."""
    beyond = _FIRST_FD + len(sockets)
    away = [fcntl.fcntl(sock.fileno(), fcntl.F_DUPFD_CLOEXEC, beyond) for sock in sockets]
    for index, fd in enumerate(away):
        os.dup2(fd, _FIRST_FD + index)


FIRST_WAIT = 1.0
MAX_WAIT = 60.0
HEALTHY_AFTER = 300.0


class RestartBackoff:
    """Owns the next wait."""

    def __init__(
        self,
        *,
        first_wait: float = FIRST_WAIT,
        max_wait: float = MAX_WAIT,
        healthy_after: float = HEALTHY_AFTER,
    ) -> None:
        self._first_wait = first_wait
        self._max_wait = max_wait
        self._healthy_after = healthy_after
        self._next_wait = first_wait

    def next_wait(self, uptime: float) -> float:
        """How long to wait before the next start, when the last one lived so many seconds."""
        if uptime >= self._healthy_after:
            self._next_wait = self._first_wait
        wait, self._next_wait = self._next_wait, min(self._next_wait * 2, self._max_wait)
        return wait
