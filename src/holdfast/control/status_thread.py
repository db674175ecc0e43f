"""Status from a thread of its own: it answers while the gateway starts, drains or hangs."""

import os
import selectors
import socket
import threading
from collections.abc import Mapping
from typing import Any, Self

import msgspec

from holdfast import __version__
from holdfast.control.heartbeat import Heartbeat
from holdfast.core.ports import Clock
from holdfast.service.paths import Paths, private_dir

HANGING_AFTER = 5.0
_SEND_TIMEOUT = 1.0


class StatusThread:
    """Owns the status socket and the last snapshot, while its context is open.

    To be entered by the holder of the home's lock alone: it replaces whatever socket file it
    finds. Whoever connects gets one JSON document and the end of the stream.
    """

    def __init__(self, paths: Paths, *, clock: Clock, hanging_after: float = HANGING_AFTER) -> None:
        self._socket_path = paths.status_socket
        self._home = str(paths.home)
        self._clock = clock
        self._hanging_after = hanging_after
        self._started_at = clock.now()
        self._published: tuple[str, msgspec.Raw] = ("starting", msgspec.Raw(b"{}"))
        self._heartbeat: Heartbeat | None = None
        self._wake: socket.socket | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        private_dir(self._socket_path.parent)
        self._socket_path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(self._socket_path))
        self._socket_path.chmod(0o600)
        listener.listen(64)
        self._wake, woken = socket.socketpair()
        self._thread = threading.Thread(
            target=self._serve, args=(listener, woken), name="status", daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._thread is None or self._wake is None:
            return
        self._wake.close()
        self._thread.join()
        self._socket_path.unlink(missing_ok=True)

    def publish(self, snapshot: Mapping[str, Any]) -> None:
        """Replace what is served. `snapshot["state"]` is the gateway's own word for itself; it
        stands as long as the loop can be seen turning."""
        state = str(snapshot.get("state", "starting"))
        self._published = (state, msgspec.Raw(msgspec.json.encode(snapshot, enc_hook=str)))

    def watch(self, heartbeat: Heartbeat) -> None:
        """Judge by this heartbeat from now on whether the gateway hangs."""
        self._heartbeat = heartbeat

    def document(self) -> bytes:
        """What a client gets, computed now."""
        state, snapshot = self._published
        heart = self._heartbeat
        if heart is not None and heart.age > self._hanging_after:
            state = "hanging"
        return msgspec.json.encode(
            {
                "state": state,
                "pid": os.getpid(),
                "version": __version__,
                "home": self._home,
                "started_at": self._started_at,
                "uptime": self._clock.now() - self._started_at,
                "loop": heart and {"age": heart.age, "lag": heart.lag, "worst": heart.worst_lag},
                "snapshot": snapshot,
            }
        )

    def _serve(self, listener: socket.socket, woken: socket.socket) -> None:
        with listener, woken, selectors.DefaultSelector() as selector:
            selector.register(listener, selectors.EVENT_READ)
            selector.register(woken, selectors.EVENT_READ)
            while True:
                ready = {key.fileobj for key, _ in selector.select()}
                if woken in ready:
                    return
                self._answer(listener)

    def _answer(self, listener: socket.socket) -> None:
        try:
            client, _ = listener.accept()
            with client:
                client.settimeout(_SEND_TIMEOUT)
                client.sendall(self.document())
        except OSError:
            pass  # a client that left or does not read gets nothing; the next one is served
