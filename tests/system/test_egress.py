"""The egress policy and its proxy: what is reached, by which protocols, and what is recorded."""

import asyncio
import base64
import ipaddress
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from holdfast.core.config.settings import WebSettings
from holdfast.core.errors import StoreError
from holdfast.core.ids import SessionId
from holdfast.core.net import IpAddress, is_public
from holdfast.system import egress as egress_module
from holdfast.system.egress import (
    EgressPolicy,
    EgressProxy,
    EgressRefused,
    HostContact,
    Resolver,
)

ANN = SessionId("s_ann")
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class OriginServer:
    """A server that answers every request, and records them."""

    def __init__(self) -> None:
        self.answer = OK
        self.requests: list[bytes] = []
        self.port = 0

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
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
    word = base64.b64encode(f"{ANN}:{egress.password(ANN)}".encode()).decode()
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
    async with EgressProxy(EgressPolicy(is_allowed=allow_all)) as egress:
        target = f"http://127.0.0.1:{origin.port}/"
        for head in ("", "Proxy-Authorization: Basic YTpi\r\n", "Proxy-Authorization: \xff\r\n"):
            assert " 407 " in await send(egress, f"GET {target} HTTP/1.1\r\n{head}\r\n")
        assert origin.requests == []


async def test_the_password_is_not_forwarded(origin: OriginServer) -> None:
    async with EgressProxy(EgressPolicy(is_allowed=allow_all)) as egress:
        target = f"http://127.0.0.1:{origin.port}/a?b"
        answer = await send(
            egress, f"GET {target} HTTP/1.1\r\n{authorization(egress)}Host: x\r\n\r\n"
        )
        assert answer.endswith("ok")
    assert origin.requests == [
        f"GET /a?b HTTP/1.1\r\nhost: 127.0.0.1:{origin.port}\r\nconnection: close\r\n\r\n".encode()
    ]


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
    async with EgressProxy(EgressPolicy(is_allowed=allow_all)) as egress:
        answer = await send(egress, f"GET {target} HTTP/1.1\r\n{authorization(egress)}\r\n")
    assert answer.startswith(("HTTP/1.1 400 ", "HTTP/1.1 502 "))


@pytest.mark.parametrize("target", ["a", "a:", ":443", "a:0", "a:65536", "a:²", "a:" + "9" * 5000])
async def test_a_tunnel_to_an_invalid_target_is_refused_with_a_reason(target: str) -> None:
    async with EgressProxy(EgressPolicy(is_allowed=lambda address: False)) as egress:
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
    async with EgressProxy(EgressPolicy()) as egress:
        tunnel = f"CONNECT {host}:{origin.port} HTTP/1.1\r\n{authorization(egress)}\r\n"
        plain = f"GET http://{host}:{origin.port}/ HTTP/1.1\r\n{authorization(egress)}\r\n"
        for asked in (tunnel, plain):
            answer = await send(egress, asked)
            assert answer.startswith(("HTTP/1.1 403 ", "HTTP/1.1 502 ", "HTTP/1.1 400 "))
    assert origin.requests == []


async def test_a_silent_client_times_out(origin: OriginServer) -> None:
    """All programs on this machine can connect: a thousand idle clients would be a thousand
    sockets."""
    async with EgressProxy(EgressPolicy(is_allowed=allow_all), connect_limit=0.1) as egress:
        assert await send(egress, "GET http://127.0.0.1/ HTTP/1.1\r\nX: ") == ""
        assert await send(egress, "") == ""


async def test_an_endless_request_head_is_refused() -> None:
    async with EgressProxy(EgressPolicy(is_allowed=allow_all)) as egress:
        assert await send(egress, "GET / HTTP/1.1\r\nX: " + "x" * 200_000) == ""


async def test_an_invalid_response_ends_the_request(origin: OriginServer) -> None:
    async with EgressProxy(EgressPolicy(is_allowed=allow_all)) as egress:
        for origin.answer in (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000, b"", b"nonsense"):
            target = f"http://127.0.0.1:{origin.port}/"
            assert await send(egress, f"GET {target} HTTP/1.1\r\n{authorization(egress)}\r\n") == ""


