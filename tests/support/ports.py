"""Free ports for servers that are configured with a port before they listen on it."""

import os
import random
import socket

# Below the ephemeral ports, so that no other process gets one between the choice and the listening,
# or while a killed server is down.
_PORTS = range(12_000, 32_000)


def own_port() -> int:
    return own_ports(1)[0]


def own_ports(number: int) -> list[int]:
    """That many distinct ports on which nothing listens."""
    chosen = random.Random(os.urandom(8)).sample(_PORTS, len(_PORTS))
    free = (port for port in chosen if _is_free(port))
    return [next(free) for _ in range(number)]


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
