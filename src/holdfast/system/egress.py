"""The path on which agents reach the network: one policy for commands, browsers and `fetch`, and
the proxy for those that are other processes.

A page or a program asks for more than one address: redirects, scripts, names that resolve to
something else a moment later. All of it passes here, and the check is made on the address that is
connected to.
"""

import asyncio
import base64
import contextlib
import ipaddress
import logging
import secrets
import socket
import struct
import threading
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from typing import Self
from urllib.parse import urlsplit

import msgspec

from holdfast.core.config.settings import WebSettings
from holdfast.core.errors import HoldfastError
from holdfast.core.ids import SessionId
from holdfast.core.net import (
    PRIVATE_ADDRESS_REFUSED,
    AddressPolicy,
    host_refusal,
    normalize_host,
    parse_ip,
)
from holdfast.system.addresses import is_external

log = logging.getLogger(__name__)

MAX_PER_SESSION = 128  # open connections; a browser or npm uses some dozens
MAX_CONNECTIONS = 512  # of all sessions: each has two descriptors of the gateway
_MAX_HEAD = 64 * 1024
_CHUNK = 64 * 1024
MAX_RECORDED_HOSTS = 500  # of one session: an agent can make up any number of names
_LOOKUP_THREADS, _SESSION_LOOKUPS = 16, 4
_MAX_SESSIONS = 1000  # whose hosts are remembered
_HALF_CLOSED = 600.0  # seconds that one direction may outlive the other
_HOP_HEADERS = frozenset({"proxy-authorization", "proxy-connection", "connection", "keep-alive"})
_PROXY_REALM = "holdfast"

_SOCKS_VERSION = 5
_SOCKS_CONNECT = 1
_SOCKS_IPV4, _SOCKS_NAME, _SOCKS_IPV6 = 1, 3, 4
_SOCKS_NO_PASSWORD, _SOCKS_NO_METHOD = 0, 0xFF
_SOCKS_OK, _SOCKS_FAILED, _SOCKS_NOT_ALLOWED, _SOCKS_UNREACHABLE = 0, 1, 2, 4
_SOCKS_NO_SUCH_COMMAND, _SOCKS_NO_SUCH_ADDRESS = 7, 8

Pipe = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Resolver = Callable[[str, int], Awaitable[list[str]]]


class EgressRefused(Exception):
    """A host or an address that may not be reached; the text says why."""


class HostContact(msgspec.Struct, frozen=True, kw_only=True):
    """The first contact of a session with a host, or the first refusal of one."""

    session_id: SessionId
    host: str
    port: int
    refused: str = ""  # why; "": it was allowed


class _Lookups:
    """Resolves names in a limited number of threads of its own: slow lookups of agents delay
    neither those of the gateway nor its end."""

    def __init__(self) -> None:
        self._free_threads = asyncio.Semaphore(_LOOKUP_THREADS)

    async def __call__(self, host: str, port: int) -> list[str]:
        await self._free_threads.acquire()
        loop = asyncio.get_running_loop()
        found: asyncio.Future[list[str]] = loop.create_future()

        def end(addresses: list[str], error: OSError | UnicodeError | None) -> None:
            self._free_threads.release()  # also if its caller has stopped waiting
            if found.done():
                return
            if error is None:
                found.set_result(addresses)
            else:
                found.set_exception(error)

        def look_up() -> None:
            addresses: list[str] = []
            failure: OSError | UnicodeError | None = None
            try:
                answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
                addresses = list(dict.fromkeys(str(info[4][0]) for info in answers))
            except (OSError, UnicodeError) as error:
                failure = error
            with contextlib.suppress(RuntimeError):  # the gateway has ended
                loop.call_soon_threadsafe(end, addresses, failure)

        threading.Thread(target=look_up, name="egress lookup", daemon=True).start()
        return await found


class _SessionContacts:
    """The recorded hosts of a session, and the lookups that it may do at the same time."""

    def __init__(self) -> None:
        self.recorded: set[tuple[str, bool]] = set()
        self.lookups = asyncio.Semaphore(_SESSION_LOOKUPS)


