"""The HTTP listener: listening sockets, trusted proxies, security headers, health and metrics.

Every request passes `HttpListener._guard` first: language, Host, forwarded headers, restart, rate
limit of wrong tokens.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, ExitStack
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Self

from aiohttp import hdrs, web

from holdfast.core.config.settings import GatewaySettings, Settings
from holdfast.core.errors import HoldfastError, StoreError
from holdfast.core.text.translation import N_, _, use_catalogue
from holdfast.gateway.access import Principal
from holdfast.platforms.api.http import bearer_token
from holdfast.server.auth.login import BrowserLogin
from holdfast.server.auth.rate_limit import is_local, retry_after_header
from holdfast.server.connections import DEFAULT_LIMITS, ConnectionLimits, Connections
from holdfast.server.languages import request_catalogue
from holdfast.server.metrics import CONTENT_TYPE
from holdfast.system import sockets
from holdfast.system.sockets import bound_address

log = logging.getLogger(__name__)


_CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'self'",
        "img-src 'self' data: blob:",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_SECURITY_HEADERS = {
    "Content-Security-Policy": _CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


async def add_security_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Runs as each response is about to be sent, streams included; a stricter one stays."""
    headers = response.headers
    for name, value in _SECURITY_HEADERS.items():
        headers.setdefault(name, value)


FORWARDED_FOR, FORWARDED_PROTO, FORWARDED_HOST = (
    "X-Forwarded-For",
    "X-Forwarded-Proto",
    "X-Forwarded-Host",
)
_SCHEMES = ("http", "https")

Address = IPv4Address | IPv6Address


_LOOPBACKS = ("127.0.0.1", "::1")


class TrustedProxies:
    """Owns which proxies are trusted (`gateway.trusted_proxy`), and whether it warned of others.

    `Forwarded` (RFC 7239) is never read: a proxy that sets the `X-Forwarded-…` headers passes the
    other kind on as its client sent it, and only one kind can be trusted.
    """

    def __init__(self, trusted: Iterable[str]) -> None:
        named = set(trusted)
        # A proxy on this machine that is told `localhost` may use either address.
        named |= set(_LOOPBACKS) if named & set(_LOOPBACKS) else set()
        self._trusted = tuple(ip_network(each, strict=False) for each in named)
        self._warned = False

    def client_request(self, request: web.Request) -> web.Request:
        """The request as the first machine that is not a trusted proxy made it."""
        given = request.headers
        if (
            FORWARDED_FOR not in given
            and FORWARDED_PROTO not in given
            and FORWARDED_HOST not in given
        ):
            return request
        if not self._trusts(_parse_address(request.remote)):
            self._warn_once(request.remote)
            return request
        remote, hops = self._client(_header_values(request, FORWARDED_FOR))
        schemes, hosts = (
            _header_values(request, FORWARDED_PROTO),
            _header_values(request, FORWARDED_HOST),
        )
        scheme = _value_at_hop(schemes, hops).lower()
        return request.clone(
            remote=remote or request.remote or "",
            scheme=scheme if scheme in _SCHEMES else request.scheme,
            host=_value_at_hop(hosts, hops) or request.host,
        )

    def _client(self, hops: Sequence[str]) -> tuple[str, int]:
        """The address of the client, and how many proxies were passed.

        Read from the right, because each proxy appends the address it got the request from: the
        first that is not trusted. What is left of it, that client could have written itself."""
        last = ""
        for passed, named in enumerate(reversed(hops)):
            address = _parse_address(named)
            if address is None:
                return last, max(passed - 1, 0)
            last = str(address)
            if not self._trusts(address):
                return last, passed
        return last, max(len(hops) - 1, 0)

    def trusts(self, address: str) -> bool:
        return self._trusts(_parse_address(address))

    def _trusts(self, address: Address | None) -> bool:
        return address is not None and any(address in network for network in self._trusted)

    def _warn_once(self, remote: str | None) -> None:
        if self._warned:
            return
        self._warned = True
        log.warning(
            "Ignored X-Forwarded-… headers from %s; if that is a proxy of yours, name it in "
            "gateway.trusted_proxy. This is logged once.",
            remote,
            extra={"action": "proxy_not_trusted"},
        )


def _header_values(request: web.Request, name: str) -> list[str]:
    values = ",".join(request.headers.getall(name, ()))
    return [value.strip() for value in values.split(",") if value.strip()]


def _value_at_hop(values: Sequence[str], hops: int) -> str:
    """The value set by the proxy next to the client. Some proxies write only one for all."""
    if not values:
        return ""
    return values[-1 - hops] if hops < len(values) else values[0]


