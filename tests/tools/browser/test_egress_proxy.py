"""The egress proxy of the browser refuses private addresses and requests without its password."""

import asyncio
import base64
import ipaddress
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from holdfast.core.net import IpAddress, is_public
from holdfast.tools.browser.egress_proxy import EgressProxy

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class OriginServer:
    """A server that answers every request, and records them."""

    def __init__(self) -> None:
        self.answer = OK
        self.requests: list[bytes] = []
        self.port = 0

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(self.answer)
        await writer.drain()
        writer.close()

    @asynccontextmanager
    async def open(self) -> AsyncIterator["OriginServer"]:
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()


@pytest.fixture
async def origin() -> AsyncIterator[OriginServer]:
    async with OriginServer().open() as origin:
        yield origin


def allow_all(address: IpAddress) -> bool:
    return True


def authorization(egress: EgressProxy) -> str:
    word = base64.b64encode(f"{egress.username}:{egress.password}".encode()).decode()
    return f"Proxy-Authorization: Basic {word}\r\n"


async def send(egress: EgressProxy, text: str) -> str:
    """Send this to the proxy; its response until the connection closes."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", int(egress.address.rpartition(":")[2])
    )
    try:
        writer.write(text.encode("latin-1"))
        async with asyncio.timeout(10):
            return (await reader.read()).decode("latin-1")
    except ConnectionResetError:
        return ""
    finally:
        writer.close()


async def test_a_request_without_the_password_is_refused(origin: OriginServer) -> None:
    async with EgressProxy(allow_all) as egress:
        target = f"http://127.0.0.1:{origin.port}/"
        for head in ("", "Proxy-Authorization: Basic YTpi\r\n", "Proxy-Authorization: \xff\r\n"):
            assert " 407 " in await send(egress, f"GET {target} HTTP/1.1\r\n{head}\r\n")
        assert origin.requests == []


async def test_the_password_is_not_forwarded(origin: OriginServer) -> None:
    async with EgressProxy(allow_all) as egress:
        target = f"http://127.0.0.1:{origin.port}/a?b"
        answer = await send(
            egress, f"GET {target} HTTP/1.1\r\n{authorization(egress)}Host: x\r\n\r\n"
        )
        assert answer.endswith("ok")
    assert origin.requests == [b"GET /a?b HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"]


@pytest.mark.parametrize(
    "target",
    [
        "http://127.0.0.1:99999/",
        "http://[::1/",
        "http://[nonsense]/",
        "http://a\0b/",
        "http://\xe9.example.invalid:x/",
        "/etc/passwd",
        "file:///etc/passwd",
        "http:///",
        "*",
        "",
    ],
)
async def test_an_invalid_target_is_refused_with_a_reason(target: str) -> None:
    async with EgressProxy(allow_all) as egress:
        answer = await send(egress, f"GET {target} HTTP/1.1\r\n{authorization(egress)}\r\n")
    assert answer.startswith(("HTTP/1.1 400 ", "HTTP/1.1 502 "))


@pytest.mark.parametrize("target", ["a", "a:", ":443", "a:0", "a:65536", "a:²", "a:" + "9" * 5000])
async def test_a_tunnel_to_an_invalid_target_is_refused_with_a_reason(target: str) -> None:
    async with EgressProxy(lambda address: False) as egress:
        answer = await send(egress, f"CONNECT {target} HTTP/1.1\r\n{authorization(egress)}\r\n")
    assert answer.startswith(("HTTP/1.1 400 ", "HTTP/1.1 403 ", "HTTP/1.1 502 "))


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "0",
        "localhost",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[fe80::1%lo]",
        "169.254.169.254",
        "[fd00::1]",
        "10.0.0.1",
        "100.64.0.1",
    ],
)
async def test_private_addresses_are_not_reached_however_they_are_spelled(
    origin: OriginServer, host: str
) -> None:
    async with EgressProxy(is_public) as egress:
        tunnel = f"CONNECT {host}:{origin.port} HTTP/1.1\r\n{authorization(egress)}\r\n"
        plain = f"GET http://{host}:{origin.port}/ HTTP/1.1\r\n{authorization(egress)}\r\n"
        for asked in (tunnel, plain):
            answer = await send(egress, asked)
            assert answer.startswith(("HTTP/1.1 403 ", "HTTP/1.1 502 ", "HTTP/1.1 400 "))
    assert origin.requests == []


async def test_a_silent_client_times_out(origin: OriginServer) -> None:
    """All programs on this machine can connect: a thousand idle clients would be a thousand
    sockets."""
    async with EgressProxy(allow_all, connect_limit=0.1) as egress:
        assert await send(egress, "GET http://127.0.0.1/ HTTP/1.1\r\nX: ") == ""
        assert await send(egress, "") == ""


async def test_an_endless_request_head_is_refused() -> None:
    async with EgressProxy(allow_all) as egress:
        assert await send(egress, "GET / HTTP/1.1\r\nX: " + "x" * 200_000) == ""


async def test_an_invalid_response_ends_the_request(origin: OriginServer) -> None:
    async with EgressProxy(allow_all) as egress:
        for origin.answer in (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000, b"", b"nonsense"):
            target = f"http://127.0.0.1:{origin.port}/"
            assert await send(egress, f"GET {target} HTTP/1.1\r\n{authorization(egress)}\r\n") == ""


@pytest.mark.parametrize("text", ["64:ff9b:1::7f00:1", "::7f00:1", "2001:0:1::1", "fec0::1"])
def test_private_addresses_in_other_notations_are_private(text: str) -> None:
    assert not is_public(ipaddress.ip_address(text))
