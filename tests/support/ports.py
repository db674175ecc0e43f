"""Ports of a test's own, for servers that are told where to listen, and listen there later."""

import os
import random
import socket

# Below those that a system gives to whoever asks for any: between the choice and the listening,
# and while a server that is killed is away, nobody else comes to have it.
_OURS = range(12_000, 32_000)


def own_port() -> int:
    return own_ports(1)[0]


def own_ports(number: int) -> list[int]:
    """So many, each another, on which nobody listens."""
    chosen = random.Random(os.urandom(8)).sample(_OURS, len(_OURS))
    free = (port for port in chosen if _is_free(port))
    return [next(free) for _ in range(number)]


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
