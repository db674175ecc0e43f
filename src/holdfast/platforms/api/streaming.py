"""Streaming an answer as server-sent events, and keeping the line open while tools work."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import msgspec
from aiohttp import web

from holdfast.platforms.api.refusals import Refusal

QUIET = 15.0  # seconds after which a proxy might think that nobody is there
_HEADERS = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}


async def stream(
    request: web.Request, first: Iterable[bytes], pieces: AsyncIterator[bytes]
) -> web.StreamResponse:
    """Write the pieces as they come. A client that leaves ends the stream, never the turn."""
    response = web.StreamResponse(headers=_HEADERS)
    await response.prepare(request)
    try:
        async with _kept_open(response):
            await response.write(b"".join(first))
            await _write(response, pieces)
        await response.write_eof()
    except ConnectionError:
        pass  # the answer is in the store, and the same message id fetches it
    return response


async def _write(response: web.StreamResponse, pieces: AsyncIterator[bytes]) -> None:
    try:
        async for piece in pieces:
            await response.write(piece)
    except Refusal as refusal:  # too late for a status: the error is the last event
        await response.write(b"data: " + msgspec.json.encode(refusal.body()) + b"\n\n")


@asynccontextmanager
async def _kept_open(response: web.StreamResponse) -> AsyncIterator[None]:
    async def breathe() -> None:
        while True:
            await asyncio.sleep(QUIET)
            await response.write(b": still here\n\n")

    breathing = asyncio.create_task(breathe())
    try:
        yield
    finally:
        breathing.cancel()
        await asyncio.wait([breathing])
        if not breathing.cancelled():
            breathing.exception()  # the connection went; whoever writes next finds out
