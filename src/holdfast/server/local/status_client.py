"""Reads the status socket of a home.

Imports neither `http` nor `asyncio`: health checks pay for each import.
"""

import socket
from pathlib import Path

from holdfast.core.errors import HoldfastError
from holdfast.system.paths import Paths, check_owner

STATUS_TIMEOUT = 2.0


class GatewayDown(HoldfastError):
    """No gateway answers for this home."""


class GatewayStoreUnavailable(GatewayDown):
    """The gateway answers, but its store can be neither read nor written now."""


def read_status_report(paths: Paths, *, timeout: float = STATUS_TIMEOUT) -> bytes:
    """The `StatusReport` as JSON; raises `GatewayDown` if no gateway serves one."""
    try:
        with connect_socket(paths.status_socket, paths, timeout=timeout) as connection:
            document = b"".join(iter(lambda: connection.recv(65536), b""))
    except (TimeoutError, ConnectionError) as error:
        raise _not_answering(paths, str(error)) from None
    if not document.endswith(b"}"):
        raise _not_answering(paths, "it closed the connection in the middle of the answer")
    return document


def connect_socket(path: Path, paths: Paths, *, timeout: float) -> socket.socket:
    """A connection to a socket of the home's gateway; raises `GatewayDown` when there is none."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(timeout)
    try:
        # Under /tmp another user may have made the directory, to intercept what we send.
        check_owner(path.parent)
        connection.connect(str(path))
    except (FileNotFoundError, ConnectionRefusedError):
        connection.close()
        raise GatewayDown(
            "No gateway is running for {home}. Start it with `holdfast run`.", home=paths.home
        ) from None
    except PermissionError:
        connection.close()
        raise HoldfastError(
            "This user is not allowed to open {file}. Run the command as the user who runs the "
            "gateway.",
            file=path,
        ) from None
    except (OSError, HoldfastError):
        connection.close()
        raise
    return connection


def _not_answering(paths: Paths, reason: str) -> GatewayDown:
    return GatewayDown(
        "The status socket of the gateway of {home} does not answer: {reason}",
        home=paths.home,
        reason=reason,
    )