async def _record_nothing(contact: HostContact) -> None: ...


class EgressPolicy:
    """Decides what may be reached, and records the hosts of each session.

    `web` returns the settings that apply now. `record` is awaited before the connection is made,
    once for each host of a session; if it raises, the host is not reached.
    """

    def __init__(
        self,
        *,
        web: Callable[[], WebSettings] = WebSettings,
        record: Callable[[HostContact], Awaitable[None]] = _record_nothing,
        is_allowed: AddressPolicy = is_external,
        resolve: Resolver | None = None,
    ) -> None:
        self._web, self._record, self._resolve = web, record, resolve or _Lookups()
        self._is_allowed = is_allowed
        self._sessions: OrderedDict[SessionId, _SessionContacts] = OrderedDict()

    async def addresses(
        self, session_id: SessionId, host: str, port: int, *, allow_private: bool = False
    ) -> list[str]:
        """The addresses of a host that may be connected to, after the contact was recorded. Raises
        `EgressRefused`, or `OSError` if it has none at all."""
        name = normalize_host(host)
        refusal = host_refusal(name, self._web())
        allowed: list[str] = []
        if not refusal:  # a name that is refused is not even looked up
            try:
                async with self._contacts(session_id).lookups:
                    found = await self._resolve(host, port)
            except (OSError, UnicodeError) as error:
                # The name server of a domain sees the name also where it has no address.
                await self._record_once(session_id, name, port, f"not resolved: {error}")
                raise
            refusals = {
                text: self.address_refusal(text, allow_private=allow_private) for text in found
            }
            allowed = [text for text, why in refusals.items() if not why]
            if not refusals:
                raise OSError(f"{host} has no address")
            refusal = "" if allowed else "; ".join(refusals.values())
        await self._record_once(session_id, name, port, refusal)
        if refusal:
            raise EgressRefused(refusal)
        return allowed

    async def connect(
        self, session_id: SessionId, host: str, port: int, *, allow_private: bool = False
    ) -> Pipe:
        """A connection to a host that may be reached. Raises `EgressRefused` or `OSError`."""
        failure: OSError | None = None
        for address in await self.addresses(session_id, host, port, allow_private=allow_private):
            try:
                return await asyncio.open_connection(address, port, limit=_MAX_HEAD)
            except OSError as error:
                failure = error
        raise failure or OSError(f"{host} has no address")

    def address_refusal(self, text: str, *, allow_private: bool = False) -> str:
        """Why a resolved address may not be reached; "": it may. `web.deny` also holds for
        addresses, however a host spells them."""
        address = parse_ip(text)
        if address is None or not (allow_private or self._is_allowed(address)):
            return f"{text} {PRIVATE_ADDRESS_REFUSED}"
        return host_refusal(str(address), WebSettings(deny=self._web().deny))

    def _contacts(self, session_id: SessionId) -> _SessionContacts:
        contacts = self._sessions.setdefault(session_id, _SessionContacts())
        self._sessions.move_to_end(session_id)
        while len(self._sessions) > _MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return contacts

    async def _record_once(self, session_id: SessionId, host: str, port: int, refusal: str) -> None:
        known = self._contacts(session_id).recorded
        if (host, bool(refusal)) in known or len(known) >= MAX_RECORDED_HOSTS:
            return
        known.add((host, bool(refusal)))
        try:
            contact = HostContact(session_id=session_id, host=host, port=port, refused=refusal)
            await self._record(contact)
        except BaseException:
            known.discard((host, bool(refusal)))  # the next attempt records it
            raise
        about = {"session": session_id, "host": host}
        if len(known) >= MAX_RECORDED_HOSTS:
            log.warning(
                "Session %s has contacted more than %s hosts; further ones are not recorded.",
                session_id,
                MAX_RECORDED_HOSTS,
                extra={"action": "egress_hosts_unrecorded", **about},
            )
        elif refusal:
            log.info(
                "Refused a connection to %s:%s: %s",
                host,
                port,
                refusal,
                extra={"action": "egress_refused", **about},
            )
        else:
            log.info("Contact with %s:%s", host, port, extra={"action": "egress_host", **about})


