"""The protocol between gateway and runner: JSON frames with a four-byte length, and one request to
be answered or refused once.

Runners outlive gateways: names of operations and fields are never changed, only added.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable
from typing import Any

from .event_loop import EventLoop

LENGTH_PREFIX = struct.Struct(">I")
MAX_FRAME = 32 * 1024 * 1024
STREAM_BACKLOG = 1024 * 1024  # a reader this far behind loses streamed output, never a result

Frame = dict[str, Any]


def encode_frame(frame: Frame) -> bytes:
    body = json.dumps(frame, separators=(",", ":")).encode()
    return LENGTH_PREFIX.pack(len(body)) + body


def take_frames(buffer: bytearray) -> list[Frame]:
    """Remove the complete frames from the front of `buffer` and return them. Raises ValueError for
    invalid data."""
    frames = []
    while len(buffer) >= LENGTH_PREFIX.size:
        (size,) = LENGTH_PREFIX.unpack_from(buffer)
        if size > MAX_FRAME:
            raise ValueError(f"a frame of {size} bytes")
        if len(buffer) < LENGTH_PREFIX.size + size:
            break
        frames.append(json.loads(bytes(buffer[LENGTH_PREFIX.size : LENGTH_PREFIX.size + size])))
        del buffer[: LENGTH_PREFIX.size + size]
    return frames


class ClientConnection:
    """The connection of one client; owns its socket and the unsent data."""

    def __init__(
        self,
        sock: socket.socket,
        *,
        loop: EventLoop,
        on_frame: Callable[[ClientConnection, Frame], None],
        on_close: Callable[[ClientConnection], None],
    ) -> None:
        sock.setblocking(False)
        self._sock, self._loop = sock, loop
        self._on_frame, self._on_close = on_frame, on_close
        self._incoming, self._outgoing = bytearray(), bytearray()
        self.open = True
        loop.watch_reading(sock.fileno(), self._read)

    def send(self, frame: Frame) -> None:
        if self.open:
            self._outgoing += encode_frame(frame)
            self._write()

    def stream(self, frame: Frame) -> None:
        if len(self._outgoing) < STREAM_BACKLOG:
            self.send(frame)

    def close(self) -> None:
        if self.open:
            self.open = False
            self._loop.unwatch(self._sock.fileno())
            self._sock.close()
            self._on_close(self)

    def _read(self) -> None:
        try:
            data = self._sock.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            return self.close()
        self._incoming += data
        try:
            frames = take_frames(self._incoming)
        except ValueError:
            return self.close()
        for frame in frames:
            self._on_frame(self, frame)

    def _write(self) -> None:
        try:
            sent = self._sock.send(self._outgoing)
        except BlockingIOError:
            sent = 0
        except OSError:
            return self.close()
        del self._outgoing[:sent]
        self._loop.watch_read_write(
            self._sock.fileno(), self._read, self._write if self._outgoing else None
        )


class RunnerRefusal(Exception):
    """A request that cannot be done; the text is for the client."""


class RunnerRequest:
    """One request of one client, to be answered or refused once."""

    def __init__(self, connection: ClientConnection, frame: Frame) -> None:
        self._connection, self._id = connection, frame["id"]
        self.wants_stream = bool(frame.get("stream"))

    @property
    def is_connected(self) -> bool:
        return self._connection.open

    def answer(self, result: Any) -> None:
        self._connection.send({"id": self._id, "result": result})

    def refuse(self, text: str) -> None:
        self._connection.send({"id": self._id, "refused": text})

    def stream(self, text: str) -> None:
        self._connection.stream({"id": self._id, "output": text})