def _parse_address(text: str | None) -> Address | None:
    """With or without a port; an IPv4 address that came over IPv6 is the same address."""
    host = (text or "").strip()
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        found = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        return found.ipv4_mapped
    return found


_LOOPBACK_HOSTS = (*_LOOPBACKS, "localhost")
_FREE_PORTS_TRIED = 5  # a port that is free on one address may be taken on the other
_PORTS_TRIED = 10  # ports tried, where none was chosen
_IN_USE_ERRNOS = (errno.EADDRINUSE, errno.EACCES)


class PortInUse(HoldfastError):
    """Another program listens where the gateway should."""


async def open_listening_sockets(
    settings: GatewaySettings, *, inherited: Sequence[socket.socket] = (), port_chosen: bool
) -> list[socket.socket]:
    """The sockets to listen on. Those of `inherited` that do not listen where the settings say
    are closed, with a warning.

    A port that was chosen by a person (`port_chosen`) must be free; else one of the next ports will
    do.
    """
    addresses = await _addresses(settings.host)
    ports = _ports(settings.port, chosen=port_chosen)
    ours, others = sockets.pick_inherited(inherited, addresses=addresses, ports=ports)
    _close_unused(others, used=[sockets.bound_address(sock) for sock in ours])
    made = [*ours, *_bind_missing(ours, addresses)] if ours else _bind(settings, addresses, ports)
    if settings.host in _LOOPBACK_HOSTS and len(made) < len(addresses):
        log.info(
            "Listening on %s only: this machine has no other loopback address.",
            sockets.bound_address(made[0])[0],
            extra={"action": "one_loopback_address"},
        )
    return made


def _bind_missing(ours: Sequence[socket.socket], addresses: Sequence[str]) -> list[socket.socket]:
    """The addresses that a predecessor did not listen on. That one is taken does not end a
    handover, but the clients that use it must be warned."""
    bound = [sockets.bound_address(sock) for sock in ours]
    missing = [each for each in addresses if each not in (address for address, _ in bound)]
    made: list[socket.socket] = []
    for address in missing:
        try:
            made += sockets.bind_listeners([address], bound[0][1])
        except OSError as error:
            if error.errno in _IN_USE_ERRNOS:
                log.error(
                    "Another program listens on %s port %d, which clients may take for this "
                    "gateway. Stop it and restart.",
                    address,
                    bound[0][1],
                    extra={"action": "port_in_use"},
                )
    return made


def _ports(port: int, *, chosen: bool) -> Sequence[int]:
    return (port,) if chosen or port == 0 else range(port, port + _PORTS_TRIED)


async def _addresses(host: str) -> list[str]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise PortInUse(
            "gateway.host: cannot listen on {host} ({error}). Choose another address in "
            "holdfast.toml or with --host.",
            host=host,
            error=error.strerror,
        ) from None
    addresses = [str(address[0]) for *_, address in found]
    if host in _LOOPBACK_HOSTS:
        # All of them: clients that are told `localhost` use either, and no other program may
        # answer them in our place.
        addresses += _LOOPBACKS
    return list(dict.fromkeys(addresses))


def _bind(
    settings: GatewaySettings, addresses: Sequence[str], ports: Sequence[int]
) -> list[socket.socket]:
    taken = settings.host
    for port in [*ports] * (_FREE_PORTS_TRIED if settings.port == 0 else 1):
        try:
            made = sockets.bind_listeners(addresses, port)
        except OSError as error:
            taken = error.filename or taken
            if error.errno not in _IN_USE_ERRNOS:
                raise PortInUse(
                    "gateway.host: cannot listen on {host} ({error}). Choose another address in "
                    "holdfast.toml or with --host.",
                    host=settings.host,
                    error=error.strerror,
                ) from None
            continue
        if port != settings.port:
            log.warning(
                "Port %d is in use by another program; listening on %d instead.",
                settings.port,
                port,
                extra={"action": "port_in_use"},
            )
        return made
    raise PortInUse(
        "gateway.port: {host}:{port} is in use by another program, or not allowed. Choose another "
        "port in holdfast.toml or with --port (0: any free one).",
        host=f"[{taken}]" if ":" in taken else taken,
        port=settings.port,
    )


def _close_unused(others: Sequence[socket.socket], *, used: Sequence[tuple[str, int]]) -> None:
    for sock in others:
        address, port = sockets.bound_address(sock)
        if (address, port) not in used:
            log.warning(
                "Closed an inherited listening socket at %s port %d: gateway.host and gateway.port "
                "name another address.",
                address,
                port,
                extra={"action": "inherited_socket_closed"},
            )
        sock.close()


