"""Handover from one listener to its successor on the same socket: no connection is refused."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from http.client import HTTPConnection, HTTPMessage
from pathlib import Path
from socket import socket
from typing import NamedTuple

import pytest
from aiohttp import web
from tests.support.logins import make_login

from holdfast.core.config.settings import GatewaySettings
from holdfast.server.http_listener import HttpListener
from holdfast.system.clock import SystemClock


def named_listener(name: str, home: Path, *, inherited: Sequence[socket] = ()) -> HttpListener:
    """A listener whose only route returns its name."""

    async def say(request: web.Request) -> web.Response:
        return web.Response(text=name)

    async def no_metrics() -> str:
        raise AssertionError("no metrics are requested here")

    clock = SystemClock()
    return HttpListener(
        GatewaySettings(port=0),
        routes=[web.get("/name", say), web.post("/name", say)],
        metrics=no_metrics,
        login=make_login(home, clock=clock),
        may_read=lambda principal: True,
        ready=lambda: True,
        port_chosen=True,
        inherited=inherited,
    )


class HttpAnswer(NamedTuple):
    status: int
    headers: HTTPMessage
    body: bytes


class PersistentConnection:
    """One keep-alive connection, which is never reopened."""

    def __init__(self, address: str) -> None:
        self._connection = HTTPConnection(address.removeprefix("http://"), timeout=30)
        self._connection.connect()
        self._connection.auto_open = 0

    async def ask(self, method: str) -> HttpAnswer:
        return await asyncio.to_thread(self._ask, method)

    def _ask(self, method: str) -> HttpAnswer:
        self._connection.request(method, "/name")
        response = self._connection.getresponse()
        return HttpAnswer(response.status, response.headers, response.read())

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
async def exit_stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


async def test_a_stopping_listener_answers_reads_and_refuses_writes_with_retry_after(
    tmp_path: Path, exit_stack: AsyncExitStack
) -> None:
    """E4: 503, Retry-After and the end of the connection; the request had no effect."""
    first = await exit_stack.enter_async_context(named_listener("first", tmp_path))
    reading, writing = PersistentConnection(first.address), PersistentConnection(first.address)
    for connection in (reading, writing):
        exit_stack.callback(connection.close)
        assert (await connection.ask("POST")).body == b"first"
    await first.stop_accepting()
    read = await reading.ask("GET")
    assert (read.status, read.body) == (200, b"first")
    assert read.headers["Connection"] == "close"
    refused = await writing.ask("POST")
    assert refused.status == 503
    assert refused.headers["Retry-After"] == "1"
    assert refused.headers["Connection"] == "close"
    assert b"restarting" in refused.body


async def test_a_connection_made_while_a_listener_stops_is_served_by_its_successor(
    tmp_path: Path, exit_stack: AsyncExitStack
) -> None:
    """E4: the accept queue belongs to the kernel, and survives the process that made it."""
    first = await exit_stack.enter_async_context(named_listener("first", tmp_path))
    await first.stop_accepting()
    waiting = asyncio.create_task(_ask_on_new_connection(first.address))
    second = named_listener("second", tmp_path, inherited=[sock.dup() for sock in first.sockets])
    await exit_stack.enter_async_context(second)
    await first.__aexit__()
    assert second.address == first.address
    also = asyncio.create_task(_ask_on_new_connection(first.address))
    assert not waiting.done()  # it is not ready yet, and no client is refused
    await second.start_accepting()
    assert [(await each).body for each in (waiting, also)] == [b"second", b"second"]
    await second.start_accepting()
    assert (await _ask_on_new_connection(second.address)).body == b"second"


async def _ask_on_new_connection(address: str) -> HttpAnswer:
    connection = PersistentConnection(address)
    try:
        return await connection.ask("POST")
    finally:
        connection.close()
