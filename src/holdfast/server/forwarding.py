"""Forwarding: who asks, and for what, where a proxy that is trusted asks on their behalf."""

import logging
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from aiohttp import web

log = logging.getLogger(__name__)

FORWARDED_FOR, FORWARDED_PROTO, FORWARDED_HOST = (
    "X-Forwarded-For",
    "X-Forwarded-Proto",
    "X-Forwarded-Host",
)
_SCHEMES = ("http", "https")

Address = IPv4Address | IPv6Address


class TrustedProxies:
    """Owns which proxies are believed (`gateway.trusted_proxy`), and whether others were told of.

    `ForwardedMessage` (RFC 7239) is read from nobody: a proxy that writes the one kind of header hands
    the other through as its client sent it, and only one kind can be believed.
    """

    def __init__(self, trusted: Iterable[str]) -> None:
        self._trusted = tuple(ip_network(each, strict=False) for each in trusted)
        self._warned = False

    def client_request(self, request: web.Request) -> web.Request:
        """The request as the first machine that is not one of ours made it."""
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
        """From the right, for each proxy appends whom it heard: the first that is not trusted, and
        how many were passed. What stands left of it, that client could have written itself."""
        last = ""
        for passed, named in enumerate(reversed(hops)):
            address = _parse_address(named)
            if address is None:
                return last, max(passed - 1, 0)
            last = str(address)
            if not self._trusts(address):
                return last, passed
        return last, max(len(hops) - 1, 0)

    def _trusts(self, address: Address | None) -> bool:
        return address is not None and any(address in network for network in self._trusted)

    def _warn_once(self, remote: str | None) -> None:
        if self._warned:
            return
        self._warned = True
        log.warning(
            "Headers of a proxy (X-Forwarded-…) came from %s and are not believed; if that is a "
            "proxy of yours, name it in gateway.trusted_proxy. This is said once.",
            remote,
            extra={"action": "proxy_not_trusted"},
        )


def _header_values(request: web.Request, name: str) -> list[str]:
    values = ",".join(request.headers.getall(name, ()))
    return [value.strip() for value in values.split(",") if value.strip()]


def _value_at_hop(values: Sequence[str], hops: int) -> str:
    """What the proxy said that heard the client. Some write only one for all of them."""
    if not values:
        return ""
    return values[-1 - hops] if hops < len(values) else values[0]


def _parse_address(text: str | None) -> Address | None:
    """With or without a port; an IPv4 address that came over IPv6 is the same address."""
    bare = (text or "").strip()
    if bare.startswith("["):
        bare = bare[1:].partition("]")[0]
    elif bare.count(":") == 1:
        bare = bare.partition(":")[0]
    try:
        found = ip_address(bare.partition("%")[0])
    except ValueError:
        return None
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        return found.ipv4_mapped
    return found