@pytest.mark.parametrize("text", ["64:ff9b:1::7f00:1", "::7f00:1", "2001:0:1::1", "fec0::1"])
def test_private_addresses_in_other_notations_are_private(text: str) -> None:
    assert not is_public(ipaddress.ip_address(text))


class Recorded(list[HostContact]):
    """Collects what the policy records."""

    async def __call__(self, contact: HostContact) -> None:
        self.append(contact)

    @property
    def outcomes(self) -> list[tuple[str, bool]]:
        return [(contact.host, not contact.refused) for contact in self]


def resolve_to(*addresses: str, **names: str) -> Resolver:
    """A resolver that knows these names, and otherwise always answers with these addresses."""

    async def resolve(host: str, port: int) -> list[str]:
        return [names[host]] if host in names else list(addresses) or [host]

    return resolve


@asynccontextmanager
async def session_proxy(policy: EgressPolicy, path: Path) -> AsyncIterator[Path]:
    """A proxy that serves one session on a unix socket."""
    proxy = EgressProxy(policy)
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(str(path))
    await proxy.listen(ANN, sock)
    try:
        yield path
    finally:
        await proxy.close()


async def exchange(path: Path, *pieces: tuple[bytes, int]) -> tuple[bytes, bytes]:
    """Send each piece and read that many bytes; the last answer, and the rest until the end."""
    reader, writer = await asyncio.open_unix_connection(str(path))
    answer = b""
    try:
        async with asyncio.timeout(10):
            for piece, size in pieces:
                writer.write(piece)
                answer = await reader.readexactly(size)
            return answer, await reader.read()
    finally:
        writer.close()


def socks_request(host: str, port: int, *, command: int = 1) -> bytes:
    name = host.encode()
    return bytes((5, command, 0, 3, len(name))) + name + port.to_bytes(2, "big")


async def test_socks_names_are_resolved_by_the_proxy(origin: OriginServer, tmp_path: Path) -> None:
    policy = EgressPolicy(is_allowed=allow_all, resolve=resolve_to(site="127.0.0.1"))
    async with session_proxy(policy, tmp_path / "sock") as path:
        greeting, request = (b"\x05\x01\x00", 2), (socks_request("site", origin.port), 10)
        reader, writer = await asyncio.open_unix_connection(str(path))
        for piece, size in (greeting, request):
            writer.write(piece)
            answer = await reader.readexactly(size)
        assert answer[:2] == b"\x05\x00"
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        assert await reader.read() == OK
        writer.close()


@pytest.mark.parametrize(
    ("request_bytes", "code"),
    [
        (socks_request("127.0.0.1", 80), 2),
        (b"\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50", 2),
        (b"\x05\x01\x00\x04" + ipaddress.ip_address("::ffff:10.0.0.1").packed + b"\x00\x50", 2),
        (socks_request("denied.example", 80), 2),
        (socks_request("site", 80, command=2), 7),
        (b"\x05\x01\x00\x09" + b"\x00" * 20, 8),
        (socks_request("site", 0), 1),
    ],
)
async def test_socks_requests_are_refused_with_a_code(
    tmp_path: Path, request_bytes: bytes, code: int
) -> None:
    policy = EgressPolicy(web=lambda: WebSettings(deny=("denied.example",)))
    async with session_proxy(policy, tmp_path / "sock") as path:
        answer, rest = await exchange(path, (b"\x05\x01\x00", 2), (request_bytes, 10))
    assert (answer[1], rest) == (code, b"")


async def test_a_browser_cannot_use_socks_without_a_password(origin: OriginServer) -> None:
    async with EgressProxy(EgressPolicy(is_allowed=allow_all)) as egress:
        assert await send(egress, "\x05\x01\x00") == "\x05\xff"
    assert origin.requests == []


