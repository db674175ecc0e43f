"""Addresses of hosts in every notation that programs accept, and those of metadata services."""

import ipaddress
import re

_CANDIDATES = re.compile(
    r"\[[0-9a-fA-F:.%]+\]"  # IPv6
    r"|(?<=//)[^/?#\s'\"\\)>]+"  # what follows a scheme, with user information and port
    r"|(?<![\w.])(?:0[xX][0-9a-fA-F]+|\d+)(?:\.(?:0[xX][0-9a-fA-F]+|\d+)){1,3}(?![\w.])"
    r"|^(?:0[xX][0-9a-fA-F]{8}|0\d{11}|\d{9,10})(?=[/:]|$)"  # one number
    r"|(?<![\w.-])metadata(?:\.\w+)*\.internal|(?<![\w.-])instance-data(?:\.\w+)*"
)
_MAY_NAME_HOST = re.compile(r"//|\d\.\d|\d{9}|0[xX]|internal|instance-data|\[")
_METADATA_NAMES = frozenset(
    (
        "metadata", "metadata.google.internal", "metadata.goog", "instance-data",
        "rancher-metadata", "instance-data.ec2.internal", "metadata.tencentyun.com",
        "metadata.platformequinix.com", "metadata.azure.internal", "metadata.packet.net",
        "169.254.169.254", "metadata.oraclecloud.com",
    )
)  # fmt: skip
_METADATA_ADDRESSES = frozenset(
    map(
        ipaddress.ip_address,
        ("100.100.100.200", "192.0.0.192", "168.63.129.16", "fd00:ec2::254", "fd20:ce::254"),
    )
)
_LINK_LOCAL = ipaddress.ip_network("169.254.0.0/16")
_NAMES_OF_ADDRESSES = re.compile(
    r"(?:^|[.-])(\d{1,3}[.-]\d{1,3}[.-]\d{1,3}[.-]\d{1,3}|[0-9a-f]{8})\.(?:nip|sslip|xip)\.\w+$"
)


def names_metadata_service(text: str) -> bool:
    """Whether the text has the address of a service that gives out keys to its machine."""
    if _MAY_NAME_HOST.search(text) is None:
        return False
    return any(_is_metadata_host(match[0]) for match in _CANDIDATES.finditer(text))


def _is_metadata_host(authority: str) -> bool:
    host = authority.rpartition("@")[2].lower().rstrip(".")
    host = host[: host.index("]") + 1] if "]" in host else host.partition(":")[0]
    if host in _METADATA_NAMES:
        return True
    if (match := _NAMES_OF_ADDRESSES.search(host)) is not None:
        digits = match[1]
        host = digits.replace("-", ".") if len(digits) > 8 or "." in digits else "0x" + digits
    address = parse_address(host.strip("[]"))
    if address is None:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        if address in _METADATA_ADDRESSES:
            return True
        inner = address.ipv4_mapped or address.sixtofour or _embedded(address)
        if inner is None:
            return False
        address = inner
    return address in _LINK_LOCAL or address in _METADATA_ADDRESSES


def _embedded(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Of `::a.b.c.d` and of the well-known prefix of NAT64."""
    high, low = int(address) >> 32, int(address) & 0xFFFFFFFF
    return ipaddress.IPv4Address(low) if high in (0, 0x0064FF9B << 64) else None


def parse_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """As `inet_aton` reads it: one to four parts, each decimal, octal or hexadecimal; the last one
    fills up what is left."""
    if ":" in host:
        try:
            return ipaddress.IPv6Address(host.partition("%")[0])
        except ValueError:
            return None
    parts = host.split(".")
    if not 1 <= len(parts) <= 4:
        return None
    try:
        numbers = [_number(part) for part in parts]
    except ValueError:
        return None
    *leading, last = numbers
    rest = 4 - len(leading)
    if any(number > 0xFF for number in leading) or last >= 1 << 8 * rest:
        return None
    value = last
    for at, number in enumerate(leading):
        value |= number << 8 * (3 - at)
    return ipaddress.IPv4Address(value)


def _number(part: str) -> int:
    if part[:2].lower() == "0x":
        return int(part, 16)
    return int(part, 8) if len(part) > 1 and part[0] == "0" else int(part)
