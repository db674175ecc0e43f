"""Which IP addresses our own requests may reach (protection against SSRF)."""

import errno
import ipaddress
from collections.abc import Callable
from typing import Any, TypeVar

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
AddressPolicy = Callable[[IpAddress], bool]
AddressInfo = tuple[int, int, int, str, tuple[Any, ...]]  # as returned by a resolver

PRIVATE_ADDRESS_REFUSED = "is a private address, which is off limits"

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")

Socket = TypeVar("Socket")


def is_public(address: IpAddress) -> bool:
    """Whether the address is public. An IPv4 address that is wrapped in an IPv6 one is
    unwrapped."""
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


def parse_ip(host: str) -> IpAddress | None:
    """The address that a host spells out; None if it is a name."""
    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None


class AddressRefused(OSError):
    """An address that may not be reached."""


def guarded_socket_factory(
    is_allowed: AddressPolicy, create_socket: Callable[[int, int, int], Socket]
) -> Callable[[AddressInfo], Socket]:
    """A factory of sockets for addresses that are about to be connected to; it refuses some of
    them.

    This is the last check before the network. However a URL spells its host, and whatever a name
    resolves to a moment later, the checked address is the one that is connected to.
    """

    def open_socket(info: AddressInfo) -> Socket:
        family, kind, protocol, _, address = info
        found = parse_ip(str(address[0]))
        if found is None or not is_allowed(found):
            raise AddressRefused(errno.EACCES, f"{address[0]} {PRIVATE_ADDRESS_REFUSED}")
        return create_socket(family, kind, protocol)

    return open_socket
