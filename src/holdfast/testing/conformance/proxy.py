"""A proxy in front of a server: the faults of a line that no server makes by itself."""

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Self

_PIECE = 65536


class Proxy:
    """Owns a port of loopback, and every line that leads through it to the server."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self._server = (host, port)
        self._lines: set[StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._silent = False
        self._away = False
        self._answers_lost = False

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
        for serving in self._serving:
            serving.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def cut(self) -> None:
        """Every line is reset; the next ones are let through."""
        for writer in list(self._lines):
            writer.transport.abort()

    def go_away(self) -> None:
        """Every line is reset, and none is let through until all is well."""
        self._away = True
        self.cut()

    def fall_silent(self) -> None:
        """Lines stay open, and nothing comes through them either way until all is well."""
        self._silent = True

    def lose_answers(self) -> None:
        """The server hears what it is told; the first thing it says is lost, and the line with
        it. Then all is well."""
        self._answers_lost = True

    def be_well(self) -> None:
        """What was swallowed by a silent line is gone, so that line is cut."""
        if self._silent:
            self.cut()
        self._away = self._silent = self._answers_lost = False

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        if self._away:
            writer.transport.abort()
            return
        serving = asyncio.ensure_future(self._lead(reader, writer))
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)
        await asyncio.wait({serving})

    async def _lead(self, reader: StreamReader, writer: StreamWriter) -> None:
        with suppress(OSError):  # a line that breaks is what this is for
            far_reader, far_writer = await asyncio.open_connection(*self._server)
            async with self._known(writer), self._known(far_writer):
                await self._both_ways(reader, writer, far_reader, far_writer)

    @asynccontextmanager
    async def _known(self, writer: StreamWriter) -> AsyncIterator[None]:
        self._lines.add(writer)
        try:
            yield
        finally:
            self._lines.discard(writer)
            writer.close()

    async def _both_ways(
        self, reader: StreamReader, writer: StreamWriter, far: StreamReader, to_far: StreamWriter
    ) -> None:
        ways = [
            asyncio.ensure_future(self._pass(reader, to_far, answers=False)),
            asyncio.ensure_future(self._pass(far, writer, answers=True)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _pass(self, reader: StreamReader, writer: StreamWriter, *, answers: bool) -> None:
        with suppress(OSError):
            while piece := await reader.read(_PIECE):
                if self._silent:
                    continue
                if answers and self._answers_lost:
                    self._answers_lost = False
                    writer.transport.abort()
                    return
                writer.write(piece)
                await writer.drain()
