"""Connections of the HTTP listener: how many there may be, and how long a request's head takes."""

import asyncio
import logging
import resource
from collections import Counter
from collections.abc import Callable
from ipaddress import IPv6Address
from typing import cast

import msgspec
from aiohttp import web
from aiohttp.web_protocol import RequestHandler

log = logging.getLogger(__name__)

_UNLIMITED_FILES = 1 << 20
_MIN_CONNECTIONS = 16


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """`total`: never more than the process may open files, less `reserved_files`, which are for the
    store, the control socket, `holdfast status` and outgoing connections. `per_address`: from one
    address of another machine."""

    total: int = 4096
    per_address: int = 256
    reserved_files: int = 512
    head_timeout: float = 20.0  # seconds for the head of a request, or the first byte of one

    def effective_total(self) -> int:
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        files = _UNLIMITED_FILES if limit == resource.RLIM_INFINITY else limit
        spare = max(files - self.reserved_files, files // 2, _MIN_CONNECTIONS)
        return min(self.total, spare)


DEFAULT_LIMITS = ConnectionLimits()


class Connections:
    """Owns the open connections, by address. Call it for the protocol of a new one.

    At a limit, a connection that waits for its next request makes way for a new one; if all are
    in use, the new one is closed. Refusals are logged once, until there was room again.
    """

    def __init__(
        self,
        server: web.Server,
        limits: ConnectionLimits,
        *,
        is_shared: Callable[[str], bool],
    ) -> None:
        """`is_shared`: whether many clients share that address, so that only the total counts."""
        self._server = server
        self._limits = limits
        self._is_shared = is_shared
        self._total = limits.effective_total()
        self._open: dict[_Connection, str] = {}  # in the order of their last request
        self._by_address: Counter[str] = Counter()
        self._refusing = False

    def __call__(self) -> asyncio.Protocol:
        return _Connection(self, self._server, head_timeout=self._limits.head_timeout)

    def admit(self, connection: "_Connection", address: str) -> bool:
        alone = not self._is_shared(address)
        if alone and self._by_address[address] >= self._limits.per_address:
            full = not self._make_room(address)
        else:
            full = len(self._open) >= self._total and not self._make_room(None)
        if full:
            self._log_refusal(address)
            return False
        if len(self._open) < self._total * 9 // 10:
            self._refusing = False
        self._open[connection] = address
        self._by_address[address] += 1
        return True

    def touch(self, connection: "_Connection") -> None:
        """It sent a request: of the idle ones, it is closed last."""
        if connection in self._open:
            self._open[connection] = self._open.pop(connection)

    def discard(self, connection: "_Connection") -> None:
        address = self._open.pop(connection, None)
        if address is None:
            return
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]

    def _make_room(self, address: str | None) -> bool:
        """Close the connection that waits longest, of that address or of all."""
        for connection, owner in self._open.items():
            if connection.idle and address in (None, owner):
                self.discard(connection)
                connection.force_close()
                return True
        return False

    def _log_refusal(self, address: str) -> None:
        if self._refusing:
            return
        self._refusing = True
        log.warning(
            "Too many connections (%d, of at most %d): refusing new ones, the first from %s. This "
            "is logged once.",
            len(self._open),
            self._total,
            address,
            extra={"action": "too_many_connections"},
        )


class _Connection(RequestHandler):
    """One connection. It is closed if the head of a request takes too long (slowloris)."""

    __slots__ = ("_admitted", "_connections", "_head_timeout", "_head_timer")

    def __init__(
        self, connections: Connections, server: web.Server, *, head_timeout: float
    ) -> None:
        loop = asyncio.get_running_loop()
        # Bodies stay compressed: to unpack one before its sender is known would let anyone use the
        # event loop and the memory (a request with an encoding gets 415).
        super().__init__(
            server,
            loop=loop,
            access_log=None,  # type: ignore[arg-type]  # None: no access log
            auto_decompress=False,
        )
        self._connections = connections
        self._head_timeout = head_timeout
        self._head_timer: asyncio.TimerHandle | None = None
        self._admitted = False

    @property
    def idle(self) -> bool:
        """Whether it waits for a request."""
        return self._waiter is not None and not self._waiter.done()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        peer = transport.get_extra_info("peername")
        self._admitted = self._connections.admit(self, _address(peer))
        if not self._admitted:
            cast(asyncio.Transport, transport).abort()  # those of uvloop are no subclasses
            return
        super().connection_made(transport)
        self._start_head_timer()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_head_timer()
        if self._admitted:
            self._connections.discard(self)
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self._admitted:
            return
        before = self._request_count
        super().data_received(data)
        if self._request_count != before:
            self._stop_head_timer()
            self._connections.touch(self)
        elif self.idle:
            self._start_head_timer()

    def eof_received(self) -> None:
        if self._admitted:
            super().eof_received()

    def _start_head_timer(self) -> None:
        if self._head_timer is None:
            self._head_timer = self._loop.call_later(self._head_timeout, self._end_slow_head)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _end_slow_head(self) -> None:
        self._head_timer = None
        self.force_close()


def _address(peer: object) -> str:
    """The address of a client; an IPv6 network counts as one, as for wrong tokens."""
    if not isinstance(peer, tuple) or not peer:
        return ""
    text = str(peer[0]).partition("%")[0]
    if ":" not in text:
        return text
    found = IPv6Address(text)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return text if found.is_loopback else str(IPv6Address(found.packed[:8] + bytes(8)))
