"""Starts a command in a network of its own that leads to public addresses only.

The network is translated in user mode by pasta or slirp4netns. Both reach everything that the
machine reaches, also its own services, so everything that is not public has an unreachable route.
The command has no capability to change the routes. Runs outside of the sandbox, before bubblewrap.
"""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import os
import re
import signal
import socket
import struct
import sys
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from . import kernel, process_tree

DEVICE = "tap0"
MTU = 65520
_UNREACHABLE = (
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16", "172.16.0.0/12"),
    *("192.0.0.0/24", "192.0.2.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24"),
    *("203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
)
_LOCAL_ADDRESS = re.compile(r"\|-- ([0-9.]+)\n\s+/32 host LOCAL")


class Network(NamedTuple):
    """The addresses in the namespace. The next hop must lead nowhere as a destination."""

    address: str
    next_hop: str
    name_server: str


NETWORKS = {
    # 192.0.0.8 is a dummy address (RFC 7600) that no host has: pasta answers there on port 53.
    "pasta": Network("192.0.0.2", "192.0.0.8", "192.0.0.8"),
    # The first is refused by --disable-host-loopback, the second answers on port 53 only.
    "slirp4netns": Network("10.0.2.100", "10.0.2.2", "10.0.2.3"),
}


def main(tool: str, command: list[str]) -> NoReturn:
    """Become `command` in the new network, once that works."""
    network = NETWORKS[os.path.basename(tool)]
    # Before the namespace is left, whose own addresses these are.
    own = _LOCAL_ADDRESS.findall(_read("/proc/net/fib_trie"))
    # The runner keeps the writing end: the network ends with it, and outlives a gateway.
    alive, keep_alive = os.pipe()
    os.set_inheritable(keep_alive, True)
    pid_reader, pid_writer = os.pipe()
    ready_reader, ready_writer = os.pipe()
    user, group = os.getuid(), os.getgid()
    if not os.fork():
        os.close(pid_writer)  # the end of this process is then seen on the other side
        _in_child(lambda: _run_tool(tool, int(os.read(pid_reader, 20)), alive, ready_writer))
    os.close(ready_writer)
    if kernel.unshare(kernel.CLONE_NEWNET | (kernel.CLONE_NEWUSER if user else 0)):
        sys.exit("cannot create a network namespace")
    if user:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{user} {user} 1")
        _write("/proc/self/gid_map", f"{group} {group} 1")
    holder = os.fork()
    if not holder:
        _in_child(lambda: _hold_namespace(alive, pid_writer))
    os.close(pid_writer)
    if not os.read(ready_reader, 1):
        os.kill(holder, signal.SIGKILL)
        sys.exit(f"{tool} did not connect the network of a sandbox")
    _configure(network, own)
    for fd in (alive, pid_reader, ready_reader):
        os.close(fd)
    os.execv(command[0], command)


def _in_child(work: Callable[[], None]) -> NoReturn:
    try:
        os.setsid()
        work()
    finally:
        os._exit(1)


def _hold_namespace(alive: int, pid_writer: int) -> None:
    """The process by which a tool finds the namespace; without capabilities, because pasta may not
    look at a process that has more than itself."""
    _close_others(alive, pid_writer)
    kernel.drop_capabilities()
    os.write(pid_writer, str(os.getpid()).encode())
    os.close(pid_writer)
    os.read(alive, 1)
    os._exit(0)


def _run_tool(tool: str, holder: int, alive: int, ready: int) -> None:
    """slirp4netns reports on `ready` and ends with `alive`. pasta has connected the network when it
    goes to the background."""
    namespace = f"/proc/{holder}/ns"
    for name in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(name, signal.SIG_DFL)  # pasta does not start where one is ignored
    for fd in (alive, ready):
        os.set_inheritable(fd, True)
    _close_others(alive, ready)
    if os.path.basename(tool) == "slirp4netns":
        argv = [tool, "--disable-host-loopback", "--enable-seccomp"]
        argv += [f"--exit-fd={alive}", f"--ready-fd={ready}", f"--mtu={MTU}"]
        # Its own sandbox works for root only.
        argv.append(f"--userns-path={namespace}/user" if os.getuid() else "--enable-sandbox")
        os.execv(tool, [*argv, "--netns-type=path", f"{namespace}/net", DEVICE])
    network = NETWORKS["pasta"]
    argv = [tool, "--quiet", "-4", "--no-map-gw"]
    for forwarding in ("-t", "-u", "-T", "-U"):
        argv += [forwarding, "none"]
    argv += ["--address", network.address, "--netmask", "32", "--gateway", network.next_hop]
    argv += ["--dns-forward", network.name_server, "--ns-ifname", DEVICE, "--mtu", str(MTU)]
    argv += ["--userns", f"{namespace}/user"] if os.getuid() else ["--runas", "0"]
    argv += ["--netns", f"{namespace}/net"]
    for fd in (alive, ready):
        os.set_inheritable(fd, False)
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)  # what goes to the background is ours to end
    if os.spawnv(os.P_WAIT, tool, argv) == 0:
        os.write(ready, b"1")
        os.close(ready)
        os.read(alive, 1)
    process_tree.kill_descendants(os.getpid())
    os._exit(0)


