"""Clients that hold or flood the listener: limits of connections, slow heads, compressed bodies."""

import asyncio
import gzip
import resource
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from tests.support.gateway_process import NewGateway, SpawnedGateway

from holdfast.server.connections import ConnectionLimits, Connections
from holdfast.system.lock import read_holder

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
REQUEST = b"GET /fast HTTP/1.1\r\nHost: x\r\n\r\n"
HELD = b"GET /held HTTP/1.1\r\nHost: x\r\n\r\n"


class Served:
    """A server whose /held answers when the test says so."""

    def __init__(self, port: int, release: asyncio.Event, held: asyncio.Semaphore) -> None:
        self.port = port
        self.release = release
        self._held = held

    async def connect(self) -> Stream:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def hold(self) -> Stream:
        stream = await self.connect()
        stream[1].write(HELD)
        await self._held.acquire()
        return stream


@asynccontextmanager
async def serving(
    limits: ConnectionLimits, *, is_shared: Callable[[str], bool] = lambda address: False
) -> AsyncIterator[Served]:
    release, held = asyncio.Event(), asyncio.Semaphore(0)

    async def fast(request: web.Request) -> web.Response:
        return web.Response(text="fast")

    async def slow(request: web.Request) -> web.Response:
        held.release()
        await release.wait()
        return web.Response(text="held")

    application = web.Application()
    application.add_routes([web.get("/fast", fast), web.get("/held", slow)])
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    assert runner.server is not None
    connections = Connections(runner.server, limits, is_shared=is_shared)
    server = await asyncio.get_running_loop().create_server(connections, "127.0.0.1", 0)
    try:
        yield Served(server.sockets[0].getsockname()[1], release, held)
    finally:
        release.set()
        server.close()
        await runner.cleanup()


async def answer(stream: Stream) -> bytes:
    """The next response; b"" if the connection was closed."""
    try:
        async with asyncio.timeout(20):
            head = await stream[0].readuntil(b"\r\n\r\n")
            return head[9:12] + await stream[0].readexactly(4)
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


@pytest.fixture
async def opened() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


async def test_a_head_that_comes_slowly_ends_its_connection_and_no_other(
    opened: AsyncExitStack,
) -> None:
    served = await opened.enter_async_context(serving(ConnectionLimits(head_timeout=0.3)))
    used, silent, slow, later = [await served.connect() for _ in range(4)]
    for _, writer in (used, silent, slow, later):
        opened.callback(writer.close)
    used[1].write(REQUEST)
    assert await answer(used) == b"200fast"
    later[1].write(REQUEST)
    assert await answer(later) == b"200fast"
    later[1].write(REQUEST[:9])  # also the second request of a connection
    slow[1].write(REQUEST[:9])
    assert [await answer(each) for each in (silent, slow, later)] == [b"", b"", b""]
    used[1].write(REQUEST)  # it was idle for as long
    assert await answer(used) == b"200fast"


@pytest.mark.parametrize(
    "limits",
    [ConnectionLimits(total=16, per_address=2), ConnectionLimits(total=2, per_address=16)],
)
async def test_connections_in_use_are_kept_and_new_ones_are_refused_at_the_limit(
    opened: AsyncExitStack, caplog: pytest.LogCaptureFixture, limits: ConnectionLimits
) -> None:
    served = await opened.enter_async_context(serving(limits))
    held = [await served.hold() for _ in range(2)]
    refused = [await served.connect() for _ in range(20)]
    for _, writer in (*held, *refused):
        opened.callback(writer.close)
    assert [await answer(each) for each in refused] == [b""] * 20
    assert len([r for r in caplog.records if "Too many connections" in r.message]) == 1
    served.release.set()
    assert [await answer(each) for each in held] == [b"200held"] * 2


async def test_an_idle_connection_makes_way_for_a_new_one(opened: AsyncExitStack) -> None:
    """The attack: connections that are opened and left."""
    served = await opened.enter_async_context(serving(ConnectionLimits(total=8)))
    left = [await served.connect() for _ in range(100)]
    fresh = await served.connect()
    for _, writer in (*left, fresh):
        opened.callback(writer.close)
    fresh[1].write(REQUEST)
    assert await answer(fresh) == b"200fast"
    assert await answer(left[0]) == b""


async def test_an_address_that_many_share_has_only_the_limit_of_all(
    opened: AsyncExitStack,
) -> None:
    limits = ConnectionLimits(total=16, per_address=2)
    served = await opened.enter_async_context(serving(limits, is_shared=lambda address: True))
    held = [await served.hold() for _ in range(10)]
    for _, writer in held:
        opened.callback(writer.close)
    served.release.set()
    assert [await answer(each) for each in held] == [b"200held"] * 10


async def test_a_compressed_body_is_refused_and_never_unpacked(
    shared_gateway: SpawnedGateway,
) -> None:
    """The attack: 64 MB of zeros in 64 kB, from a client without a token."""
    bomb = gzip.compress(bytes(64_000_000))
    headers = {"Content-Encoding": "gzip"}
    for path in ("/v1/chat/completions", "/api/v1/send", "/hooks/slack/default", "/login"):
        async with (
            aiohttp.ClientSession(shared_gateway.address, headers=headers) as http,
            http.post(path, data=bomb) as response,
        ):
            assert response.status == 415, path
            assert response.headers["Accept-Encoding"] == "identity"
    async with (
        aiohttp.ClientSession(shared_gateway.address, headers=shared_gateway.auth) as http,
        http.get("/api/v1/whoami") as response,
    ):
        assert response.status == 200


async def test_a_gateway_that_may_open_no_more_files_logs_little_and_serves_again(
    new_gateway: NewGateway,
) -> None:
    """The attack: connections until accept() fails (EMFILE), which must not end the listener."""
    gateway = new_gateway().start()
    log, holder = gateway.paths.log_file, read_holder(gateway.home)
    assert holder is not None
    pid = holder.pid
    open_files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    limit = open_files + 8
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, limit))
    before = log.stat().st_size
    port = int(gateway.address.rpartition(":")[2])
    streams: list[Stream] = []
    for _ in range(200):
        stream = await asyncio.open_connection("127.0.0.1", port)
        stream[1].write(REQUEST[:9])
        streams.append(stream)
    while len(list(Path(f"/proc/{pid}/fd").iterdir())) < limit:
        await asyncio.sleep(0.01)
    for _, writer in streams:
        writer.close()
    async with asyncio.timeout(30):
        while True:
            try:
                async with aiohttp.request("GET", f"{gateway.address}/healthz") as response:
                    assert response.status == 200
                    break
            except aiohttp.ClientError:
                await asyncio.sleep(0.01)
    assert log.stat().st_size - before < 10_000
