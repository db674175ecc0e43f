"""Streaming an answer as server-sent events, and keeping the line open while tools work."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager

from aiohttp import web

KEEPALIVE_INTERVAL = 15.0  # seconds after which a proxy might think that nobody is there
WRITE_TIMEOUT = 120.0  # seconds for which a client may take nothing of what is sent
_STREAM_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",  # nginx would hold pieces back
}


async def stream_events(
    request: web.Request,
    chunks: AsyncGenerator[bytes, None],
    *,
    headers: Mapping[str, str],
    keepalive_interval: float = KEEPALIVE_INTERVAL,
    write_timeout: float = WRITE_TIMEOUT,
) -> web.StreamResponse:
    """Write the pieces as they come. A client that leaves ends the stream, never the turn."""
    response = web.StreamResponse(headers={**_STREAM_HEADERS, **headers})
    try:
        await response.prepare(request)
        async with _keep_alive(response, interval=keepalive_interval), aclosing(chunks):
            async for piece in chunks:
                async with asyncio.timeout(write_timeout):
                    await response.write(piece)
        async with asyncio.timeout(write_timeout):
            await response.write_eof()
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
    except ConnectionError:
        pass  # the answer is in the store, and the same message id fetches it
    return response


@asynccontextmanager
async def _keep_alive(response: web.StreamResponse, *, interval: float) -> AsyncIterator[None]:
    async def breathe() -> None:
        while True:
            await asyncio.sleep(interval)
            await response.write(b": still here\n\n")

    breathing = asyncio.create_task(breathe())
    try:
        yield
    finally:
        breathing.cancel()
        await asyncio.wait([breathing])
        if not breathing.cancelled():
            breathing.exception()  # the connection went; whoever writes next finds out