@pytest.mark.parametrize(
    ("host", "allow", "deny", "reached"),
    [
        ("example.org", (), (), True),
        ("example.org", ("example.org",), (), True),
        ("EXAMPLE.org.", ("example.org",), (), True),
        ("www.example.org", ("example.org",), (), False),
        ("www.example.org", ("*.example.org",), (), True),
        ("example.org", ("*.example.org",), (), True),
        ("notexample.org", ("*.example.org",), (), False),
        ("example.org", (), ("*.example.org",), False),
        ("a.b.example.org", ("*",), ("*.example.org",), False),
        ("example.com", ("*",), ("*.example.org",), True),
        ("bücher.example", (), ("xn--bcher-kva.example",), False),
        ("xn--bcher-kva.example", (), ("bücher.example",), False),
        ("93.184.215.14", ("*.example.org",), (), False),
    ],
)
async def test_the_rules_of_web_decide_by_host(
    host: str, allow: tuple[str, ...], deny: tuple[str, ...], reached: bool
) -> None:
    recorded = Recorded()
    policy = EgressPolicy(
        web=lambda: WebSettings(allow=allow, deny=deny),
        record=recorded,
        resolve=resolve_to("93.184.215.14"),
    )
    if reached:
        await policy.addresses(ANN, host, 443)
    else:
        with pytest.raises(EgressRefused, match=r"web\.(allow|deny)"):
            await policy.addresses(ANN, host, 443)
    assert [ok for _, ok in recorded.outcomes] == [reached]


@pytest.mark.parametrize("host", ["0x08080808", "134744072", "8.8.8.8", "dns.example"])
async def test_a_denied_address_is_denied_in_every_notation(host: str) -> None:
    policy = EgressPolicy(web=lambda: WebSettings(deny=("8.8.8.8",)), resolve=resolve_to("8.8.8.8"))
    with pytest.raises(EgressRefused, match=r"web\.deny"):
        await policy.connect(ANN, host, 53)


async def test_a_name_is_checked_by_the_address_that_is_connected_to() -> None:
    """DNS rebinding: the name looks public, and resolves to a private address."""
    for address in ("127.0.0.1", "169.254.169.254", "::ffff:10.1.2.3", "fd00::1"):
        policy = EgressPolicy(resolve=resolve_to(address))
        with pytest.raises(EgressRefused, match="private address"):
            await policy.connect(ANN, "public.example", 80)


async def test_each_host_of_a_session_is_recorded_once(origin: OriginServer) -> None:
    recorded = Recorded()
    policy = EgressPolicy(
        record=recorded,
        web=lambda: WebSettings(deny=("denied.example",)),
        is_allowed=allow_all,
        resolve=resolve_to("127.0.0.1"),
    )
    for _ in range(2):
        _, writer = await policy.connect(ANN, "Site.Example", origin.port)
        writer.close()
        with pytest.raises(EgressRefused):
            await policy.connect(ANN, "denied.example", 443)
    _, writer = await policy.connect(SessionId("s_ben"), "site.example", origin.port)
    writer.close()
    expected = [("site.example", True), ("denied.example", False), ("site.example", True)]
    assert recorded.outcomes == expected
    assert [contact.session_id for contact in recorded] == [ANN, ANN, "s_ben"]


async def test_a_name_without_an_address_is_recorded_too() -> None:
    """Its name server has seen it, and whatever is in it."""

    async def resolve(host: str, port: int) -> list[str]:
        raise OSError("Name or service not known")

    recorded = Recorded()
    policy = EgressPolicy(record=recorded, resolve=resolve)
    for _ in range(2):
        with pytest.raises(OSError, match="not known"):
            await policy.addresses(ANN, "some-text.example", 443)
    assert recorded.outcomes == [("some-text.example", False)]


async def test_many_hosts_of_a_session_do_not_fill_the_audit() -> None:
    recorded = Recorded()
    policy = EgressPolicy(record=recorded, resolve=resolve_to("93.184.215.14"))
    for number in range(2000):
        await policy.addresses(ANN, f"h{number}.example", 443)
    assert len(recorded) == egress_module.MAX_RECORDED_HOSTS


