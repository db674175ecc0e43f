"""Forwards connections to a port of the sandbox's own loopback to the egress proxy of the gateway,
which listens on a unix socket."""

from __future__ import annotations

import socket
from collections.abc import Callable

from .event_loop import EventLoop

MAX_CONNECTIONS = 128
CHUNK = 64 * 1024  # bytes that are read at once, and the most that is held back in a direction
REFUSAL_TIMEOUT = 5.0  # seconds for a client to read why there is no network
NO_GATEWAY = "the gateway does not run: there is no network until it is back"
TOO_MANY = "too many connections are open in this sandbox"


class EgressForwarder:
    """Owns the listening socket and its connections.

    A connection copies at most one chunk per direction and round of the event loop, so commands do
    not wait for traffic.
    """

    def __init__(self, loop: EventLoop, *, port: int, target: str) -> None:
        self._loop, self._target = loop, target
        self._connections: set[_Connection] = set()
        self._listener = socket.create_server(("127.0.0.1", port), backlog=MAX_CONNECTIONS)
        self._listener.setblocking(False)
        loop.watch_reading(self._listener.fileno(), self._accept)

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError:
            return
        client.setblocking(False)
        if len(self._connections) >= MAX_CONNECTIONS:
            return _Refusal(client, TOO_MANY, loop=self._loop).start()
        # Not connect() to a socket that waits: the backlog of the gateway has room for all of ours.
        upstream = socket.socket(socket.AF_UNIX)
        upstream.setblocking(False)
        try:
            upstream.connect(self._target)
        except OSError:
            upstream.close()
            return _Refusal(client, NO_GATEWAY, loop=self._loop).start()
        connection = _Connection(
            client, upstream, loop=self._loop, on_end=self._connections.discard
        )
        self._connections.add(connection)
        connection.start()


class _Refusal:
    """Tells a client of the proxy why it gets no connection, in the protocol that it speaks."""

    def __init__(self, client: socket.socket, why: str, *, loop: EventLoop) -> None:
        self._client, self._why, self._loop = client, why, loop
        self._answered = False
        self._timer = loop.after(REFUSAL_TIMEOUT, self._close)

    def start(self) -> None:
        self._loop.watch_reading(self._client.fileno(), self._read)

    def _read(self) -> None:
        try:
            data = self._client.recv(CHUNK)
            if not data:
                return self._close()
            if not self._answered:
                self._answered = True
                self._client.send(self._answer(data))
                self._client.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            return
        except OSError:
            self._close()

    def _answer(self, request: bytes) -> bytes:
        if request[:1] == b"\x05":  # SOCKS has no room for a reason
            return b"\x05\xff"
        body = f"{self._why}\n"
        return (
            "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}"
        ).encode()

    def _close(self) -> None:
        if self._client.fileno() >= 0:
            self._timer.cancel()
            self._loop.unwatch(self._client.fileno())
            self._client.close()


class _Connection:
    """Owns both ends of a forwarded connection, and what was read from one and not yet written to
    the other."""

    def __init__(
        self,
        client: socket.socket,
        upstream: socket.socket,
        *,
        loop: EventLoop,
        on_end: Callable[[_Connection], None],
    ) -> None:
        self._loop, self._on_end = loop, on_end
        self._ends = (client, upstream)
        self._unsent = [b"", b""]  # to each end
        self._ended = [False, False]  # whether each end has sent all that it will send

    def start(self) -> None:
        for number in (0, 1):
            self._watch(number)

    def _watch(self, number: int) -> None:
        """Read an end while nothing of it waits for the other, and write to it while it can."""
        readable = not self._ended[number] and not self._unsent[1 - number]
        self._loop.watch(
            self._ends[number].fileno(),
            (lambda: self._read(number)) if readable else None,
            (lambda: self._write(number)) if self._unsent[number] else None,
        )

    def _read(self, number: int) -> None:
        if self._closed:
            return
        try:
            data = self._ends[number].recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            return self._close()
        if data:
            self._unsent[1 - number] = data
            return self._write(1 - number)
        self._ended[number] = True
        if all(self._ended):
            return self._close()
        try:
            self._ends[1 - number].shutdown(socket.SHUT_WR)
        except OSError:
            return self._close()
        self._watch(number)

    def _write(self, number: int) -> None:
        if self._closed:
            return
        try:
            sent = self._ends[number].send(self._unsent[number])
        except BlockingIOError:
            sent = 0
        except OSError:
            return self._close()
        self._unsent[number] = self._unsent[number][sent:]
        for each in (0, 1):
            self._watch(each)

    @property
    def _closed(self) -> bool:
        return self._ends[0].fileno() < 0

    def _close(self) -> None:
        for end in self._ends:
            self._loop.watch(end.fileno(), None, None)
            end.close()
        self._on_end(self)
