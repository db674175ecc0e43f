"""Checks whether a gateway could start in a home, and takes over from the running one.

`run --replace` leaves no gap: the sockets are handed over.

Imports the store, the models and the runner: import this module inside functions only.
"""

import os
import select
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from typing import Self

from holdfast.agent.memory.providers import check_providers
from holdfast.config import Config
from holdfast.core.config.settings import GatewaySettings, Provider
from holdfast.core.errors import HoldfastError
from holdfast.core.text.translation import _
from holdfast.models.fallback import model_targets
from holdfast.server.local.control_client import ControlClient, GatewayDown
from holdfast.store.implementations import closed_store
from holdfast.system.lock import (
    HomeInUse,
    HomeLock,
    LockHolder,
    read_holder,
    terminate,
    verify_holder,
)
from holdfast.system.paths import Paths
from holdfast.system.socket_handover import HandoverFailed, HandoverNote, HandoverReceiver


class CannotStart(HoldfastError):
    """A gateway would not start; why, and what to do."""


def check_can_start(config: Config, *, schema: int = 0) -> None:
    """Raises what a start would raise. Nothing is written, locked or connected to.

    `schema` is the schema version that the running gateway knows: its last migration may still be
    in the WAL beside the file, where only SQLite would find it.
    """
    import_module("holdfast.service.main")  # and with it everything that a start imports
    store = closed_store(Paths(config.home).db, config.store)
    known = store.newest_schema
    if schema > known:
        raise CannotStart(
            "The store of {home} has schema version {schema}, but this installation only knows "
            "versions up to {known}. Install the Holdfast that wrote the store, or a newer one.",
            home=config.home,
            schema=schema,
            known=known,
        )
    store.check_openable()
    settings = config.settings
    if settings.model.provider is not Provider.AUTO:
        model_targets(settings.model, secrets=config.secrets)
    check_providers(settings.memory.providers)


class LockWait:
    """Owns the thread that waits for the lock. Only the end of the process cancels it."""

    def __init__(self, lock: HomeLock) -> None:
        self._lock = lock
        self._wake_socket, self._done_socket = socket.socketpair()
        self._failed: HoldfastError | None = None
        self._thread = threading.Thread(target=self._acquire, name="lock", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._wake_socket.close()

    def wait(self, *, timeout: float) -> bool:
        """True: the lock is ours; False: it was not free within the timeout."""
        poll = select.poll()
        poll.register(self._wake_socket, select.POLLIN)
        if not poll.poll(max(0.0, timeout) * 1000):
            return False
        self._thread.join()
        if self._failed is not None:
            raise self._failed
        return True

    def _acquire(self) -> None:
        try:
            self._lock.wait()
        except HoldfastError as error:
            self._failed = error
        finally:
            self._done_socket.close()


RESPONSE_TIMEOUT = 10.0  # seconds; of the running gateway, when it is asked to hand over
_SPARE_SECONDS = 5.0  # more than the longest stop
_MIN_STOP_TIMEOUT = 90.0

ReportProgress = Callable[[str], None]
HandoverFuture = Future[tuple[HandoverNote, list[socket.socket]]]


class RestartDelegated(HoldfastError):
    """A supervisor runs that gateway, and has been asked to restart it instead."""


class Takeover:
    """Owns one attempt to take over a home."""

    def __init__(
        self,
        config: Config,
        *,
        lock: HomeLock,
        report: ReportProgress,
        response_timeout: float = RESPONSE_TIMEOUT,
        stop_timeout: float | None = None,
    ) -> None:
        self._home = config.home
        self._lock = lock
        self._config = config
        self._paths = Paths(config.home)
        self._report = report
        self._response_timeout = response_timeout
        self._stop_timeout = stop_timeout or _stop_deadline(config.settings.gateway)

    def take_over(self) -> list[socket.socket]:
        """Returns with the lock held, and with the sockets of the gateway that held it.

        Without a running gateway there are none, and this is an ordinary start. Raises
        `RestartDelegated` when a supervisor restarts it; after any other error the running gateway
        continues.
        """
        try:
            self._lock.acquire()
            return []
        except HomeInUse as in_use:
            holder = in_use.holder
        check_can_start(self._config)  # before the running gateway is asked to stop
        sockets = self._take_over_from(holder)
        self._report(_("This process has taken over."))
        return sockets

    def _take_over_from(self, holder: LockHolder | None) -> list[socket.socket]:
        if holder is None or holder.purpose != "gateway":
            # A command reads the store, or the holder has not written its name yet.
            with LockWait(self._lock) as waiting:
                if not waiting.wait(timeout=self._response_timeout):
                    raise HomeInUse(self._home, read_holder(self._home))
            return []
        sockets: list[socket.socket] = []
        why, timeout = _("Its stop took too long."), self._stop_timeout
        try:
            sockets = self._receive_sockets(holder)
        except (GatewayDown, HandoverFailed) as error:
            why, timeout = error.for_person(), self._response_timeout  # it may be stopping already
        # Not before it was asked: if a supervisor starts another gateway, that one gets the lock.
        with LockWait(self._lock) as waiting:
            if not waiting.wait(timeout=timeout):
                self._force(holder, waiting, reason=why)
        return sockets

    def _receive_sockets(self, holder: LockHolder) -> list[socket.socket]:
        """Asks the running gateway for its sockets, and follows the phases of its stop."""
        self._report(_("Asking process {pid} to hand over …").format(pid=holder.pid))
        with HandoverReceiver(self._paths) as receiver, ThreadPoolExecutor(1) as waiting:
            given: HandoverFuture = waiting.submit(
                receiver.receive, sender_pid=holder.pid, timeout=self._response_timeout
            )
            try:
                self._request_handover(str(receiver.path))
            except BaseException:
                receiver.cancel()
                raise
            return given.result()[1]

    def _request_handover(self, socket_path: str) -> None:
        """Returns when it has handed over and has reported the phases of its stop."""
        client = ControlClient(self._paths, timeout=self._response_timeout)
        # A phase may last longer than this waits; the caller waits for the lock, which decides.
        with suppress(TimeoutError):
            for line in client.follow("/handover", {"to": socket_path}):
                if supervisor := line.get("supervisor"):
                    self._delegate(client, str(supervisor))
                self._report(str(line["phase"]))

    def _delegate(self, client: ControlClient, supervisor: str) -> None:
        self._report(
            _("{supervisor} runs this gateway and is asked to restart it.").format(
                supervisor=supervisor
            )
        )
        with suppress(TimeoutError):
            for line in client.follow("/restart", {}):
                self._report(str(line["phase"]))
        raise RestartDelegated(
            "{supervisor} runs the gateway of {home} and restarts it; this process is not needed. "
            "`holdfast gateway status` shows its state.",
            home=self._home,
            supervisor=supervisor,
        )

    def _force(self, holder: LockHolder, waiting: LockWait, *, reason: str) -> None:
        """Signals the holder, once its identity is proven."""
        self._report(reason)
        fd = verify_holder(self._home, holder)
        if fd is not None:
            try:
                terminate(fd, timeout=self._stop_timeout, report=self._report)
            finally:
                os.close(fd)
        if not waiting.wait(timeout=self._response_timeout):
            raise HomeInUse(self._home, read_holder(self._home))


def _stop_deadline(settings: GatewaySettings) -> float:
    return max(_MIN_STOP_TIMEOUT, settings.longest_stop + _SPARE_SECONDS)
