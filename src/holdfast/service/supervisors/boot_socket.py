"""The boot's own small door: how `holdfast gateway start` reaches it while no gateway runs."""

import socket
from collections.abc import Callable
from typing import Self

from holdfast.core.errors import HoldfastError
from holdfast.system.paths import Paths, check_owner, private_dir

_SOCKET_TIMEOUT = 2.0
_MAX_BYTES = 64
SOCKET_NAME = "boot.sock"


class ContainerSocket:
    """Owns the door while its context is open: one word in, one word out."""

    def __init__(self, paths: Paths) -> None:
        self._path = paths.run / SOCKET_NAME
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    def __enter__(self) -> Self:
        private_dir(self._path.parent)
        self._path.unlink(missing_ok=True)
        self._listener.bind(str(self._path))
        self._path.chmod(0o600)
        self._listener.listen(16)
        return self

    def __exit__(self, *exc: object) -> None:
        self._listener.close()
        self._path.unlink(missing_ok=True)

    def fileno(self) -> int:
        """Readable when somebody is at the door."""
        return self._listener.fileno()

    def answer_one(self, handle: Callable[[str], str]) -> None:
        """Let one in. Who says nothing gets nothing, and holds nobody up for long."""
        try:
            client, _ = self._listener.accept()
            with client:
                client.settimeout(_SOCKET_TIMEOUT)
                word = client.recv(_MAX_BYTES).decode("ascii", "replace").strip()
                client.sendall(handle(word).encode() + b"\n")
        except OSError:
            pass


def ask_container_supervisor(paths: Paths, request: str) -> str | None:
    """What the boot of this home answers to "start" or "state"; None: there is no boot.

    "starting": it starts one now; else its state: `idle`, `running`, `waiting`, `leaving`.
    """
    try:
        check_owner(paths.run)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(_SOCKET_TIMEOUT)
            connection.connect(str(paths.run / SOCKET_NAME))
            connection.sendall(request.encode() + b"\n")
            return connection.recv(_MAX_BYTES).decode("ascii", "replace").strip()
    except (FileNotFoundError, ConnectionRefusedError):
        return None
    except OSError as error:
        raise HoldfastError(
            f"the boot of {paths.home} does not answer at {paths.run / SOCKET_NAME}: {error}"
        ) from None
