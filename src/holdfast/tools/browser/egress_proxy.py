"""A proxy on loopback through which a browser reaches the network: it connects to permitted
addresses only.

A page asks for more than the address that was opened: pictures, scripts, redirects, sockets,
names that resolve to something else a moment later. All of it goes through here, and the check
is made on the address that is connected to.
"""

import asyncio
import base64
import secrets
from collections.abc import Iterable
from contextlib import suppress
from typing import Self
from urllib.parse import urlsplit

from holdfast.core.net import PRIVATE_ADDRESS_REFUSED, AddressPolicy, parse_ip

_MAX_HEAD = 64 * 1024
_CHUNK = 64 * 1024
_HOP_HEADERS = frozenset({"proxy-authorization", "proxy-connection", "connection", "keep-alive"})

Pipe = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class ProxyRefusal(Exception):
    """A request that goes nowhere: the status to say so with, and why."""

    def __init__(self, status: str, why: str) -> None:
        super().__init__(why)
        self.status = status


class EgressProxy:
    """Owns a listener on loopback and its open connections, while its context is open.

    Other programs of this machine do not know its password.
    """

    def __init__(self, is_allowed: AddressPolicy, *, connect_limit: float = 20) -> None:
        self._is_allowed = is_allowed
        self._connect_limit = connect_limit
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.username = "browser"
        self.password = secrets.token_urlsafe(24)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._on_connect, "127.0.0.1", 0, limit=_MAX_HEAD)
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    @property
    def address(self) -> str:
        assert self._server is not None, "the way out is open only inside its context"
        port: int = self._server.sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}"

    def _on_connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve((reader, writer)))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, browser: Pipe) -> None:
        try:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                await self._handle_request(browser)
        finally:
            browser[1].close()

    async def _handle_request(self, browser: Pipe) -> None:
        # Any program on this machine can connect; one that sends nothing must not hold a socket.
        async with asyncio.timeout(self._connect_limit):
            head = await browser[0].readuntil(b"\r\n\r\n")
        try:
            method, target, headers = _parse_request(head)
            self._authenticate(headers)
            if method == "CONNECT":
                await self._tunnel(browser, target)
            else:
                await self._forward(browser, method, target, headers)
        except ProxyRefusal as refused:
            browser[1].write(_refusal_response(refused))
            await browser[1].drain()

    def _authenticate(self, headers: list[tuple[str, str]]) -> None:
        given = next((value for name, value in headers if name == "proxy-authorization"), "")
        whole = f"{self.username}:{self.password}".encode()
        expected = "Basic " + base64.b64encode(whole).decode()
        if not secrets.compare_digest(given.encode(), expected.encode()):
            raise ProxyRefusal(
                "407 Proxy Authentication Required", "this way out is a browser's own"
            )

    async def _tunnel(self, browser: Pipe, target: str) -> None:
        host, _, port = target.rpartition(":")
        site = await self._connect(host.strip("[]"), port)
        browser[1].write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await _relay(browser, site)

    async def _forward(
        self, browser: Pipe, method: str, target: str, headers: list[tuple[str, str]]
    ) -> None:
        """One request and its answer: a second one on this connection might be for another
        host, so both sides are told that there will be none."""
        host, port, path = _split_target(target)
        site = await self._connect(host, port)
        site[1].write(_format_head(f"{method} {path} HTTP/1.1", headers))
        answer = asyncio.ensure_future(self._forward_response(site, browser))
        try:
            await _copy(browser[0], site[1])
            await answer
        finally:
            answer.cancel()
            site[1].close()

    async def _forward_response(self, site: Pipe, browser: Pipe) -> None:
        try:
            first, headers = _parse_head(await site[0].readuntil(b"\r\n\r\n"))
            browser[1].write(_format_head(first, headers))
            await _copy(site[0], browser[1])
        finally:
            # Also where there was no answer: a browser without a response waits forever.
            browser[1].close()

    async def _connect(self, host: str, port: str) -> Pipe:
        if not port.isdecimal() or not 0 < int(port[:6]) < 65536:
            raise ProxyRefusal("400 Bad Request", f"{port[:20]!r} is no port")
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_limit):
                found = await loop.getaddrinfo(host, int(port), type=1)
                return await self._connect_first([str(info[4][0]) for info in found], int(port))
        except TimeoutError:
            raise ProxyRefusal("504 Gateway Timeout", f"{host} did not answer") from None
        except (OSError, UnicodeError) as error:
            raise ProxyRefusal("502 Bad Gateway", f"{host} cannot be reached: {error}") from None

    async def _connect_first(self, addresses: Iterable[str], port: int) -> Pipe:
        refused: list[str] = []
        failure: OSError | None = None
        for text in dict.fromkeys(addresses):
            address = parse_ip(text)
            if address is None or not self._is_allowed(address):
                refused.append(text)
                continue
            try:
                return await asyncio.open_connection(text, port, limit=_MAX_HEAD)
            except OSError as error:
                failure = error
        if failure is not None:
            raise failure
        raise ProxyRefusal("403 Forbidden", f"{', '.join(refused)} {PRIVATE_ADDRESS_REFUSED}")


def _parse_request(head: bytes) -> tuple[str, str, list[tuple[str, str]]]:
    first, headers = _parse_head(head)
    method, _, rest = first.partition(" ")
    target, _, version = rest.partition(" ")
    if not version.startswith("HTTP/1"):
        raise ProxyRefusal("400 Bad Request", "this is no HTTP/1 request")
    return method, target, headers


def _split_target(target: str) -> tuple[str, str, str]:
    """Host, port and path of a request to a proxy."""
    try:
        parts = urlsplit(target)
        host, port = parts.hostname, str(parts.port or 80)
    except ValueError:
        parts, host, port = urlsplit(""), None, ""
    if parts.scheme != "http" or not host:
        raise ProxyRefusal("400 Bad Request", f"{target[:200]} is no address of a proxy's request")
    return host, port, (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _parse_head(head: bytes) -> tuple[str, list[tuple[str, str]]]:
    first, *rest = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    pairs = (line.partition(":") for line in rest)
    return first, [(name.strip().lower(), value.strip()) for name, _, value in pairs]


def _format_head(first: str, headers: Iterable[tuple[str, str]]) -> bytes:
    forwarded = [f"{name}: {value}" for name, value in headers if name not in _HOP_HEADERS]
    return "\r\n".join([first, *forwarded, "connection: close", "", ""]).encode("latin-1")


def _refusal_response(refused: ProxyRefusal) -> bytes:
    body = str(refused).encode()
    head = f"HTTP/1.1 {refused.status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
    if refused.status.startswith("407"):
        head += 'Proxy-Authenticate: Basic realm="browser"\r\n'
    head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


async def _relay(one: Pipe, other: Pipe) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_copy(one[0], other[1]))
            group.create_task(_copy(other[0], one[1]))
    finally:
        other[1].close()


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await source.read(_CHUNK):
            sink.write(piece)
            await sink.drain()
        if sink.can_write_eof():
            sink.write_eof()
