"""Status from a thread of its own: it answers while the gateway starts, drains or hangs."""

import asyncio
import errno
import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from typing import Any, Self

import msgspec

from holdfast.control.heartbeat import Heartbeat
from holdfast.control.machine import Drift
from holdfast.control.outside import HANGING_AFTER, Outside
from holdfast.core.facts import Snapshot
from holdfast.core.ports import Clock
from holdfast.service.paths import Paths, private_dir

log = logging.getLogger(__name__)

_FRESH_WITHIN = 0.04  # seconds in which the loop may say how it is, before its last word is served
# An answer so young is served again: however often status is asked for, the loop has other work.
_YOUNG = 0.05
_SEND_TIMEOUT = 0.5
_NO_FILES = 0.1  # seconds between two looks while the process may open no file
_TOGETHER = 64  # clients that get one document

Fresh = Callable[[], Coroutine[Any, Any, Snapshot]]


class StatusThread:
    """Owns the status socket and the last snapshot, while its context is open.

    To be entered by the holder of the home's lock alone: it replaces whatever socket file it
    finds. Whoever connects gets one JSON document (`core.facts.Document`) and the end of the
    stream.
    """

    def __init__(
        self,
        paths: Paths,
        *,
        clock: Clock,
        drift: Drift = tuple,
        hanging_after: float = HANGING_AFTER,
    ) -> None:
        """`drift` reads, when asked, where an installed unit disagrees with the configuration."""
        self._socket_path = paths.status_socket
        self._clock = clock
        self._published: tuple[Snapshot, float] = (Snapshot(), clock.monotonic())
        self._loop: asyncio.AbstractEventLoop | None = None
        self._fresh: Fresh | None = None
        self._answered = threading.Event()  # the loop owes no answer
        self._answered.set()
        self._renewing: asyncio.Task[Snapshot] | None = None
        self._renewed_at = -_YOUNG
        self._wake: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self.outside = Outside(paths, clock=clock, drift=drift, hanging_after=hanging_after)

    def __enter__(self) -> Self:
        private_dir(self._socket_path.parent)
        self._socket_path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(self._socket_path))
        self._socket_path.chmod(0o600)
        listener.listen(64)
        listener.setblocking(False)
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
        self._thread = None  # left twice, it must not remove the socket of a successor
        self._socket_path.unlink(missing_ok=True)

    def publish(self, snapshot: Snapshot) -> None:
        """Replace what is served where the loop does not answer."""
        self._published = (snapshot, self._clock.monotonic())

    def watch(self, heartbeat: Heartbeat) -> None:
        """Judge by this heartbeat from now on whether the gateway hangs."""
        self.outside.watch(heartbeat)

    def ask(self, loop: asyncio.AbstractEventLoop, fresh: Fresh) -> None:
        """From now on the loop is asked first, whoever asks here."""
        self._loop, self._fresh = loop, fresh

    def document(self) -> bytes:
        """What a client gets, computed now."""
        snapshot, at = self._published
        seen = max(0.0, self._clock.monotonic() - at)
        return msgspec.json.encode(self.outside.document(snapshot, seen=seen))

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
        """All who have come get the same document: the loop is asked once for them."""
        with ExitStack() as clients:
            waiting = list(_accepted(listener, clients))
            if not waiting:
                return
            self._refresh()
            document = self.document()
            for client in waiting:
                _send(client, document)

    def _refresh(self) -> None:
        """Have the loop say how it is, if it is there to say. One that has not answered an
        earlier question is not waited for: it will not be quicker with the next."""
        if self._loop is None or self._fresh is None:
            return
        if self._answered.is_set() and self._clock.monotonic() - self._renewed_at > _YOUNG:
            self._answered.clear()
            try:
                self._loop.call_soon_threadsafe(self._begin, self._loop, self._fresh)
            except RuntimeError:
                return  # it is closed: its last word stands
            self._answered.wait(_FRESH_WITHIN)

    def _begin(self, loop: asyncio.AbstractEventLoop, fresh: Fresh) -> None:
        self._renewing = loop.create_task(fresh(), name="status")
        self._renewing.add_done_callback(self._renewed)

    def _renewed(self, done: asyncio.Task[Snapshot]) -> None:
        if not done.cancelled() and (error := done.exception()) is not None:
            log.error("Status is not known: %r", error, extra={"action": "status_failed"})
        elif not done.cancelled():
            self.publish(done.result())
        self._renewed_at = self._clock.monotonic()
        self._answered.set()


def _accepted(listener: socket.socket, clients: ExitStack) -> Iterator[socket.socket]:
    for _ in range(_TOGETHER):
        try:
            client, _ = listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                time.sleep(_NO_FILES)  # whoever waits is still there, and would be seen at once
            return  # nobody is left, or whoever was there has gone
        yield clients.enter_context(client)


def _send(client: socket.socket, document: bytes) -> None:
    try:
        client.settimeout(_SEND_TIMEOUT)
        client.sendall(document)
    except OSError:
        pass  # one that left or does not read gets nothing; the next one is served
