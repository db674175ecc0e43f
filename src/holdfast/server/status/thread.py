"""Serves the status socket from its own thread: it answers while the gateway starts or hangs.

The event loop is asked first, for a few milliseconds; else its last snapshot is served. The
heartbeat of the loop tells whether it hangs.
"""

import asyncio
import errno
import logging
import os
import resource
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import msgspec

from holdfast import __version__
from holdfast.core.ops.status import EventLoopStatus, GatewaySnapshot, MachineStatus, StatusReport
from holdfast.core.ports.runtime import Clock
from holdfast.core.text.translatable import Translatable
from holdfast.server.status.problems import find_problems
from holdfast.system.paths import Paths, private_dir

log = logging.getLogger(__name__)


TICK_SECONDS = 1.0
_RECENT_SECONDS = 60.0


class Heartbeat:
    """Owns the tick on one loop while its context is open.

    `age`, `lag` and `status` may be read from any thread: each attribute is written whole.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, clock: Clock, tick: float = TICK_SECONDS
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._tick = tick
        self._last_tick = clock.monotonic()
        self._timer: asyncio.TimerHandle | None = None
        self._recent_lags: deque[float] = deque(maxlen=max(1, round(_RECENT_SECONDS / tick)))
        self.lag = 0.0  # how late the last tick came
        self.worst_lag = 0.0

    def __enter__(self) -> Self:
        self._last_tick = self._clock.monotonic()
        self._timer = self._loop.call_later(self._tick, self._on_tick)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    @property
    def age(self) -> float:
        """Seconds since the loop was last seen turning."""
        return max(0.0, self._clock.monotonic() - self._last_tick)

    @property
    def status(self) -> EventLoopStatus:
        """A tick that is overdue counts as late already: a loop that hangs makes none."""
        age = self.age
        overdue = max(0.0, age - self._tick)
        return EventLoopStatus(
            age=age,
            lag=max(self.lag, overdue),
            worst_minute=max(overdue, *self._recent_lags.copy(), self.lag),
            worst=max(self.worst_lag, overdue),
        )

    def _on_tick(self) -> None:
        now = self._clock.monotonic()
        self.lag = max(0.0, now - self._last_tick - self._tick)
        self.worst_lag = max(self.worst_lag, self.lag)
        self._recent_lags.append(self.lag)
        self._last_tick = now
        self._timer = self._loop.call_later(self._tick, self._on_tick)


ANSWER_TIMEOUT = 0.04  # seconds in which the loop may answer before its last snapshot is served
# A snapshot this young is served again: frequent status requests must not load the loop.
_FRESH_FOR = 0.05

FreshSnapshot = Callable[[], Coroutine[Any, Any, GatewaySnapshot]]


class SnapshotCache:
    """Owns the last snapshot, and the one request to the loop that may be open.

    `request_fresh`, `wait_for_answer` and `latest` are for other threads than the loop's; the
    rest is the loop's.
    """

    def __init__(self, *, clock: Clock, timeout: float = ANSWER_TIMEOUT) -> None:
        self._clock = clock
        self._timeout = timeout
        self._latest: tuple[GatewaySnapshot, float] = (GatewaySnapshot(), clock.monotonic())
        self._request: Callable[[], object] | None = None
        self._answered = threading.Event()  # no request is open
        self._answered.set()
        self._answered_at = -_FRESH_FOR
        self._task: asyncio.Task[None] | None = None

    def publish(self, snapshot: GatewaySnapshot) -> None:
        """Replace the snapshot that is served while the loop does not answer."""
        self._latest = (snapshot, self._clock.monotonic())

    def attach_loop(self, loop: asyncio.AbstractEventLoop, fresh: FreshSnapshot) -> None:
        """Request snapshots from this loop from now on."""
        self._request = lambda: loop.call_soon_threadsafe(self._start_task, loop, fresh)

    def latest(self) -> tuple[GatewaySnapshot, float]:
        """The last snapshot, and its age in seconds."""
        snapshot, at = self._latest
        return snapshot, max(0.0, self._clock.monotonic() - at)

    def request_fresh(self) -> float:
        """Request a fresh snapshot, and return until when to wait for it. While an earlier request
        is open no second one is made: a loop that has not answered it will not be quicker."""
        now = self._clock.monotonic()
        young = now - self._answered_at <= _FRESH_FOR
        if self._request is None or young or not self._answered.is_set():
            return now
        self._answered.clear()
        try:
            self._request()
        except RuntimeError:
            return now  # the loop is closed: its last snapshot is served
        return now + self._timeout

    def wait_for_answer(self, until: float) -> None:
        """Until the answer is there, at most until then."""
        self._answered.wait(max(0.0, until - self._clock.monotonic()))

    def _start_task(self, loop: asyncio.AbstractEventLoop, fresh: FreshSnapshot) -> None:
        self._task = loop.create_task(self._refresh(fresh), name="status")
        self._task.add_done_callback(self._on_done)

    async def _refresh(self, fresh: FreshSnapshot) -> None:
        """Published without an await after `fresh`, so that it never replaces a newer snapshot."""
        self.publish(await fresh())

    def _on_done(self, answer: asyncio.Task[None]) -> None:
        if not answer.cancelled() and (error := answer.exception()) is not None:
            log.error(
                "Could not compute the status snapshot: %r",
                error,
                extra={"action": "status_failed"},
            )
        self._answered_at = self._clock.monotonic()
        self._answered.set()


ReadUnitDrift = Callable[[], Sequence[Translatable]]

_STATM, _FD_DIRECTORY = "/proc/self/statm", "/proc/self/fd"


def read_machine_status(paths: Paths, *, unit_drift: ReadUnitDrift) -> MachineStatus:
    """Reads disk, memory and files of this process. Not for the event loop: a disk may be slow.
    `unit_drift` reads where an installed unit disagrees with the configuration."""
    free, size = _disk_space(paths.home)
    drift = tuple(unit_drift())
    return MachineStatus(
        disk_free=free,
        disk_size=size,
        database=_file_size(paths.db),
        wal=_file_size(paths.db.with_name(paths.db.name + "-wal")),
        search=_file_size(paths.search_db),
        memory=resident_memory(),
        files=_open_files(),
        max_files=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        unit_drift=tuple(map(str, drift)),
        drift_texts=drift or msgspec.UNSET,
    )


def _disk_space(path: Path) -> tuple[int, int] | tuple[None, None]:
    try:
        found = os.statvfs(path)
    except OSError:
        return None, None
    return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize


def _file_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def resident_memory() -> int | None:
    """Bytes of this process. The kernel has them in memory: no disk is read."""
    try:
        file = os.open(_STATM, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return int(os.read(file, 200).split()[1]) * resource.getpagesize()
    finally:
        os.close(file)


def _open_files() -> int | None:
    """Counted by the kernel. Listing them would be one call for each, each waiting for the
    interpreter lock. An older kernel says 0 here, which means unknown."""
    try:
        return os.stat(_FD_DIRECTORY).st_size or None
    except OSError:
        return None


HANGING_AFTER = 5.0


class StatusReporter:
    """Makes the status report: a snapshot with what can be seen from outside of the event loop.

    It reads the disk: call it from any thread but the event loop's."""

    def __init__(
        self,
        paths: Paths,
        *,
        clock: Clock,
        unit_drift: ReadUnitDrift,
        hanging_after: float = HANGING_AFTER,
    ) -> None:
        self._paths = paths
        self._clock = clock
        self._hanging_after = hanging_after
        self._started_at = clock.now()
        self._heartbeat: Heartbeat | None = None
        self._unit_drift = unit_drift

    def watch_heartbeat(self, heartbeat: Heartbeat) -> None:
        """Use this heartbeat to tell whether the event loop hangs."""
        self._heartbeat = heartbeat

    @property
    def loop(self) -> EventLoopStatus | None:
        return None if self._heartbeat is None else self._heartbeat.status

    def read_host(self) -> MachineStatus:
        return read_machine_status(self._paths, unit_drift=self._unit_drift)

    def report(
        self,
        snapshot: GatewaySnapshot,
        *,
        snapshot_age: float = 0.0,
        host: MachineStatus | None = None,
    ) -> StatusReport:
        """The state is that of the snapshot as long as the loop turns, else `hanging`. `host`: if
        it was read already."""
        now = self._clock.now()
        loop = self.loop
        hanging = loop is not None and loop.age > self._hanging_after
        document = StatusReport(
            state="hanging" if hanging else snapshot.state,
            pid=os.getpid(),
            version=__version__,
            home=str(self._paths.home),
            started_at=self._started_at,
            uptime=now - self._started_at,
            snapshot_age=snapshot_age,
            loop=loop,
            machine=host or self.read_host(),
            snapshot=snapshot,
        )
        return msgspec.structs.replace(document, problems=find_problems(document, now=now))