class _ProxyRefusal(Exception):
    """A request that is not forwarded: the status of the response, and the reason."""

    def __init__(self, status: str, why: str) -> None:
        super().__init__(why)
        self.status = status


class _Client(msgspec.Struct, frozen=True):
    """A connection to the proxy. `session_id` None: its password tells the session."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    session_id: SessionId | None


class EgressProxy:
    """Owns listeners and their connections: HTTP, CONNECT and SOCKS5 on the same socket.

    Sandboxes reach it by a unix socket of their session, which other programs of this machine
    cannot open. Browsers reach it by a port on loopback, with the password of their session.
    """

    def __init__(
        self, policy: EgressPolicy, *, allow_private: bool = False, connect_limit: float = 20
    ) -> None:
        self._policy, self._allow_private = policy, allow_private
        self._connect_limit = connect_limit
        self._key = secrets.token_bytes(32)
        self._servers: dict[SessionId | None, asyncio.Server] = {}
        self._connections: dict[asyncio.Task[None], SessionId | None] = {}
        self._open: Counter[SessionId | None] = Counter()

    async def __aenter__(self) -> Self:
        """With a listener on loopback, for clients with a password."""
        await self._listen(None, socket.create_server(("127.0.0.1", 0)))
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    @property
    def address(self) -> str:
        """Of the listener on loopback."""
        port: int = self._servers[None].sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}"

    def password(self, session_id: SessionId) -> str:
        """The password of a session, whose id is the user name; other programs do not know it."""
        import hmac  # noqa: PLC0415 - browsers only

        return hmac.new(self._key, session_id.encode(), "sha256").hexdigest()

    async def listen(self, session_id: SessionId, sock: socket.socket) -> None:
        """Serve a session on this bound socket, and no longer on an earlier one."""
        self._stop_listening(session_id)
        await self._listen(session_id, sock)

    async def close_session(self, session_id: SessionId) -> None:
        """Close the session's listener and its connections."""
        self._stop_listening(session_id)
        await _cancel(task for task, each in self._connections.items() if each == session_id)

    async def close(self) -> None:
        for session_id in list(self._servers):
            self._stop_listening(session_id)
        await _cancel(self._connections)

    async def _listen(self, session_id: SessionId | None, sock: socket.socket) -> None:
        def on_connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            # Those that are too many get a response, as long as they are not far too many.
            many = self._open[session_id] >= 2 * MAX_PER_SESSION
            if many or self._open.total() >= 2 * MAX_CONNECTIONS:
                return writer.transport.abort()
            self._open[session_id] += 1
            client = _Client(reader, writer, session_id)
            task = asyncio.get_running_loop().create_task(self._serve(client))
            self._connections[task] = session_id
            task.add_done_callback(self._on_end)

        start = asyncio.start_unix_server if sock.family == socket.AF_UNIX else asyncio.start_server
        # The kernel queues as many as a session may have: none is refused while this loop is busy.
        self._servers[session_id] = await start(
            on_connect, sock=sock, limit=_MAX_HEAD, backlog=2 * MAX_PER_SESSION
        )

    def _on_end(self, task: asyncio.Task[None]) -> None:
        session_id = self._connections.pop(task)
        self._open[session_id] -= 1
        if not self._open[session_id]:
            del self._open[session_id]

    def _stop_listening(self, session_id: SessionId | None) -> None:
        server = self._servers.pop(session_id, None)
        if server is not None:
            server.close()

    async def _serve(self, client: _Client) -> None:
        try:
            with contextlib.suppress(
                OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError
            ):
                async with asyncio.timeout(self._connect_limit):
                    first = await client.reader.readexactly(1)
                if first[0] == _SOCKS_VERSION:
                    await self._handle_socks(client)
                else:
                    await self._handle_http(client, first)
        finally:
            client.writer.close()

    async def _handle_http(self, client: _Client, first: bytes) -> None:
        # A client that sends nothing must not hold a socket.
        async with asyncio.timeout(self._connect_limit):
            head = first + await client.reader.readuntil(b"\r\n\r\n")
        try:
            method, target, headers = _parse_request(head)
            session_id = client.session_id or self._authenticate(headers)
            if method == "CONNECT":
                host, _, port = target.rpartition(":")
                site = await self._connect(client, session_id, host.strip("[]"), port)
                client.writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await _relay((client.reader, client.writer), site)
            else:
                await self._forward(client, session_id, method, target, headers)
        except _ProxyRefusal as refused:
            client.writer.write(_refusal_response(refused))
            await client.writer.drain()

    def _authenticate(self, headers: list[tuple[str, str]]) -> SessionId:
        given = next((value for name, value in headers if name == "proxy-authorization"), "")
        with contextlib.suppress(ValueError):
            decoded = base64.b64decode(given.removeprefix("Basic ")).decode()
            name, _, password = decoded.partition(":")
            if secrets.compare_digest(password.encode(), self.password(SessionId(name)).encode()):
                return SessionId(name)
        raise _ProxyRefusal(
            "407 Proxy Authentication Required", "this proxy needs the password of a session"
        )

    async def _handle_socks(self, client: _Client) -> None:
        """RFC 1928, for clients whose socket tells the session: browsers and their passwords use
        HTTP. The proxy resolves names."""
        reader, writer, session_id = client.reader, client.writer, client.session_id
        async with asyncio.timeout(self._connect_limit):
            methods = await reader.readexactly((await reader.readexactly(1))[0])
            if _SOCKS_NO_PASSWORD not in methods or session_id is None:
                return writer.write(bytes((_SOCKS_VERSION, _SOCKS_NO_METHOD)))
            writer.write(bytes((_SOCKS_VERSION, _SOCKS_NO_PASSWORD)))
            version, command, _, kind = await reader.readexactly(4)
            host = await _read_socks_host(reader, kind)
            (port,) = struct.unpack(">H", await reader.readexactly(2))
        if version != _SOCKS_VERSION or command != _SOCKS_CONNECT:
            return writer.write(_socks_reply(_SOCKS_NO_SUCH_COMMAND))
        if host is None:
            return writer.write(_socks_reply(_SOCKS_NO_SUCH_ADDRESS))
        try:
            site = await self._connect(client, session_id, host, str(port))
        except _ProxyRefusal as refused:
            code = {"403": _SOCKS_NOT_ALLOWED, "502": _SOCKS_UNREACHABLE}
            return writer.write(_socks_reply(code.get(refused.status[:3], _SOCKS_FAILED)))
        writer.write(_socks_reply(_SOCKS_OK))
        await _relay((reader, writer), site)

    async def _forward(
        self,
        client: _Client,
        session_id: SessionId,
        method: str,
        target: str,
        headers: list[tuple[str, str]],
    ) -> None:
        """One request and its response: a second one on this connection might be for another host,
        so both sides are told that there will be none."""
        host, port, path, authority = _split_target(target)
        site = await self._connect(client, session_id, host, port)
        # The host that was checked, and not another one that the client names here.
        own = [("host", authority), *(each for each in headers if each[0] != "host")]
        site[1].write(_format_head(f"{method} {path} HTTP/1.1", own))
        response = asyncio.ensure_future(_forward_response(site, client.writer))
        try:
            await _copy(client.reader, site[1])
            await response
        finally:
            response.cancel()
            site[1].close()

    async def _connect(self, client: _Client, session_id: SessionId, host: str, port: str) -> Pipe:
        if not port.isdecimal() or not 0 < int(port[:6]) < 65536:
            raise _ProxyRefusal("400 Bad Request", f"{port[:20]!r} is not a port")
        many = self._open[client.session_id] > MAX_PER_SESSION
        if many or self._open.total() > MAX_CONNECTIONS:
            raise _ProxyRefusal("503 Service Unavailable", "too many connections are open")
        try:
            async with asyncio.timeout(self._connect_limit):
                return await self._policy.connect(
                    session_id, host, int(port), allow_private=self._allow_private
                )
        except EgressRefused as refused:
            raise _ProxyRefusal("403 Forbidden", str(refused)) from None
        except TimeoutError:
            raise _ProxyRefusal("504 Gateway Timeout", f"{host} did not answer") from None
        except (OSError, UnicodeError, HoldfastError) as error:
            raise _ProxyRefusal("502 Bad Gateway", f"{host} cannot be reached: {error}") from None


