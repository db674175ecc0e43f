"""The one HTTP listener: the platforms' routes, health and metrics, for those who may ask."""

import errno
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from typing import Self

from aiohttp import web

from holdfast.control.headers import secure
from holdfast.control.metrics import CONTENT_TYPE, Metrics
from holdfast.core.errors import HoldfastError, StoreError
from holdfast.core.secret import Secret
from holdfast.core.settings import GatewaySettings
from holdfast.platforms.api.bearer import bears

log = logging.getLogger(__name__)

_NEIGHBOURS = 10  # ports tried besides one that nobody chose
_LARGEST_BODY = 32 * 1024 * 1024

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class PortTaken(HoldfastError):
    """Another program listens where the gateway should."""


class HttpListener:
    """Owns the TCP listener while its context is open; `address` is where it can be reached.

    A port that somebody chose (`port_chosen`) is an order; else it is a wish, and where it is
    taken a neighbour will do.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        *,
        routes: Iterable[web.RouteDef],
        metrics: Metrics,
        token: Secret,
        ready: Callable[[], bool],
        port_chosen: bool,
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._token = token
        self._ready = ready
        self._port_chosen = port_chosen
        names = ("localhost", "127.0.0.1", "::1", settings.host, *settings.allowed_hosts)
        self._hosts = {name.strip("[]").lower() for name in names}
        self._routes = list(routes)
        self._open = AsyncExitStack()
        self.address = ""

    async def __aenter__(self) -> Self:
        application = web.Application(middlewares=[self._check_host], client_max_size=_LARGEST_BODY)
        application.on_response_prepare.append(secure)
        application.add_routes(self._routes)
        application.add_routes(
            [web.get("/healthz", self._health), web.get("/metrics", self._measures)]
        )
        # Whoever waits for a turn is told to come back; none of them may hold up a stop.
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        self._open.push_async_callback(runner.cleanup)
        try:
            port = await self._listen(runner)
        except BaseException:
            await self._open.aclose()
            raise
        host = f"[{self._settings.host}]" if ":" in self._settings.host else self._settings.host
        self.address = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._open.aclose()

    async def _listen(self, runner: web.AppRunner) -> int:
        for port in self._ports():
            try:
                await web.TCPSite(runner, self._settings.host, port, backlog=1024).start()
            except OSError as error:
                if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                    raise PortTaken(
                        f"gateway.host: cannot listen on {self._settings.host} ({error.strerror})."
                    ) from None
                continue
            if port != self._settings.port:
                log.warning(
                    "Port %d is in use by another program; listening on %d instead.",
                    self._settings.port,
                    port,
                    extra={"action": "port_taken"},
                )
            return int(runner.addresses[0][1])
        raise PortTaken(
            f"gateway.port: {self._settings.host}:{self._settings.port} is in use by another "
            "program, or not allowed. Choose another port in holdfast.toml or with --port "
            "(0: any free one)."
        )

    def _ports(self) -> Sequence[int]:
        port = self._settings.port
        return (port,) if self._port_chosen else range(port, port + _NEIGHBOURS)

    @web.middleware
    async def _check_host(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        # A page of elsewhere can make a browser call us under its own name (DNS rebinding).
        # Browsers always say a name; a probe that says none is no page, and may ask.
        host = request.headers.get("Host")
        if host is not None and not self._answers_to(_name(host), request):
            text = f"this gateway does not answer to {host!r}; see gateway.allowed_hosts\n"
            return web.Response(status=421, text=text)
        return await handler(request)

    def _answers_to(self, name: str, request: web.Request) -> bool:
        return name in self._hosts or (name != "" and name == _address_reached(request))

    async def _health(self, request: web.Request) -> web.Response:
        ready = self._ready()
        return web.json_response({"ready": ready}, status=200 if ready else 503)

    async def _measures(self, request: web.Request) -> web.Response:
        if not bears(request, self._token):
            text = "metrics need the gateway's token: `holdfast token` prints it\n"
            return web.Response(status=401, text=text, headers={"WWW-Authenticate": "Bearer"})
        try:
            text = await self._metrics.render()
        except StoreError as error:
            return web.Response(status=503, text=f"the store cannot be read: {error}\n")
        return web.Response(body=text.encode(), headers={"Content-Type": CONTENT_TYPE})


def _name(host: str) -> str:
    """The name without its port; an IPv6 address has colons of its own."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def _address_reached(request: web.Request) -> str:
    """The address of ours that the request came to: no name has to be looked up to say it."""
    reached = request.transport and request.transport.get_extra_info("sockname")
    return str(reached[0]) if reached else ""
