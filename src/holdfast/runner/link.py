"""The link: one connection to a runner, many requests on it at once."""

import asyncio
import itertools
import socket
from collections.abc import Callable
from typing import Any

from holdfast.core.errors import RunnerError
from holdfast.core.ports.sandbox import SandboxRefused
from holdfast.runner.program.wire import encode_frame, take_frames


class RunnerConnectionLost(RunnerError):
    """The runner went away with the request under way."""


class _PendingRequest:
    def __init__(self, on_output: Callable[[str], None] | None) -> None:
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.on_output = on_output


class RunnerConnection(asyncio.Protocol):
    """Owns the connection. `on_lost` is called once when the runner goes, not after `let_go`."""

    def __init__(self, *, on_lost: Callable[[], None]) -> None:
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._ids = itertools.count(1)
        self._pending: dict[int, _PendingRequest] = {}
        self._incoming = bytearray()
        self.released = False
        self.closed = asyncio.Event()

    @classmethod
    async def open(cls, sock: socket.socket, *, on_lost: Callable[[], None]) -> "RunnerConnection":
        loop = asyncio.get_running_loop()
        _, link = await loop.create_unix_connection(lambda: cls(on_lost=on_lost), sock=sock)
        return link

    @property
    def alive(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    async def request(
        self, operation: str, *, on_output: Callable[[str], None] | None = None, **details: Any
    ) -> Any:
        """The runner's answer. Raises `SandboxRefused`, or `RunnerConnectionLost` if it went away."""
        question = _PendingRequest(on_output)
        number = next(self._ids)
        self._pending[number] = question
        try:
            self._send(number, operation, {**details, "stream": on_output is not None})
            return await question.answer
        finally:
            self._pending.pop(number, None)

    def notify(self, operation: str, **details: Any) -> None:
        """Say something whose answer nobody waits for; lost if the link is."""
        if self.alive and not self.released:
            self._send(next(self._ids), operation, details)

    def release(self) -> None:
        """Close and leave the runner alone. Who waits for an answer goes on waiting: what was
        asked is still being done, and only a successor will hear how it ended."""
        self.released = True
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._incoming += data
        try:
            frames = take_frames(self._incoming)
        except ValueError:
            assert self._transport is not None
            return self._transport.abort()
        for frame in frames:
            self._handle_frame(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()
        if self.released:
            return
        for question in self._pending.values():
            if not question.answer.done():
                question.answer.set_exception(RunnerConnectionLost("the session's runner ended"))
        self._on_lost()

    def _send(self, number: int, operation: str, details: dict[str, Any]) -> None:
        if self._transport is None or not self.alive:
            raise RunnerConnectionLost("the session's runner has ended")
        self._transport.write(encode_frame({"id": number, "op": operation, **details}))

    def _handle_frame(self, frame: dict[str, Any]) -> None:
        question = self._pending.get(frame["id"])
        if question is None or question.answer.done():
            return
        if "output" in frame:
            if question.on_output is not None:
                question.on_output(frame["output"])
        elif "refused" in frame:
            question.answer.set_exception(SandboxRefused(frame["refused"]))
        else:
            question.answer.set_result(frame["result"])
