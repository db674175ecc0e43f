"""The ground that a gateway stands on: the lock of its home, and what was left to it."""

import socket
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.service.lock import HomeLock


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    lock: HomeLock  # taken already, or to be taken
    sockets: Sequence[socket.socket] = ()  # that listen, and are its own from now on
    unattended: bool = False  # nobody reads its output: it logs to its file alone