def _close_others(*kept: int) -> None:
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd > 2 and fd not in kept:
            try:
                os.close(fd)
            except OSError:
                continue  # that of the listing itself


def _configure(network: Network, own: list[str]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for device in ("lo", DEVICE):
            _bring_up(sock, device)
    # Without it, there is an address of the link, where nothing answers.
    with contextlib.suppress(OSError):
        _write(f"/proc/sys/net/ipv6/conf/{DEVICE}/disable_ipv6", "1")
    index = socket.if_nametoindex(DEVICE)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as link:
        _request(link, _RTM_NEWADDR, _address_message(network.address, index))
        for each in dict.fromkeys((network.next_hop, network.name_server)):
            _request(link, _RTM_NEWROUTE, _route_message(f"{each}/32", index=index))
        for each in (*_UNREACHABLE, *(f"{address}/32" for address in own)):
            # The machine may have the same address as the namespace: that one is local here.
            if each not in (f"{address}/32" for address in network) and each[:4] != "127.":
                _request(link, _RTM_NEWROUTE, _route_message(each))
        route = _route_message("0.0.0.0/0", index=index, via=network.next_hop)
        _request(link, _RTM_NEWROUTE, route)


_SIOCGIFFLAGS, _SIOCSIFFLAGS, _SIOCSIFMTU, _IFF_UP = 0x8913, 0x8914, 0x8922, 1
_RTM_NEWADDR, _RTM_NEWROUTE = 20, 24
_NLM_FLAGS = 0x1 | 0x4 | 0x100 | 0x400  # request, acknowledge, replace, create
_IFA_LOCAL, _IFA_ADDRESS = 2, 1
_RTA_DST, _RTA_OIF, _RTA_GATEWAY = 1, 4, 5
_RT_TABLE_MAIN, _RTPROT_STATIC, _RT_SCOPE_LINK, _RT_SCOPE_UNIVERSE = 254, 4, 253, 0
_RTN_UNICAST, _RTN_UNREACHABLE = 1, 7


def _bring_up(sock: socket.socket, device: str) -> None:
    if device == DEVICE:
        fcntl.ioctl(sock, _SIOCSIFMTU, struct.pack("16sI12x", device.encode(), MTU))
    request = struct.pack("16sH14x", device.encode(), 0)
    (flags,) = struct.unpack_from("H", fcntl.ioctl(sock, _SIOCGIFFLAGS, request), 16)
    fcntl.ioctl(sock, _SIOCSIFFLAGS, struct.pack("16sH14x", device.encode(), flags | _IFF_UP))


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("HH", len(value) + 4, kind) + value


def _address_message(address: str, index: int) -> bytes:
    packed = socket.inet_aton(address)
    head = struct.pack("BBBBI", socket.AF_INET, 32, 0, 0, index)
    return head + _attribute(_IFA_LOCAL, packed) + _attribute(_IFA_ADDRESS, packed)


def _route_message(target: str, *, index: int = 0, via: str = "") -> bytes:
    """Without a device: an unreachable route."""
    network = ipaddress.ip_network(target)
    kind = _RTN_UNICAST if index else _RTN_UNREACHABLE
    scope = _RT_SCOPE_LINK if index and not via else _RT_SCOPE_UNIVERSE
    head = struct.pack(
        "BBBBBBBBI",
        *(socket.AF_INET, network.prefixlen, 0, 0),
        *(_RT_TABLE_MAIN, _RTPROT_STATIC, scope, kind, 0),
    )
    message = head + _attribute(_RTA_DST, network.network_address.packed)
    if via:
        message += _attribute(_RTA_GATEWAY, socket.inet_aton(via))
    return message + (_attribute(_RTA_OIF, struct.pack("I", index)) if index else b"")


def _request(link: socket.socket, kind: int, message: bytes) -> None:
    link.send(struct.pack("IHHII", len(message) + 16, kind, _NLM_FLAGS, 1, 0) + message)
    (error,) = struct.unpack_from("i", link.recv(65536), 16)
    if error:
        raise OSError(-error, f"cannot configure the network: {os.strerror(-error)}")


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
