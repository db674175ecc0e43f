"""Keeps the listening sockets of a gateway that was killed, until the next one takes them.

Run as `python -I -S socket_holder_program.py PATH SECONDS CHANNEL`: PATH is the Unix socket at
which gateways of this home connect, SECONDS for how long the sockets are kept without a gateway,
CHANNEL the descriptor of the connection to the gateway that started this.

A connection first gets one byte with the held sockets. What it sends: HOLD with the sockets to hold
from now on, or RELEASE, which ends this process at once if it comes from the gateway that sent the
last HOLD. A gateway lives as long as it is connected.

It imports neither `socket` nor `os`, which would double its memory.
"""

import _socket
import posix
import select
import sys
from time import monotonic

HOLD, RELEASE = b"H", b"R"
HELD = b"S"
QUEUE_SECONDS = 5.0  # for which clients may wait for the next gateway; then they are turned away
_INT = 4
_MAX_FDS = 16


class Holder:
    """Owns the held sockets, and the connections of gateways."""

    def __init__(self, path: str, seconds: float, channel: _socket.socket) -> None:
        self._path = path
        self._seconds = seconds
        self._held: list[int] = []
        self._server = _listen(path)
        self._inode = posix.stat(path).st_ino
        self._gateways = {channel.fileno(): channel}
        self._owner = channel.fileno()
        self._alone_since = monotonic()

    def run(self) -> None:
        while self._serve_once():
            pass
        for fd in self._held:
            posix.close(fd)
        try:
            if posix.stat(self._path).st_ino == self._inode:  # it may be that of a later holder
                posix.unlink(self._path)
        except OSError:
            pass

    def _serve_once(self) -> bool:
        """False: it is over."""
        alone = not self._gateways
        waited = monotonic() - self._alone_since
        if alone and waited >= self._seconds:
            return False
        poll = select.poll()
        poll.register(self._server.fileno(), select.POLLIN)
        for fd in self._gateways:
            poll.register(fd, select.POLLIN)
        turning_away = alone and waited >= QUEUE_SECONDS
        if turning_away:
            for fd in self._held:
                poll.register(fd, select.POLLIN)
        timeout = None
        if alone:
            timeout = (
                self._seconds if turning_away else min(QUEUE_SECONDS, self._seconds)
            ) - waited
        for fd, _ in poll.poll(None if timeout is None else timeout * 1000 + 1):
            if fd in self._gateways:
                if not self._receive(fd):
                    return False
            elif fd in self._held:
                _turn_away(fd)
            else:
                self._accept()
        return True

    def _accept(self) -> None:
        fd, _ = self._server._accept()  # type: ignore[attr-defined]
        gateway = _socket.socket(fileno=fd)
        peer = gateway.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 3 * _INT)
        if int.from_bytes(peer[_INT : 2 * _INT], sys.byteorder) != posix.getuid():
            gateway.close()
            return
        gateway.settimeout(1.0)
        rights = b"".join(fd.to_bytes(_INT, sys.byteorder) for fd in self._held)
        extra = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)] if rights else []
        try:
            gateway.sendmsg([HELD], extra)
        except OSError:
            gateway.close()
            return
        self._gateways[gateway.fileno()] = gateway

    def _receive(self, fd: int) -> bool:
        """False: the sockets are released."""
        gateway = self._gateways[fd]
        try:
            message, extra, _, _ = gateway.recvmsg(
                1, _socket.CMSG_SPACE(_MAX_FDS * _INT), _socket.MSG_CMSG_CLOEXEC
            )
        except OSError:
            message, extra = b"", []
        received = [
            int.from_bytes(data[at : at + _INT], sys.byteorder)
            for level, kind, data in extra
            if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS)
            for at in range(0, len(data) - len(data) % _INT, _INT)
        ]
        if message == HOLD:
            replaced, self._held = self._held, received
            for each in replaced:
                posix.close(each)
            self._owner = fd
            return True
        for each in received:
            posix.close(each)
        if message == RELEASE and fd == self._owner:
            return False
        if not message:
            gateway.close()
            del self._gateways[fd]
            self._owner = -1 if fd == self._owner else self._owner
            self._alone_since = monotonic()
        return True


def _listen(path: str) -> _socket.socket:
    try:  # noqa: SIM105 - contextlib would cost memory
        posix.unlink(path)
    except FileNotFoundError:
        pass
    server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    posix.umask(0o177)  # a socket of mode 0600 from the beginning
    server.bind(path)
    server.listen(4)
    return server


def _turn_away(listening: int) -> None:
    """Accept a connection and close it: that no gateway is there is the truth."""
    server = _socket.socket(fileno=posix.dup(listening))
    try:
        server.settimeout(0.0)
        fd, _ = server._accept()  # type: ignore[attr-defined]
        posix.close(fd)
    except OSError:
        pass
    finally:
        server.close()


if __name__ == "__main__":
    posix.chdir("/")
    path, seconds, channel = sys.argv[1:]
    Holder(path, float(seconds), _socket.socket(fileno=int(channel))).run()