_MAX_BODY = 32 * 1024 * 1024
_BACKLOG = 1024
_SAFE_METHODS = frozenset({hdrs.METH_GET, hdrs.METH_HEAD, hdrs.METH_OPTIONS})
_TOKEN_PATHS = ("/api/v1/", "/v1/", "/metrics", "/login")  # elsewhere tokens belong to a platform
_RESTARTING = N_("The gateway is restarting and did not process this request; send it again.")
_RATE_LIMITED = N_("Too many wrong tokens came from this address; try again after Retry-After.")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class HttpListener:
    """Owns the listening sockets while its context is open; `address` is where it can be reached.

    On inherited sockets (`inherited`) nothing is accepted before `start_accepting`: clients that
    wait in the kernel's queue are better off than clients that are refused. On new sockets
    connections are accepted at once, and answered 503 until the gateway is ready.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        *,
        routes: Iterable[web.RouteDef],
        metrics: Callable[[], Awaitable[str]],
        login: BrowserLogin,
        may_read: Callable[[Principal], bool],
        ready: Callable[[], bool],
        port_chosen: bool,
        inherited: Sequence[socket.socket] = (),
        limits: ConnectionLimits = DEFAULT_LIMITS,
    ) -> None:
        self._limits = limits
        self._settings = settings
        self._metrics = metrics
        self._login = login
        self._may_read = may_read
        self._ready = ready
        self._port_chosen = port_chosen
        self._inherited = tuple(inherited)
        self._routes = list(routes)
        self._exit_stack = AsyncExitStack()
        self._duplicates = ExitStack()  # of the sockets, for the server
        self._servers: list[asyncio.Server] = []
        self._handover_started = False
        self._runner: web.AppRunner
        self.sockets: tuple[socket.socket, ...] = ()
        self.address = ""
        self._apply(settings)

    def apply_settings(self, settings: Settings) -> None:
        """Apply the language, the allowed host names and the trusted proxies from now on."""
        self._apply(settings.gateway)

    def _apply(self, settings: GatewaySettings) -> None:
        self._language = settings.language
        self._proxies = TrustedProxies(settings.trusted_proxy)
        names = ("localhost", "127.0.0.1", "::1", settings.host, *settings.allowed_hosts)
        self._hosts = {name.strip("[]").lower() for name in names}

    async def __aenter__(self) -> Self:
        application = web.Application(middlewares=[self._guard], client_max_size=_MAX_BODY)
        application.on_response_prepare.append(add_security_headers)
        application.on_response_prepare.append(self._close_during_handover)
        application.add_routes(self._routes)
        application.add_routes(
            [web.get("/healthz", self._serve_health), web.get("/metrics", self._serve_metrics)]
        )
        self.sockets = tuple(
            await open_listening_sockets(
                self._settings, inherited=self._inherited, port_chosen=self._port_chosen
            )
        )
        for sock in self.sockets:
            self._exit_stack.callback(sock.close)
        # A request that waits for a turn must not hold up a stop.
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
        self._exit_stack.enter_context(self._duplicates)  # closed after the server, which uses them
        self._exit_stack.push_async_callback(self._runner.cleanup)
        self._exit_stack.callback(self._close_servers)
        host = f"[{self._settings.host}]" if ":" in self._settings.host else self._settings.host
        self.address = f"http://{host}:{bound_address(self.sockets[0])[1]}"
        try:
            await self._runner.setup()
            assert self._runner.server is not None, "it was set up"
            self._connections = Connections(
                self._runner.server, self._limits, is_shared=self._is_shared
            )
            if not set(self.sockets) & set(self._inherited):
                await self.start_accepting()
        except BaseException:
            await self._exit_stack.aclose()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._exit_stack.aclose()

    async def start_accepting(self) -> None:
        """Accept the queued connections and all that come. A second call does nothing."""
        if self._servers or self._handover_started:
            return
        loop = asyncio.get_running_loop()
        for sock in self.sockets:
            # A duplicate, which the server closes; ours is kept for a successor.
            copy = sock.dup()
            self._duplicates.callback(copy.close)  # a start that is cancelled here would leak it
            server = await loop.create_server(self._connections, sock=copy, backlog=_BACKLOG)
            self._servers.append(server)

    async def stop_accepting(self) -> None:
        """A successor will listen here: accept no more connections, and keep the sockets open.

        New clients wait in the kernel's queue. Connected clients can still read; a request that
        would change something gets 503 and its connection is closed, so that it is repeated on the
        successor. Nothing of such a request was processed.
        """
        self._handover_started = True
        self._close_servers()

    def _close_servers(self) -> None:
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()

    async def _close_during_handover(
        self, request: web.Request, response: web.StreamResponse
    ) -> None:
        if self._handover_started:
            response.force_close()
            response.headers[hdrs.CONNECTION] = "close"

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        with use_catalogue(request_catalogue(request, self._language)):
            return await self._handle(request, handler)

    async def _handle(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        # Another site can make a browser call us under its own name (DNS rebinding). Browsers
        # always send a Host; a probe without one is not a browser, and is allowed.
        host = request.headers.get("Host")
        if host is not None and not self._is_our_host(_host_name(host), request):
            return _misdirected(host)
        # Behind a proxy, both its name for us and the name the client used must be ours.
        outer = self._proxies.client_request(request)
        if outer is not request and not self._is_our_host(_host_name(outer.host), request):
            return _misdirected(outer.host)
        if request.headers.get(hdrs.CONTENT_ENCODING, "identity").lower() != "identity":
            text = _("This gateway accepts no compressed requests.")
            headers = {hdrs.ACCEPT_ENCODING: "identity"}
            return web.Response(status=415, text=f"{text}\n", headers=headers)
        if self._handover_started and request.method not in _SAFE_METHODS:
            error = _error_body(_RESTARTING, "server_error", "restarting")
            return web.json_response(error, status=503, headers={hdrs.RETRY_AFTER: "1"})
        token = bearer_token(outer)
        blocked = self._blocked_for(outer, token) if token else 0.0
        if blocked:
            error = _error_body(_RATE_LIMITED, "rate_limit_error", "rate_limited")
            return web.json_response(error, status=429, headers=retry_after_header(blocked))
        return await handler(outer)

    def _blocked_for(self, request: web.Request, token: str) -> float:
        """For how many seconds a request with this token is refused; 0: it is not.

        A token may be chosen by a person and be easy to guess: after wrong guesses, not even the
        right one is accepted until the time is over. Nothing is awaited between the check and the
        count, so concurrent guesses are counted, too. The token counts, and not the status of the
        response, which can be good or bad for other reasons."""
        if not request.path.startswith(_TOKEN_PATHS):
            return 0.0
        limiter, address = self._login.token_limiter, request.remote
        # On this machine the right token is always accepted: every local user and every sandbox
        # that shares the network could lock out the owner otherwise.
        blocked = limiter.blocked_for(address)
        if blocked and not is_local(address):
            return blocked
        if self._login.token_principal(request) is not None:
            limiter.record_success(address)
            return 0.0
        if not blocked:
            limiter.record_failure(address, token)
        return blocked

    def _is_shared(self, address: str) -> bool:
        return is_local(address) or self._proxies.trusts(address)

    def _is_our_host(self, name: str, request: web.Request) -> bool:
        return name in self._hosts or (name != "" and name == _local_address(request))

    async def _serve_health(self, request: web.Request) -> web.Response:
        ready = self._ready()
        return web.json_response({"ready": ready}, status=200 if ready else 503)

    async def _serve_metrics(self, request: web.Request) -> web.Response:
        principal = self._login.token_principal(request)
        if principal is None:
            text = _("Metrics need a token of the scope read (`holdfast token create` makes one).")
            return web.Response(
                status=401, text=f"{text}\n", headers={"WWW-Authenticate": "Bearer"}
            )
        if not self._may_read(principal.principal):
            text = _("The scope {scope} of this token does not allow that.")
            return web.Response(status=403, text=text.format(scope=principal.scope) + "\n")
        try:
            text = await self._metrics()
        except StoreError as error:
            return web.Response(status=503, text=f"The store cannot be read: {error}\n")
        return web.Response(body=text.encode(), headers={"Content-Type": CONTENT_TYPE})


def _error_body(message: str, type: str, code: str) -> dict[str, dict[str, str | None]]:
    """An error in the form that both APIs have."""
    return {"error": {"message": _(message), "type": type, "code": code, "param": None}}


def _misdirected(host: str) -> web.Response:
    text = _(
        "This gateway does not answer to {host!r}. Add the name to gateway.allowed_hosts."
    ).format(host=host)
    return web.Response(status=421, text=f"{text}\n")


def _host_name(host: str) -> str:
    """The name without its port; an IPv6 address has colons of its own."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def _local_address(request: web.Request) -> str:
    """Our own address that the request came to; needs no name lookup."""
    reached = request.transport and request.transport.get_extra_info("sockname")
    return str(reached[0]) if reached else ""