async def test_a_host_that_cannot_be_recorded_is_not_reached(origin: OriginServer) -> None:
    async def fail(contact: HostContact) -> None:
        raise StoreError("the disk is full")

    policy = EgressPolicy(record=fail, is_allowed=allow_all)
    async with EgressProxy(policy) as egress:
        target = f"http://127.0.0.1:{origin.port}/"
        for _ in range(2):
            answer = await send(egress, f"GET {target} HTTP/1.1\r\n{authorization(egress)}\r\n")
            assert answer.startswith("HTTP/1.1 502 ") and "disk is full" in answer
    assert origin.requests == []


async def test_a_request_cannot_name_another_host_than_the_one_that_was_checked(
    origin: OriginServer,
) -> None:
    async with EgressProxy(EgressPolicy(is_allowed=allow_all)) as egress:
        target = f"http://127.0.0.1:{origin.port}/"
        head = f"Host: denied.example\r\n{authorization(egress)}"
        await send(egress, f"GET {target} HTTP/1.1\r\n{head}\r\n")
    assert b"denied.example" not in origin.requests[0]


async def test_a_session_has_a_limited_number_of_connections(
    origin: OriginServer, tmp_path: Path
) -> None:
    policy = EgressPolicy(is_allowed=allow_all)
    tunnel = f"CONNECT 127.0.0.1:{origin.port} HTTP/1.1\r\n\r\n".encode()
    async with session_proxy(policy, tmp_path / "sock") as path:
        opened: list[asyncio.StreamWriter] = []

        async def open_tunnel() -> bytes:
            reader, writer = await asyncio.open_unix_connection(str(path))
            opened.append(writer)
            writer.write(tunnel)
            return (await reader.readuntil(b"\r\n"))[9:12]

        for _ in range(egress_module.MAX_PER_SESSION):
            assert await open_tunnel() == b"200"
        assert await open_tunnel() == b"503"
        for writer in opened[-2:]:
            writer.close()
        async with asyncio.timeout(10):
            while await open_tunnel() != b"200":
                opened.pop().close()
        for writer in opened:
            writer.close()


async def test_slow_lookups_of_a_session_do_not_delay_another(origin: OriginServer) -> None:
    """A name server that does not answer keeps few threads busy, and none of the gateway's."""
    slow = asyncio.Event()
    looked_up: list[str] = []

    async def resolve(host: str, port: int) -> list[str]:
        looked_up.append(host)
        if host == "slow.example":
            await slow.wait()
        return ["127.0.0.1"]

    policy = EgressPolicy(is_allowed=allow_all, resolve=resolve)
    waiting = [asyncio.create_task(policy.addresses(ANN, "slow.example", 80)) for _ in range(50)]
    async with asyncio.timeout(10):
        while len(looked_up) < 4:
            await asyncio.sleep(0)
    assert await policy.addresses(SessionId("s_ben"), "site.example", 80) == ["127.0.0.1"]
    assert looked_up == ["slow.example"] * 4 + ["site.example"]
    slow.set()
    await asyncio.gather(*waiting)


async def test_clients_that_send_nothing_do_not_take_the_connections_of_other_sessions(
    origin: OriginServer, tmp_path: Path
) -> None:
    proxy = EgressProxy(EgressPolicy(is_allowed=allow_all))
    paths = {ANN: tmp_path / "ann", SessionId("s_ben"): tmp_path / "ben"}
    for session_id, path in paths.items():
        sock = socket.socket(socket.AF_UNIX)
        sock.bind(str(path))
        await proxy.listen(session_id, sock)
    idle = []
    for _ in range(3 * egress_module.MAX_PER_SESSION):
        idle.append(await asyncio.open_unix_connection(str(paths[ANN])))
    async with asyncio.timeout(10):
        while not any(reader.at_eof() for reader, _ in idle):
            await asyncio.sleep(0.01)
    request = f"GET http://127.0.0.1:{origin.port}/ HTTP/1.1\r\n\r\n".encode()
    _, answer = await exchange(paths[SessionId("s_ben")], (request, 0))
    assert answer.endswith(b"ok")
    for _, writer in idle:
        writer.close()
    await proxy.close()
