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

FIRST_WAIT = 1.0
MAX_WAIT = 60.0
HEALTHY_AFTER = 300.0

_FIRST_FD = 3
_EXEC_FAILED = 127
_MAX_BYTES = 8 * 1024
# The protocol of `cancel_respawn`, also between different versions: keep both.
_SOCKET_SUFFIX = ".told"
_CANCEL_MESSAGE = "X_CALLED_OFF=1"


def cancel_respawn(folder: str) -> bool:
    """Tell every process that restarts the gateway of this home to stop doing so. True if there was
    one."""
    cancelled = False
    # A folder that cannot be read belongs to another user, like the processes in it.
    for name in os.listdir(folder) if os.access(folder, os.R_OK | os.X_OK) else ():
        if name.endswith(_SOCKET_SUFFIX):
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out, suppress(OSError):
                out.sendto(_CANCEL_MESSAGE.encode(), f"{folder}/{name}")
                cancelled = True
    return cancelled


class GatewayLauncher:
    """Owns the notification socket, and the listening sockets that pass from gateway to gateway.

    It starts gateways one after the other, by fork: its process must have no threads.
    """

    def __init__(self, folder: str, *, sockets: Sequence[socket.socket] = ()) -> None:
        """`folder`: the existing, private folder of the home's sockets."""
        # No longer than `control.sock`: the folder was chosen so that that path fits.
        self._path = f"{folder}/{os.getpid()}{_SOCKET_SUFFIX}"
        self.sockets = list(sockets)
        self.cancelled = False  # by `cancel_respawn`
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
        """Readable when a notification has arrived."""
        return self._notify_socket.fileno()

    def close_sockets(self) -> None:
        """Close the sockets. If no other process has them, new connections are refused from now on
        instead of waiting in vain."""
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
        """Start a gateway and return its pid. `output` becomes its stdout and stderr, with an empty
        stdin; without it, it inherits those of this process. `extra_fd` is a further descriptor
        that it inherits, numbered above those of the sockets."""
        # Until exec, a signal for the child would run the handlers of this process.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        pid = os.fork()
        if pid == 0:
            if extra_fd is not None:
                os.set_inheritable(extra_fd, True)
            self._exec(argv, environ, output, before)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return pid

    def read_notifications(self) -> bool:
        """Process all pending notifications; True if the gateway has reported that it is ready."""
        ready = False
        while True:
            try:
                text, received = receive_with_sockets(self._notify_socket, _MAX_BYTES)
            except BlockingIOError:
                return ready
            lines = text.decode("utf-8", "replace").splitlines()
            if "FDSTOREREMOVE=1" in lines:
                self.close_sockets()
            self.cancelled = self.cancelled or _CANCEL_MESSAGE in lines
            self._store_sockets(received, requested="FDSTORE=1" in lines)
            ready = ready or "READY=1" in lines

    def _store_sockets(self, sockets: Sequence[socket.socket], *, requested: bool) -> None:
        """Keep the newest socket of each address: it is the one that the gateway listens on."""
        for sock in sockets:
            if not requested:
                sock.close()
                continue
            address = bound_address(sock)
            for old in [each for each in self.sockets if bound_address(each) == address]:
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
        """In the child: a few system calls, then exec."""
        try:
            _reset_signal_handlers()
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            # Its own process group: Ctrl-C in a terminal goes to the parent, which forwards it.
            os.setpgid(0, 0)
            if output is not None:
                _redirect_stdio(output)
            child_environ = dict(environ) | {"NOTIFY_SOCKET": self._path}
            if self.sockets:
                _place_sockets(self.sockets)
                child_environ["LISTEN_FDS"] = str(len(self.sockets))
                child_environ["LISTEN_PID"] = str(os.getpid())
                child_environ["LISTEN_FDNAMES"] = ":".join([FD_NAME] * len(self.sockets))
            os.execve(argv[0], list(argv), child_environ)
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
    """Makes the sockets descriptors 3 and up, inheritable. They are first copied out of that range,
    because one may have the number that another one gets."""
    beyond = _FIRST_FD + len(sockets)
    copies = [fcntl.fcntl(sock.fileno(), fcntl.F_DUPFD_CLOEXEC, beyond) for sock in sockets]
    for index, fd in enumerate(copies):
        os.dup2(fd, _FIRST_FD + index)


class RestartBackoff:
    """Growing waits between failed starts: 1, 2, 4 … 60 seconds. It starts over once a gateway has
    run for `healthy_after` seconds."""

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
        """How long to wait before the next start; `uptime` is how long the last gateway ran."""
        if uptime >= self._healthy_after:
            self._next_wait = self._first_wait
        wait, self._next_wait = self._next_wait, min(self._next_wait * 2, self._max_wait)
        return wait