async def _cancel(tasks: Iterable[asyncio.Task[None]]) -> None:
    cancelled = list(tasks)
    for task in cancelled:
        task.cancel()
    await asyncio.gather(*cancelled, return_exceptions=True)


async def _read_socks_host(reader: asyncio.StreamReader, kind: int) -> str | None:
    """None: the kind of address is not known."""
    if kind == _SOCKS_NAME:
        return (await reader.readexactly((await reader.readexactly(1))[0])).decode("latin-1")
    if kind == _SOCKS_IPV4:
        return str(ipaddress.IPv4Address(await reader.readexactly(4)))
    if kind == _SOCKS_IPV6:
        return str(ipaddress.IPv6Address(await reader.readexactly(16)))
    return None


def _socks_reply(code: int) -> bytes:
    return bytes((_SOCKS_VERSION, code, 0, _SOCKS_IPV4, 0, 0, 0, 0, 0, 0))


def _parse_request(head: bytes) -> tuple[str, str, list[tuple[str, str]]]:
    first, headers = _parse_head(head)
    method, _, rest = first.partition(" ")
    target, _, version = rest.partition(" ")
    if not version.startswith("HTTP/1"):
        raise _ProxyRefusal("400 Bad Request", "this is not an HTTP/1 request")
    return method, target, headers


