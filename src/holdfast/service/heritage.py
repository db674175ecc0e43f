"""Heritage: what a process leaves to the one that follows it, and who is to start that one."""

import asyncio
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from holdfast.config import Config
from holdfast.core.config.settings import SupervisorChoice
from holdfast.core.errors import HoldfastError, RestartRefused
from holdfast.core.turns.stop import StopKind
from holdfast.service import afterwards, succession, successor
from holdfast.service.supervisors.notify import Notifier
from holdfast.service.supervisors.supervisor import parent_name, supervisor
from holdfast.service.understudy import Understudy
from holdfast.store.sqlite.schema import migrations
from holdfast.system import socket_handover, sockets
from holdfast.system.paths import Paths
from holdfast.system.process import gone

# Who keeps descriptors for us, as systemd does, and `holdfast gateway boot` after it.
_KEEPING = frozenset({SupervisorChoice.SYSTEMD, SupervisorChoice.CONTAINER})


class Heritage:
    """Owns copies of the listening sockets, from the instant in which the listener lets go of them
    to the end: at no time does nobody listen. Knows who waits for them, if somebody does."""

    def __init__(self, config: Config, *, notifier: Notifier) -> None:
        self._config = config
        self._notifier = notifier
        self._sockets: Sequence[socket.socket] = ()
        self._understudy: Understudy | None = None  # a successor that is ready to start
        self._cued = False  # and will, once it has the lock
        self._waiting: int | None = None  # a descriptor of the process that has taken them
        self.supervisor = supervisor(
            config.settings.gateway.supervisor,
            config.environ,
            pid=os.getpid(),
            parent=parent_name(),
        )

    async def prepare(self, listening: Sequence[socket.socket]) -> None:
        """Have a successor ready, as far as it can be while this one runs. Raises
        `RestartRefused` where it would not start."""
        self._dismiss()
        if self.supervisor is not SupervisorChoice.NONE:
            await self.check()
            return
        self._understudy = self._engage(listening)
        if not await self._fit(self._understudy):
            await self.check()  # which can say why it would not start

    async def _fit(self, understudy: Understudy) -> bool:
        fit, known = False, len(migrations())
        try:
            fit = await understudy.verdict(schema=known, within=successor.CHECKED_WITHIN)
        finally:
            if not fit:
                self._dismiss()
        return fit

    def _engage(self, listening: Sequence[socket.socket]) -> Understudy:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                succession.start_successor(
                    self._config.home,
                    environ=self._config.environ,
                    sockets=listening,
                    options=self._options,
                    follows=0,
                    line=theirs,
                )
            except OSError as error:
                ours.close()
                raise RestartRefused(f"the successor cannot even be asked: {error}.") from None
        return Understudy(ours)

    def _dismiss(self) -> None:
        understudy, self._understudy = self._understudy, None
        if understudy is not None:
            understudy.dismiss()

    async def check(self) -> None:
        """Raises `RestartRefused` where a successor would not start."""
        try:
            await successor.check(
                self._config.home,
                environ=self._config.environ,
                schema=len(migrations()),
                options=self._options,
            )
        except OSError as error:
            raise RestartRefused(f"the successor cannot even be asked: {error}.") from None

    async def give(self, to: Path, listening: Sequence[socket.socket], *, address: str) -> None:
        """Give the listening sockets to a process that waits for them. Raises `NotHandedOver`."""
        home = self._config.home
        note = socket_handover.note_of(home, address=address)
        self._waiting = await asyncio.to_thread(
            socket_handover.give, to, note, listening, paths=Paths(home)
        )

    def deposit(self, listening: Sequence[socket.socket]) -> None:
        """A supervisor that can keep them has them from now on, in place of those it had: also
        for the successor of a process that is killed."""
        if self.supervisor in _KEEPING:
            name, fds = f"FDNAME={sockets.NAME}", [sock.fileno() for sock in listening]
            self._notifier.tell("FDSTOREREMOVE=1", name)
            self._notifier.tell("FDSTORE=1", name, fds=fds, patience=0.5)

    def keep(self, copies: Sequence[socket.socket]) -> None:
        """These go to the successor, by way of whoever starts it."""
        self._sockets = copies
        # Where somebody has taken them already, that is the one successor; an understudy whose
        # restart was overtaken goes when this process does.
        wanted = self._understudy if self._waiting is None else None
        self._cued = wanted is not None and wanted.cue()

    async def arrange(self, kind: StopKind) -> int:
        """The exit code of this process: a successor is asked for, or started."""
        if self._waiting is not None and gone(self._waiting, within=0):
            # It had our sockets, and died before it had the lock: another one is needed.
            kind = StopKind.RESTART
        return await afterwards.arrange(
            kind, supervisor=self.supervisor, environ=self._config.environ, start=self._start
        )

    async def _start(self) -> None:
        home = self._config.home
        try:
            if not self._cued:
                succession.start_successor(
                    home, environ=self._config.environ, sockets=self._sockets, options=self._options
                )
        except OSError as error:
            raise HoldfastError(f"its starter cannot be started: {error}") from None
        if sys.stdout.isatty():
            print(succession.farewell(home), flush=True)

    @property
    def _options(self) -> list[str]:
        """What this process was told on its command line, and its successor is told again."""
        if self._config.origins.get("gateway.port") != "the command line":
            return []
        return ["--port", str(self._config.settings.gateway.port)]
