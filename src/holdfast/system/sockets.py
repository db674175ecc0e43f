"""Listening sockets: bound here, or inherited from a predecessor or a supervisor.

A listening socket that passes from process to process is never closed in between: a client that
connects meanwhile waits in the kernel's queue, and the successor answers it.

Imports the standard library only: the respawner, which must start at once, needs it.
"""

import array
import errno
import os
import socket
from collections.abc import Mapping, Sequence

FD_NAME = "http"  # their FDNAME in a supervisor's descriptor store
LISTEN_VARIABLES = ("LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES")

_FIRST_FD = 3  # the first passed descriptor, by systemd's convention
_BACKLOG = 1024
_MAX_FDS = 16
_INT = array.array("i").itemsize
_FAMILIES = (socket.AF_INET, socket.AF_INET6)
_UNAVAILABLE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def adopt_inherited(environ: Mapping[str, str], *, pid: int) -> list[socket.socket]:
    """The listening sockets that were passed to this process; its children do not inherit them.

    `environ` has the variables of the start. Descriptors for another process (`LISTEN_PID` is not
    ours) are not touched; those that are not TCP listeners are closed.
    """
    count = environ.get("LISTEN_FDS", "")
    if environ.get("LISTEN_PID") != str(pid) or not count.isdecimal():
        return []
    adopted = [_adopt_fd(fd) for fd in range(_FIRST_FD, _FIRST_FD + int(count))]
    return [each for each in adopted if each is not None]


def _adopt_fd(fd: int) -> socket.socket | None:
    try:
        os.set_inheritable(fd, False)
        sock = socket.socket(fileno=fd)
    except OSError:
        return None  # it does not exist, or is not a socket
    listens = sock.family in _FAMILIES and sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    if not listens:
        sock.close()
        return None
    return sock


def bound_address(sock: socket.socket) -> tuple[str, int]:
    """The address and port that a socket listens on."""
    address, port, *_ = sock.getsockname()
    return str(address), int(port)


def pick_inherited(
    inherited: Sequence[socket.socket], *, addresses: Sequence[str], ports: Sequence[int]
) -> tuple[list[socket.socket], list[socket.socket]]:
    """The inherited sockets with a configured address, and the others.

    `ports`: any of them matches; 0 among them matches every port. Two descriptors of the same
    address are one socket, and the second one is not needed.
    """
    chosen: dict[tuple[str, int], socket.socket] = {}
    others = []
    for sock in inherited:
        address, port = bound_address(sock)
        if address in addresses and (port in ports or 0 in ports) and (address, port) not in chosen:
            chosen[address, port] = sock
        else:
            others.append(sock)
    return list(chosen.values()), others


def bind_listeners(addresses: Sequence[str], port: int) -> list[socket.socket]:
    """New sockets that listen on all of these addresses, at one port; 0: at a free one.

    Raises `OSError` with the address as `filename` if one cannot be bound, and leaves none open. An
    address that this machine does not have is skipped, if there is another one.
    """
    made: list[socket.socket] = []
    missing: OSError | None = None
    try:
        for address in addresses:
            try:
                made.append(_bind_one(address, bound_address(made[0])[1] if made else port))
            except OSError as error:
                if error.errno not in _UNAVAILABLE:
                    raise OSError(error.errno, error.strerror, address) from None
                missing = error
        if not made and missing is not None:
            raise missing
    except OSError:
        for sock in made:
            sock.close()
        raise
    return made


def _bind_one(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind((address, port))
        sock.listen(_BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


def receive_with_sockets(
    connection: socket.socket, max_bytes: int
) -> tuple[bytes, list[socket.socket]]:
    """The next bytes and the sockets that came with them, close-on-exec from the start: with
    `recv_fds` a child that is started at this moment would inherit them."""
    space = socket.CMSG_SPACE(_MAX_FDS * _INT)
    body, rights, _, _ = connection.recvmsg(max_bytes, space, socket.MSG_CMSG_CLOEXEC)
    fds = array.array("i")
    for level, kind, data in rights:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(data[: len(data) - len(data) % _INT])
    return body, [socket.socket(fileno=fd) for fd in fds]
