"""What a process passes to its successor, and how the successor is started.

Sockets reach a successor in one of these ways: it inherits them when this process starts it
(`system/sockets.py` `adopt_inherited`), it connects and receives them (`run --replace`:
`cli/gateway/takeover.py`, `system/socket_handover.py`), or the supervisor keeps them for it, or
else a process of our own (`system/socket_holder.py`), also if this one is killed.

Copies of the listening sockets exist from the moment the listener closes its own: connections
are queued by the kernel at all times, and never refused.
"""

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from holdfast.config import Config
from holdfast.core.config.settings import SupervisorChoice
from holdfast.core.errors import HoldfastError, RestartRefused
from holdfast.core.turns.stop import StopKind
from holdfast.service import successor
from holdfast.service.successor import StandbySuccessor
from holdfast.service.supervisors.current import (
    SdNotifier,
    current_unit,
    detect_supervisor,
    parent_name,
    read_own_cgroup,
    request_systemd_restart,
)
from holdfast.store.implementations import closed_store
from holdfast.system import exit_codes, socket_handover, sockets
from holdfast.system.paths import Paths
from holdfast.system.process import has_ended
from holdfast.system.socket_holder import SocketHolder

log = logging.getLogger(__name__)


RESTART_EXIT = exit_codes.GATEWAY_SERVICE_RESTART_EXIT_CODE
# Supervisors that store descriptors for us: systemd, and `holdfast gateway boot` in the same way.
_STORING_SOCKETS = frozenset({SupervisorChoice.SYSTEMD, SupervisorChoice.CONTAINER})


async def request_successor(
    kind: StopKind,
    *,
    supervisor: SupervisorChoice,
    environ: Mapping[str, str],
    start: Callable[[], Awaitable[None]],
) -> int:
    """Ask for a successor if this is a restart, and return the exit code of this process. `start`
    starts one where there is no supervisor."""
    if kind is not StopKind.RESTART:
        return exit_codes.OK
    if supervisor not in (SupervisorChoice.SYSTEMD, SupervisorChoice.NONE):
        return RESTART_EXIT
    try:
        if supervisor is SupervisorChoice.SYSTEMD:
            await request_systemd_restart(current_unit(environ, cgroup=read_own_cgroup()), environ)
        else:
            await start()
    except HoldfastError as error:
        log.error(
            "Could not request a successor: %s. Exiting with %d, which asks for a restart.",
            error,
            RESTART_EXIT,
            extra={"action": "successor_request_failed"},
        )
        return RESTART_EXIT
    return exit_codes.OK


