"""Where the gateway listens: at the sockets that were left to it, else at new ones of its own."""

import asyncio
import errno
import logging
import socket
from collections.abc import Sequence

from holdfast.core.config.settings import GatewaySettings
from holdfast.core.errors import HoldfastError
from holdfast.system import sockets

log = logging.getLogger(__name__)

_PORTS_TRIED = 10  # ports tried besides one that nobody chose
_IN_USE_ERRNOS = (errno.EADDRINUSE, errno.EACCES)


class PortInUse(HoldfastError):
    """Another program listens where the gateway should."""


async def open_listening_sockets(
    settings: GatewaySettings, *, inherited: Sequence[socket.socket] = (), port_chosen: bool
) -> list[socket.socket]:
    """The sockets to listen on. Those of `inherited` that do not listen where the settings say
    are closed, with a warning.

    A port that somebody chose (`port_chosen`) is an order; else it is a wish, and where it is
    taken a neighbour will do.
    """
    addresses = await _addresses(settings.host)
    ports = _ports(settings.port, chosen=port_chosen)
    ours, others = sockets.pick_inherited(inherited, addresses=addresses, ports=ports)
    _close_unused(others, used=[sockets.bound_address(sock) for sock in ours])
    return ours or _bind(settings, addresses, ports)


def _ports(port: int, *, chosen: bool) -> Sequence[int]:
    return (port,) if chosen or port == 0 else range(port, port + _PORTS_TRIED)


async def _addresses(host: str) -> list[str]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise PortInUse(f"gateway.host: cannot listen on {host} ({error.strerror}).") from None
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def _bind(
    settings: GatewaySettings, addresses: Sequence[str], ports: Sequence[int]
) -> list[socket.socket]:
    for port in ports:
        try:
            made = sockets.bind_listeners(addresses, port)
        except OSError as error:
            if error.errno not in _IN_USE_ERRNOS:
                raise PortInUse(
                    f"gateway.host: cannot listen on {settings.host} ({error.strerror})."
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
        f"gateway.port: {settings.host}:{settings.port} is in use by another "
        "program, or not allowed. Choose another port in holdfast.toml or with --port "
        "(0: any free one)."
    )


def _close_unused(others: Sequence[socket.socket], *, used: Sequence[tuple[str, int]]) -> None:
    for sock in others:
        address, port = sockets.bound_address(sock)
        if (address, port) not in used:
            log.warning(
                "A listening socket at %s port %d was left to this gateway, which is to listen "
                "elsewhere (gateway.host, gateway.port); it is closed.",
                address,
                port,
                extra={"action": "inherited_socket_closed"},
            )
        sock.close()