_SEND_TIMEOUT = 0.5
_NO_FILES_DELAY = 0.1  # seconds between two attempts while the process has no free file descriptor
_WARM_UP_AFTER = 3.0  # seconds after which a start is over, if no client came
_MAX_CLIENTS = 64  # clients that get the same report


class StatusThread:
    """Owns the status socket and the last snapshot, while its context is open.

    Only the holder of the home's lock may enter it: it replaces any socket file it finds. Each
    client that connects gets one JSON `StatusReport` and the end of the stream.
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
        """`unit_drift` reads where an installed unit disagrees with the configuration."""
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
        """Replace the snapshot that is served while the loop does not answer."""
        self._cache.publish(snapshot)

    def watch_heartbeat(self, heartbeat: Heartbeat) -> None:
        """Use this heartbeat to tell whether the event loop hangs."""
        self.reporter.watch_heartbeat(heartbeat)

    def attach_loop(self, loop: asyncio.AbstractEventLoop, fresh: FreshSnapshot) -> None:
        """From now on each request asks the loop first."""
        self._cache.attach_loop(loop, fresh)

    def report(self, host: MachineStatus | None = None) -> bytes:
        """What a client gets, computed now."""
        snapshot, age = self._cache.latest()
        return msgspec.json.encode(self.reporter.report(snapshot, snapshot_age=age, host=host))

    def _serve(self, listener: socket.socket, woken: socket.socket) -> None:
        with listener, woken, selectors.DefaultSelector() as selector:
            selector.register(listener, selectors.EVENT_READ)
            selector.register(woken, selectors.EVENT_READ)
            if not selector.select(_WARM_UP_AFTER):
                # Warm the caches, so that the first client does not wait for it.
                self.reporter.read_host()
            while True:
                ready = {key.fileobj for key, _ in selector.select()}
                if woken in ready:
                    return
                self._serve_clients(listener)

    def _serve_clients(self, listener: socket.socket) -> None:
        """All waiting clients get the same report: the loop is asked once for them."""
        with ExitStack() as clients:
            waiting = list(_accept_clients(listener, clients))
            if not waiting:
                return
            until = self._cache.request_fresh()
            machine = self.reporter.read_host()  # while the loop answers
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
                # The waiting client would be selected again at once.
                time.sleep(_NO_FILES_DELAY)
            return  # no client is left, or it has gone
        yield clients.enter_context(client)


def _send(client: socket.socket, report: bytes) -> None:
    try:
        client.settimeout(_SEND_TIMEOUT)
        client.sendall(report)
    except OSError:
        pass  # one that left or does not read gets nothing; the next one is served
