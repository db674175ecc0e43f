"""Which IP addresses belong to this machine, and which ones requests for others may reach."""

import errno
import socket
import struct

from holdfast.core.net import IpAddress, embedded_addresses, is_public

# From linux/netlink.h and linux/rtnetlink.h.
_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, sender
_ROUTE = struct.Struct("=BBBBBBBBI")  # family, prefix, …, type, flags
_ATTRIBUTE = struct.Struct("=HH")  # length, type
_GET_ROUTE, _NEW_ROUTE, _ERROR = 26, 24, 2
_REQUEST_FLAG = 1
_DESTINATION = 1
_LOCAL, _BROADCAST, _ANYCAST = 2, 3, 4


def is_external(address: IpAddress) -> bool:
    """Whether the address is public and not one of this machine.

    The policy for all requests whose target comes from a model, a page or another person. It is
    asked for the address of each connection, because those of a machine can change.
    """
    return is_public(address) and not any(
        _is_own(each) for each in (address, *embedded_addresses(address))
    )


def _is_own(address: IpAddress) -> bool:
    """Whether the kernel delivers packets to this address on this machine.

    Asks for the route, since a service on all addresses of a machine answers on each of them, also
    on those that no interface lists.
    """
    try:
        kind = _route_kind(address)
    except OSError:  # no netlink here, as in some sandboxes
        return _can_bind(address)
    return kind in (_LOCAL, _BROADCAST, _ANYCAST)


def _route_kind(address: IpAddress) -> int | None:
    """The type of the route to an address (`RTN_…`); None if there is no route."""
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    packed = address.packed
    body = _ROUTE.pack(family, len(packed) * 8, 0, 0, 0, 0, 0, 0, 0)
    body += _ATTRIBUTE.pack(_ATTRIBUTE.size + len(packed), _DESTINATION) + packed
    head = _HEADER.pack(_HEADER.size + len(body), _GET_ROUTE, _REQUEST_FLAG, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as netlink:
        netlink.settimeout(1)  # the kernel answers before `send` returns
        netlink.send(head + body)
        answer = netlink.recv(65536)
    _, answered, *_ = _HEADER.unpack_from(answer)
    if answered == _NEW_ROUTE:
        kind: int = _ROUTE.unpack_from(answer, _HEADER.size)[7]
        return kind
    if answered == _ERROR:
        number = -struct.unpack_from("=i", answer, _HEADER.size)[0]
        if number in (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EINVAL, errno.EACCES):
            return None
        raise OSError(number, "the kernel does not tell routes")
    raise OSError(errno.EPROTO, "the kernel does not tell routes")


def _can_bind(address: IpAddress) -> bool:
    """Whether a socket can have this address: only those of this machine can be bound."""
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as trial:
            trial.bind((str(address), 0))
    except OSError:
        return False
    return True
