"""A listener that leaves and one that takes its place, on one socket: nobody is refused."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from http.client import HTTPConnection, HTTPMessage
from pathlib import Path
from socket import socket
from typing import NamedTuple

import pytest
from aiohttp import web

from holdfast.core.config.settings import GatewaySettings
from holdfast.core.ops.status import GatewaySnapshot, StatusReport
from holdfast.core.secrets import Secret
from holdfast.gateway.live.counters import Counters
from holdfast.server.auth.login import BrowserLogin
from holdfast.server.auth.viewers import ViewerTokens
from holdfast.server.http_listener import HttpListener
from holdfast.server.metrics import Metrics
from holdfast.store.sqlite.store import SqliteStore
from holdfast.system.clock import SystemClock


def listener(name: str, home: Path, *, inherited: Sequence[socket] = ()) -> HttpListener:
    """One whose only route says its name."""

    async def say(request: web.Request) -> web.Response:
        return web.Response(text=name)

    async def fresh() -> GatewaySnapshot:
        raise AssertionError("nobody asks for figures here")

    def document(snapshot: GatewaySnapshot) -> StatusReport:
        raise AssertionError("nobody asks for figures here")

    clock = SystemClock()
    return HttpListener(
        GatewaySettings(port=0),
        routes=[web.get("/name", say), web.post("/name", say)],
        metrics=Metrics(
            SqliteStore(home / "state.db"),
            fresh_snapshot=fresh,
            status_report=document,
            totals=Counters().totals,
            prices=dict,
        ),
        login=BrowserLogin(
            Secret("t"), viewers=ViewerTokens(home / "viewers", clock=clock), clock=clock
        ),
        ready=lambda: True,
        port_chosen=True,
        inherited=inherited,
    )


class Answer(NamedTuple):
    status: int
    headers: HTTPMessage
    body: bytes


class Kept:
    """One connection that is kept alive, and never opened again."""

    def __init__(self, address: str) -> None:
        self._connection = HTTPConnection(address.removeprefix("http://"), timeout=30)
        self._connection.connect()
        self._connection.auto_open = 0

    async def ask(self, method: str) -> Answer:
        return await asyncio.to_thread(self._ask, method)

    def _ask(self, method: str) -> Answer:
        self._connection.request(method, "/name")
        response = self._connection.getresponse()
        return Answer(response.status, response.headers, response.read())

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
async def open_() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


async def test_who_is_connected_to_a_listener_that_leaves_reads_on_and_is_else_sent_to_the_queue(
    tmp_path: Path, open_: AsyncExitStack
) -> None:
    """E4: 503, Retry-After and the end of the connection; nothing of the request was done."""
    first = await open_.enter_async_context(listener("first", tmp_path))
    reading, writing = Kept(first.address), Kept(first.address)
    for kept in (reading, writing):
        open_.callback(kept.close)
        assert (await kept.ask("POST")).body == b"first"
    await first.stop_accepting()
    read = await reading.ask("GET")
    assert (read.status, read.body) == (200, b"first")
    assert read.headers["Connection"] == "close"
    sent_away = await writing.ask("POST")
    assert sent_away.status == 503
    assert sent_away.headers["Retry-After"] == "1"
    assert sent_away.headers["Connection"] == "close"
    assert b"restarting" in sent_away.body


async def test_who_connects_while_a_listener_leaves_is_served_by_the_one_that_follows(
    tmp_path: Path, open_: AsyncExitStack
) -> None:
    """E4: the queue is the kernel's, and outlives the process that made it."""
    first = await open_.enter_async_context(listener("first", tmp_path))
    await first.stop_accepting()
    waiting = asyncio.create_task(_ask_anew(first.address))
    second = listener("second", tmp_path, inherited=[sock.dup() for sock in first.sockets])
    await open_.enter_async_context(second)
    await first.__aexit__()
    assert second.address == first.address
    also = asyncio.create_task(_ask_anew(first.address))
    assert not waiting.done()  # it is not ready yet, and nobody is told to come back
    await second.start_accepting()
    assert [(await each).body for each in (waiting, also)] == [b"second", b"second"]
    await second.start_accepting()
    assert (await _ask_anew(second.address)).body == b"second"


async def _ask_anew(address: str) -> Answer:
    kept = Kept(address)
    try:
        return await kept.ask("POST")
    finally:
        kept.close()