def _split_target(target: str) -> tuple[str, str, str, str]:
    """Host, port, path and authority of a request to a proxy."""
    try:
        parts = urlsplit(target)
        host, port = parts.hostname, str(parts.port or 80)
    except ValueError:
        parts, host, port = urlsplit(""), None, ""
    if parts.scheme != "http" or not host:
        raise _ProxyRefusal("400 Bad Request", f"{target[:200]} is not a URL for a proxy")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return host, port, path, parts.netloc.rpartition("@")[2]


def _parse_head(head: bytes) -> tuple[str, list[tuple[str, str]]]:
    first, *rest = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    pairs = (line.partition(":") for line in rest)
    return first, [(name.strip().lower(), value.strip()) for name, _, value in pairs]


def _format_head(first: str, headers: Iterable[tuple[str, str]]) -> bytes:
    forwarded = [f"{name}: {value}" for name, value in headers if name not in _HOP_HEADERS]
    return "\r\n".join([first, *forwarded, "connection: close", "", ""]).encode("latin-1")


def _refusal_response(refused: _ProxyRefusal) -> bytes:
    body = f"{refused}\n".encode()
    head = f"HTTP/1.1 {refused.status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
    if refused.status.startswith("407"):
        head += f'Proxy-Authenticate: Basic realm="{_PROXY_REALM}"\r\n'
    head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


async def _forward_response(site: Pipe, writer: asyncio.StreamWriter) -> None:
    try:
        first, headers = _parse_head(await site[0].readuntil(b"\r\n\r\n"))
        writer.write(_format_head(first, headers))
        await _copy(site[0], writer)
    finally:
        # Also without a response: otherwise the client would wait forever.
        writer.close()


async def _relay(one: Pipe, other: Pipe) -> None:
    """Copy in both directions until both have ended; the second gets a limited time."""
    tasks = [
        asyncio.ensure_future(_copy(one[0], other[1])),
        asyncio.ensure_future(_copy(other[0], one[1])),
    ]
    try:
        _, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if pending:
            await asyncio.wait(pending, timeout=_HALF_CLOSED)
    finally:
        for task in tasks:
            task.cancel()
        other[1].close()


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await source.read(_CHUNK):
            sink.write(piece)
            await sink.drain()
        if sink.can_write_eof():
            sink.write_eof()