class Handover:
    """Owns copies of the listening sockets from the moment the listener closes its own to the end
    of the process, and the standby successor, if there is one."""

    def __init__(self, config: Config, *, notifier: SdNotifier) -> None:
        self._config = config
        self._notifier = notifier
        self._sockets: Sequence[socket.socket] = ()
        self._holder = SocketHolder(Paths(config.home))
        self._standby: StandbySuccessor | None = None  # a successor that is ready to start
        self._standby_released = False  # it starts as soon as it has the lock
        self._successor_pidfd: int | None = None  # of the process that has received the sockets
        self.supervisor = detect_supervisor(
            config.settings.gateway.supervisor,
            config.environ,
            pid=os.getpid(),
            parent=parent_name(),
        )

    async def prepare(self, listening: Sequence[socket.socket]) -> None:
        """Prepare a successor as far as possible while this process runs. Raises
        `RestartRefused` if it would not start."""
        self._dismiss_standby()
        if self.supervisor is not SupervisorChoice.NONE:
            await self.check_successor()
            return
        self._standby = self._start_standby(listening)
        if not await self._standby_would_start(self._standby):
            await self.check_successor()  # says why it would not start

    async def _standby_would_start(self, standby: StandbySuccessor) -> bool:
        ready, schema = False, self._schema
        try:
            ready = await standby.would_start(schema=schema, timeout=successor.CHECK_TIMEOUT)
        finally:
            if not ready:
                self._dismiss_standby()
        return ready

    def _start_standby(self, listening: Sequence[socket.socket]) -> StandbySuccessor:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                successor.start_successor(
                    self._config.home,
                    environ=self._config.environ,
                    sockets=listening,
                    options=self._run_options,
                    after_pid=0,
                    channel=theirs,
                )
            except OSError as error:
                ours.close()
                raise RestartRefused(
                    "the successor cannot be checked: {error}.", error=error
                ) from None
        return StandbySuccessor(ours)

    def _dismiss_standby(self) -> None:
        standby, self._standby = self._standby, None
        if standby is not None:
            standby.dismiss()

    @property
    def _schema(self) -> int:
        return closed_store(Paths(self._config.home).db, self._config.store).newest_schema

    async def check_successor(self) -> None:
        """Raises `RestartRefused` if a successor would not start."""
        try:
            await successor.check_successor(
                self._config.home,
                environ=self._config.environ,
                schema=self._schema,
                options=self._run_options,
            )
        except OSError as error:
            raise RestartRefused("the successor cannot be checked: {error}.", error=error) from None

    async def send_sockets(
        self, to: Path, listening: Sequence[socket.socket], *, address: str
    ) -> None:
        """Send the listening sockets to a process that waits for them. Raises `HandoverFailed`."""
        home = self._config.home
        note = socket_handover.make_note(home, address=address)
        self._successor_pidfd = await asyncio.to_thread(
            socket_handover.send_sockets, to, note, listening, paths=Paths(home)
        )

    def take_held_sockets(self) -> list[socket.socket]:
        """The sockets of a gateway of this home that was killed, and that no supervisor has."""
        return self._holder.take() if self._holds_port else []

    def hold_sockets(self, listening: Sequence[socket.socket]) -> None:
        """Where no supervisor stores them, have a process keep copies for the next gateway. From
        here on the port is not free, even if this process is killed at once."""
        if self._holds_port:
            self._holder.hold(listening, seconds=self._config.settings.gateway.hold_port)

    @property
    def _holds_port(self) -> bool:
        """Only a port that clients expect: with `port = 0` each start may have another one."""
        settings = self._config.settings.gateway
        stored = self.supervisor in _STORING_SOCKETS or sys.platform != "linux"
        return settings.hold_port > 0 and settings.port != 0 and not stored

    def store_sockets(self, listening: Sequence[socket.socket]) -> None:
        """Give them to a supervisor that can store them, replacing those it had: also the
        successor of a killed process gets them."""
        if self.supervisor in _STORING_SOCKETS:
            name, fds = f"FDNAME={sockets.FD_NAME}", [sock.fileno() for sock in listening]
            self._notifier.notify("FDSTOREREMOVE=1", name)
            self._notifier.notify("FDSTORE=1", name, fds=fds, timeout=0.5)

    def keep_sockets(self, copies: Sequence[socket.socket]) -> None:
        """Keep copies for the successor, and let a standby successor start."""
        self._sockets = copies
        # A process that has received the sockets already is the one successor; a standby successor
        # exits with this process then.
        standby = self._standby if self._successor_pidfd is None else None
        self._standby_released = standby is not None and standby.release()

    async def arrange_successor(self, kind: StopKind) -> int:
        """Request or start a successor, and return the exit code of this process."""
        if self._successor_pidfd is not None and has_ended(self._successor_pidfd, timeout=0):
            # It had received our sockets but died before it had the lock: another one is needed.
            kind = StopKind.RESTART
        if kind in (StopKind.RESTART, StopKind.REPLACE, StopKind.CRASH):
            self._holder.leave()
        else:
            self._holder.release()
        return await request_successor(
            kind,
            supervisor=self.supervisor,
            environ=self._config.environ,
            start=self._start_successor,
        )

    async def _start_successor(self) -> None:
        home = self._config.home
        try:
            if not self._standby_released:
                successor.start_successor(
                    home,
                    environ=self._config.environ,
                    sockets=self._sockets,
                    options=self._run_options,
                )
        except OSError as error:
            raise HoldfastError("the respawner cannot be started: {error}", error=error) from None
        if sys.stdout.isatty():
            print(successor.restart_notice(home), flush=True)

    @property
    def _run_options(self) -> list[str]:
        """Options of this process's command line that the successor gets too."""
        if self._config.origins.get("gateway.port") != "the command line":
            return []
        return ["--port", str(self._config.settings.gateway.port)]
