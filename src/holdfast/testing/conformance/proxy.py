"""A TCP proxy in front of a server: the connection faults that no server makes by itself."""

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Self

_CHUNK_BYTES = 65536


class FaultProxy:
    """Owns a port of loopback, and every line that leads through it to the server."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self._server = (host, port)
        self._connections: set[StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._silent = False
        self._refusing = False
        self._drop_next_response = False

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.close()
        self.cut()
        for serving in self._tasks:
            serving.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Every line is reset; the next ones are let through."""
        for writer in list(self._connections):
            writer.transport.abort()

    def refuse_connections(self) -> None:
        """Every line is reset, and none is let through until all is well."""
        self._refusing = True
        self.cut()

    def go_silent(self) -> None:
        """Lines stay open, and nothing comes through them either way until all is well."""
        self._silent = True

    def drop_next_response(self) -> None:
        """The server hears what it is told; the first thing it says is lost, and the line with
        it. Then all is well."""
        self._drop_next_response = True

    def restore(self) -> None:
        """What was swallowed by a silent line is gone, so that line is cut."""
        if self._silent:
            self.cut()
        self._refusing = self._silent = self._drop_next_response = False

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        if self._refusing:
            writer.transport.abort()
            return
        serving = asyncio.ensure_future(self._forward(reader, writer))
        self._tasks.add(serving)
        serving.add_done_callback(self._tasks.discard)
        await asyncio.wait({serving})

    async def _forward(self, reader: StreamReader, writer: StreamWriter) -> None:
        with suppress(OSError):  # a line that breaks is what this is for
            far_reader, far_writer = await asyncio.open_connection(*self._server)
            async with self._tracked(writer), self._tracked(far_writer):
                await self._forward_both_ways(reader, writer, far_reader, far_writer)

    @asynccontextmanager
    async def _tracked(self, writer: StreamWriter) -> AsyncIterator[None]:
        self._connections.add(writer)
        try:
            yield
        finally:
            self._connections.discard(writer)
            writer.close()

    async def _forward_both_ways(
        self, reader: StreamReader, writer: StreamWriter, far: StreamReader, to_far: StreamWriter
    ) -> None:
        ways = [
            asyncio.ensure_future(self._pump(reader, to_far, answers=False)),
            asyncio.ensure_future(self._pump(far, writer, answers=True)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _pump(self, reader: StreamReader, writer: StreamWriter, *, answers: bool) -> None:
        with suppress(OSError):
            while piece := await reader.read(_CHUNK_BYTES):
                if self._silent:
                    continue
                if answers and self._drop_next_response:
                    self._drop_next_response = False
                    writer.transport.abort()
                    return
                writer.write(piece)
                await writer.drain()
