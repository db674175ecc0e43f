"""The ground that a gateway stands on: the lock of its home, and what was left to it."""

import socket
from collections.abc import Sequence

import msgspec

from holdfast.system.lock import HomeLock


class LaunchOptions(msgspec.Struct, frozen=True, kw_only=True):
    lock: HomeLock  # taken already, or to be taken
    sockets: Sequence[socket.socket] = ()  # that listen, and are its own from now on
    unattended: bool = False  # nobody reads its output: it logs to its file alone
