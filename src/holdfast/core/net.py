"""Which hosts and IP addresses the requests of agents may reach (protection against SSRF)."""

import errno
import ipaddress
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

from holdfast.core.config.settings import WebSettings

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
AddressPolicy = Callable[[IpAddress], bool]
AddressInfo = tuple[int, int, int, str, tuple[Any, ...]]  # as returned by a resolver

PRIVATE_ADDRESS_REFUSED = "is a private address, which is off limits"

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")  # all public IPv6 addresses, wrappers aside

# Addresses that `ipaddress` calls global, at least in some version of Python.
_NOT_PUBLIC = tuple(
    ipaddress.ip_network(network)
    for network in (
        "168.63.129.16/32",  # the metadata and agent service of Azure
        "192.0.0.0/24",  # IETF protocols; Oracle's metadata service is 192.0.0.192
        "192.88.99.0/24",  # the former relays of 6to4
        "2001::/23",  # IETF protocols
        "2001:db8::/32",  # documentation, as is the next
        "3fff::/20",
    )
)

Socket = TypeVar("Socket")


def is_public(address: IpAddress) -> bool:
    """Whether the address is public: not private, not for a special purpose, and no metadata
    service of a cloud. An IPv6 address that carries IPv4 ones is judged by all of these."""
    if inner := embedded_addresses(address):
        return all(is_public(each) for each in inner)
    if address.version == 6 and address not in _GLOBAL_UNICAST:
        return False
    if any(address in network for network in _NOT_PUBLIC):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def embedded_addresses(address: IpAddress) -> tuple[ipaddress.IPv4Address, ...]:
    """The IPv4 addresses that packets to an IPv6 address reach; none if it carries none."""
    if isinstance(address, ipaddress.IPv4Address):
        return ()
    if address.teredo is not None:
        return address.teredo  # the server, which sees the packets first, and the client
    inner = address.ipv4_mapped or address.sixtofour
    if inner is None and address in _NAT64:
        inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return () if inner is None else (inner,)


def parse_ip(host: str) -> IpAddress | None:
    """The address that a host spells out; None if it is a name."""
    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None


def normalize_host(host: str) -> str:
    """A host as rules and records compare it: lower case, without brackets and a final dot, and
    international names in their ASCII form."""
    host = host.strip("[]").rstrip(".").lower()
    try:
        return host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        return host


def host_refusal(host: str, web: WebSettings) -> str:
    """Why a normalized host may not be reached; "": it may. `deny` comes first; a non-empty `allow`
    has all that may be reached."""
    denied = next((each for each in web.deny if host_matches(host, each)), None)
    if denied is not None:
        return f'{host} is denied by "{denied}" in web.deny'
    if web.allow and not any(host_matches(host, each) for each in web.allow):
        return f"{host} is not in web.allow"
    return ""


def host_matches(host: str, pattern: str) -> bool:
    """`*` matches every host, `*.example.org` that domain and every host in it, and everything else
    only itself."""
    if pattern == "*":
        return True
    if pattern.startswith("*."):
        domain = normalize_host(pattern[2:])
        return host == domain or host.endswith(f".{domain}")
    return host == normalize_host(pattern)


def is_readable_on_the_way(url: str) -> bool:
    """Whether others on the network can read a request to this URL: it is not encrypted, and leaves
    this machine."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    address = parse_ip(host)
    if address is None:
        is_local = f".{host}".endswith(".localhost")
    else:
        is_local = all(each.is_loopback for each in embedded_addresses(address) or (address,))
    return parts.scheme != "https" and not is_local


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
