"""Replacing: this process takes the place of the gateway that holds the home, without a gap."""

import os
import socket
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from holdfast.cli.gateway.fitness import check
from holdfast.cli.gateway.lock_wait import LockWait
from holdfast.config import Config
from holdfast.core.config.settings import GatewaySettings
from holdfast.core.errors import HoldfastError
from holdfast.server.local.client import ControlClient, GatewayDown
from holdfast.system.lock import Holder, HomeInUse, HomeLock, read_holder
from holdfast.system.owner import end, prove
from holdfast.system.paths import Paths
from holdfast.system.socket_handover import Note, NotHandedOver, Reception

ANSWERS_WITHIN = 10.0  # the live one, when it is asked to hand over
_CLEAN_UP = 30.0  # seconds of a stop besides waiting for turns
_LEAST_STOP = 90.0

Tell = Callable[[str], None]
Given = Future[tuple[Note, list[socket.socket]]]


class Delegated(HoldfastError):
    """A supervisor keeps that gateway, and has been asked to restart it instead."""


class Replacement:
    """Owns one attempt to take over a home."""

    def __init__(
        self,
        config: Config,
        *,
        lock: HomeLock,
        tell: Tell,
        answers_within: float = ANSWERS_WITHIN,
        stops_within: float | None = None,
    ) -> None:
        self._home = config.home
        self._lock = lock
        self._config = config
        self._paths = Paths(config.home)
        self._tell = tell
        self._answers_within = answers_within
        self._stops_within = stops_within or _stop_deadline(config.settings.gateway)

    def take_over(self) -> list[socket.socket]:
        """Returns with the lock held, and with the sockets of the gateway that held it.

        Where nobody did there are none, and this is an ordinary start. Raises `Delegated` when a
        supervisor restarts it; whatever else is raised, the live one goes on, or says why not.
        """
        try:
            self._lock.acquire()
            return []
        except HomeInUse as in_use:
            holder = in_use.holder
        check(self._config)  # before anybody is asked to go for us
        sockets = self._from(holder)
        self._tell("this process has taken over")
        return sockets

    def _from(self, holder: Holder | None) -> list[socket.socket]:
        if holder is None or holder.purpose != "gateway":
            # Somebody reads the store for a moment, or has the lock and no name yet.
            with LockWait(self._lock) as waiting:
                if not waiting.over(within=self._answers_within):
                    raise HomeInUse(self._home, read_holder(self._home))
            return []
        sockets: list[socket.socket] = []
        why, patience = "its stop has taken too long", self._stops_within
        try:
            sockets = self._handed(holder)
        except (GatewayDown, NotHandedOver) as error:
            why, patience = str(error), self._answers_within  # it may be on its way out already
        # Not before it was asked: where a supervisor starts another, the lock is that one's.
        with LockWait(self._lock) as waiting:
            if not waiting.over(within=patience):
                self._force(holder, waiting, why=why)
        return sockets

    def _handed(self, holder: Holder) -> list[socket.socket]:
        """Ask the live one for its sockets, and follow its stop as far as it tells of it."""
        self._tell(f"asking process {holder.pid} to hand over")
        with Reception(self._paths) as reception, ThreadPoolExecutor(1) as waiting:
            given: Given = waiting.submit(
                reception.receive, giver=holder.pid, within=self._answers_within
            )
            try:
                self._ask(str(reception.path))
            except BaseException:
                reception.give_up()
                raise
            return given.result()[1]

    def _ask(self, to: str) -> None:
        """Returns when it has handed over, and has told what it tells of its stop."""
        client = ControlClient(self._paths, timeout=self._answers_within)
        # A phase may last longer than we listen; what counts is the lock, which is waited for.
        with suppress(TimeoutError):
            for line in client.follow("/handover", {"to": to}):
                if supervisor := line.get("supervisor"):
                    self._delegate(client, str(supervisor))
                self._tell(str(line["phase"]))

    def _delegate(self, client: ControlClient, supervisor: str) -> None:
        self._tell(f"{supervisor} keeps this gateway: it is asked to restart, and stays there")
        with suppress(TimeoutError):
            for line in client.follow("/restart", {}):
                self._tell(str(line["phase"]))
        raise Delegated(
            f"The gateway of {self._home} is kept by {supervisor}, which restarts it; this "
            "process is not needed. `holdfast gateway status` says how it is."
        )

    def _force(self, holder: Holder, waiting: LockWait, *, why: str) -> None:
        """Signal it, once it is proven who it is."""
        self._tell(why)
        fd = prove(self._home, holder)
        if fd is not None:
            try:
                end(fd, within=self._stops_within, tell=self._tell)
            finally:
                os.close(fd)
        if not waiting.over(within=self._answers_within):
            raise HomeInUse(self._home, read_holder(self._home))


def _stop_deadline(settings: GatewaySettings) -> float:
    windows = settings.restart_drain_timeout + settings.park_timeout
    return max(_LEAST_STOP, windows + _CLEAN_UP)
