"""What a process hands over to its successor, and who starts that one.

Copies of the listening sockets are kept from the moment the listener gives them up: at no time
does nobody listen.
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
from holdfast.service import successor as succession
from holdfast.service.successor import StandbySuccessor
from holdfast.service.supervisors.current import (
    SdNotifier,
    current_unit,
    detect_supervisor,
    parent_name,
    read_own_cgroup,
    request_systemd_restart,
)
from holdfast.store.sqlite.schema import load_migrations
from holdfast.system import exit_codes, socket_handover, sockets
from holdfast.system.paths import Paths
from holdfast.system.process import has_ended

log = logging.getLogger(__name__)


RESTART_EXIT = exit_codes.GATEWAY_SERVICE_RESTART_EXIT_CODE


async def request_successor(
    kind: StopKind,
    *,
    supervisor: SupervisorChoice,
    environ: Mapping[str, str],
    start: Callable[[], Awaitable[None]],
) -> int:
    """The exit code of this process. `start` starts a successor where nobody else would."""
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
            "A successor could not be arranged for: %s. Ending with %d, which asks for it.",
            error,
            RESTART_EXIT,
            extra={"action": "successor_request_failed"},
        )
        return RESTART_EXIT
    return exit_codes.OK


# Who keeps descriptors for us, as systemd does, and `holdfast gateway boot` after it.
_STORING_SOCKETS = frozenset({SupervisorChoice.SYSTEMD, SupervisorChoice.CONTAINER})


class Handover:
    """Owns copies of the listening sockets, from the instant in which the listener lets go of them
    to the end: at no time does nobody listen. Knows who waits for them, if somebody does."""

    def __init__(self, config: Config, *, notifier: SdNotifier) -> None:
        self._config = config
        self._notifier = notifier
        self._sockets: Sequence[socket.socket] = ()
        self._standby: StandbySuccessor | None = None  # a successor that is ready to start
        self._standby_released = False  # and will, once it has the lock
        self._successor_pidfd: int | None = None  # a descriptor of the process that has taken them
        self.supervisor = detect_supervisor(
            config.settings.gateway.supervisor,
            config.environ,
            pid=os.getpid(),
            parent=parent_name(),
        )

    async def prepare(self, listening: Sequence[socket.socket]) -> None:
        """Have a successor ready, as far as it can be while this one runs. Raises
        `RestartRefused` where it would not start."""
        self._dismiss_standby()
        if self.supervisor is not SupervisorChoice.NONE:
            await self.check_successor()
            return
        self._standby = self._start_standby(listening)
        if not await self._standby_would_start(self._standby):
            await self.check_successor()  # which can say why it would not start

    async def _standby_would_start(self, standby: StandbySuccessor) -> bool:
        fit, known = False, len(load_migrations())
        try:
            fit = await standby.would_start(schema=known, timeout=successor.CHECK_TIMEOUT)
        finally:
            if not fit:
                self._dismiss_standby()
        return fit

    def _start_standby(self, listening: Sequence[socket.socket]) -> StandbySuccessor:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                succession.start_successor(
                    self._config.home,
                    environ=self._config.environ,
                    sockets=listening,
                    options=self._run_options,
                    after_pid=0,
                    channel=theirs,
                )
            except OSError as error:
                ours.close()
                raise RestartRefused(f"the successor cannot even be asked: {error}.") from None
        return StandbySuccessor(ours)

    def _dismiss_standby(self) -> None:
        understudy, self._standby = self._standby, None
        if understudy is not None:
            understudy.dismiss()

    async def check_successor(self) -> None:
        """Raises `RestartRefused` where a successor would not start."""
        try:
            await successor.check_successor(
                self._config.home,
                environ=self._config.environ,
                schema=len(load_migrations()),
                options=self._run_options,
            )
        except OSError as error:
            raise RestartRefused(f"the successor cannot even be asked: {error}.") from None

    async def send_sockets(
        self, to: Path, listening: Sequence[socket.socket], *, address: str
    ) -> None:
        """Give the listening sockets to a process that waits for them. Raises `HandoverFailed`."""
        home = self._config.home
        note = socket_handover.make_note(home, address=address)
        self._successor_pidfd = await asyncio.to_thread(
            socket_handover.send_sockets, to, note, listening, paths=Paths(home)
        )

    def store_sockets(self, listening: Sequence[socket.socket]) -> None:
        """A supervisor that can keep them has them from now on, in place of those it had: also
        for the successor of a process that is killed."""
        if self.supervisor in _STORING_SOCKETS:
            name, fds = f"FDNAME={sockets.FD_NAME}", [sock.fileno() for sock in listening]
            self._notifier.notify("FDSTOREREMOVE=1", name)
            self._notifier.notify("FDSTORE=1", name, fds=fds, timeout=0.5)

    def keep_sockets(self, copies: Sequence[socket.socket]) -> None:
        """These go to the successor, by way of whoever starts it."""
        self._sockets = copies
        # Where somebody has taken them already, that is the one successor; an understudy whose
        # restart was overtaken goes when this process does.
        wanted = self._standby if self._successor_pidfd is None else None
        self._standby_released = wanted is not None and wanted.release()

    async def arrange_successor(self, kind: StopKind) -> int:
        """The exit code of this process: a successor is asked for, or started."""
        if self._successor_pidfd is not None and has_ended(self._successor_pidfd, timeout=0):
            # It had our sockets, and died before it had the lock: another one is needed.
            kind = StopKind.RESTART
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
                succession.start_successor(
                    home,
                    environ=self._config.environ,
                    sockets=self._sockets,
                    options=self._run_options,
                )
        except OSError as error:
            raise HoldfastError(f"its starter cannot be started: {error}") from None
        if sys.stdout.isatty():
            print(succession.restart_notice(home), flush=True)

    @property
    def _run_options(self) -> list[str]:
        """What this process was told on its command line, and its successor is told again."""
        if self._config.origins.get("gateway.port") != "the command line":
            return []
        return ["--port", str(self._config.settings.gateway.port)]
