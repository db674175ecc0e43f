"""A TCP proxy in front of a server: the connection faults that no server makes by itself."""

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Self

_CHUNK_BYTES = 65536


class FaultProxy:
    """Owns a port of loopback, and every connection through it to the server."""

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
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Resets every connection; new ones are accepted."""
        for writer in list(self._connections):
            writer.transport.abort()

    def refuse_connections(self) -> None:
        """Resets every connection, and refuses new ones until `restore`."""
        self._refusing = True
        self.cut()

    def go_silent(self) -> None:
        """Keeps connections open, and drops all data in both directions until `restore`."""
        self._silent = True

    def drop_next_response(self) -> None:
        """The server receives the next request; its response is dropped and the connection reset.
        After that everything is forwarded again."""
        self._drop_next_response = True

    def restore(self) -> None:
        """What was dropped on a silent connection is lost, so that connection is reset."""
        if self._silent:
            self.cut()
        self._refusing = self._silent = self._drop_next_response = False

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        if self._refusing:
            writer.transport.abort()
            return
        task = asyncio.ensure_future(self._forward(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await asyncio.wait({task})

    async def _forward(self, reader: StreamReader, writer: StreamWriter) -> None:
        with suppress(OSError):  # a broken connection is what this is for
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
        pumps = [
            asyncio.ensure_future(self._pump(reader, to_far, responses=False)),
            asyncio.ensure_future(self._pump(far, writer, responses=True)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(self, reader: StreamReader, writer: StreamWriter, *, responses: bool) -> None:
        with suppress(OSError):
            while piece := await reader.read(_CHUNK_BYTES):
                if self._silent:
                    continue
                if responses and self._drop_next_response:
                    self._drop_next_response = False
                    writer.transport.abort()
                    return
                writer.write(piece)
                await writer.drain()
