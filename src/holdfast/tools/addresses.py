"""Addresses: which ones a fetch may reach, judged on the address that is connected to."""

import errno
import ipaddress
import socket
from collections.abc import Callable
from typing import Any

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Permits = Callable[[Address], bool]

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def is_public(address: Address) -> bool:
    """Neither ours nor our neighbours': an IPv4 address wrapped in an IPv6 one is unwrapped."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address.teredo is not None:
            inner = address.teredo[1]
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
        if address.is_site_local:
            return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def literal(host: str) -> Address | None:
    """The address that a host spells out; None: it is a name."""
    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None


class AddressRefused(OSError):
    """A name leads to an address that may not be reached."""


def make_resolver(permits: Permits) -> Any:
    """A resolver whose answers are all permitted. The connector uses exactly these answers,
    so a name that resolves otherwise a moment later gains nothing."""
    from aiohttp.abc import AbstractResolver, ResolveResult  # noqa: PLC0415 - heavy, rarely used
    from aiohttp.resolver import ThreadedResolver  # noqa: PLC0415

    class Guarded(AbstractResolver):
        def __init__(self) -> None:
            self._inner = ThreadedResolver()

        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
        ) -> list[ResolveResult]:
            found = await self._inner.resolve(host, port, family)
            allowed = [one for one in found if _permitted(one["host"], permits)]
            if not allowed:
                text = f"{host} leads to a private address, which is off limits"
                raise AddressRefused(errno.EACCES, text)
            return allowed

        async def close(self) -> None:
            await self._inner.close()

    return Guarded()


def _permitted(host: str, permits: Permits) -> bool:
    address = literal(host)
    return address is not None and permits(address)
