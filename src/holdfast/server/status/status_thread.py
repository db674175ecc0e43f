"""Status from a thread of its own: it answers while the gateway starts, drains or hangs."""

import asyncio
import errno
import selectors
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Self

import msgspec

from holdfast.core.ops.facts import GatewaySnapshot, MachineStatus
from holdfast.core.ports.protocols import Clock
from holdfast.server.status.heartbeat import Heartbeat
from holdfast.server.status.last_word import ANSWER_TIMEOUT, FreshSnapshot, SnapshotCache
from holdfast.server.status.machine import ReadUnitDrift
from holdfast.server.status.outside import HANGING_AFTER, StatusReporter
from holdfast.system.paths import Paths, private_dir

_SEND_TIMEOUT = 0.5
_NO_FILES_DELAY = 0.1  # seconds between two looks while the process may open no file
_WARM_UP_AFTER = 3.0  # seconds after which a start is over and nobody has asked
_MAX_CLIENTS = 64  # clients that get one document


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
        unit_drift: ReadUnitDrift = tuple,
        hanging_after: float = HANGING_AFTER,
        answer_timeout: float = ANSWER_TIMEOUT,
    ) -> None:
        """`drift` reads, when asked, where an installed unit disagrees with the configuration."""
        self._socket_path = paths.status_socket
        self._cache = SnapshotCache(clock=clock, timeout=answer_timeout)
        self._wake: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self.reporter = StatusReporter(
            paths, clock=clock, unit_drift=unit_drift, hanging_after=hanging_after
        )

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

    def publish(self, snapshot: GatewaySnapshot) -> None:
        """Replace what is served where the loop does not answer."""
        self._cache.publish(snapshot)

    def watch_heartbeat(self, heartbeat: Heartbeat) -> None:
        """Judge by this heartbeat from now on whether the gateway hangs."""
        self.reporter.watch_heartbeat(heartbeat)

    def attach_loop(self, loop: asyncio.AbstractEventLoop, fresh: FreshSnapshot) -> None:
        """From now on the loop is asked first, whoever asks here."""
        self._cache.attach_loop(loop, fresh)

    def report(self, host: MachineStatus | None = None) -> bytes:
        """What a client gets, computed now."""
        snapshot, seen = self._cache.latest()
        return msgspec.json.encode(self.reporter.report(snapshot, snapshot_age=seen, host=host))

    def _serve(self, listener: socket.socket, woken: socket.socket) -> None:
        with listener, woken, selectors.DefaultSelector() as selector:
            selector.register(listener, selectors.EVENT_READ)
            selector.register(woken, selectors.EVENT_READ)
            if not selector.select(_WARM_UP_AFTER):
                # What the first look costs, nobody who asks later has to wait for.
                self.reporter.read_host()
            while True:
                ready = {key.fileobj for key, _ in selector.select()}
                if woken in ready:
                    return
                self._serve_clients(listener)

    def _serve_clients(self, listener: socket.socket) -> None:
        """All who have come get the same document: the loop is asked once for them."""
        with ExitStack() as clients:
            waiting = list(_accept_clients(listener, clients))
            if not waiting:
                return
            until = self._cache.request_fresh()
            machine = self.reporter.read_host()  # while the loop thinks
            self._cache.wait_for_answer(until)
            document = self.report(machine)
            for client in waiting:
                _send(client, document)


def _accept_clients(listener: socket.socket, clients: ExitStack) -> Iterator[socket.socket]:
    for _ in range(_MAX_CLIENTS):
        try:
            client, _ = listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                time.sleep(
                    _NO_FILES_DELAY
                )  # whoever waits is still there, and would be seen at once
            return  # nobody is left, or whoever was there has gone
        yield clients.enter_context(client)


def _send(client: socket.socket, report: bytes) -> None:
    try:
        client.settimeout(_SEND_TIMEOUT)
        client.sendall(report)
    except OSError:
        pass  # one that left or does not read gets nothing; the next one is served
