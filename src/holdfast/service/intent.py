"""What the next boot should do with this home, in one small file.

It is not a status: only the process itself knows whether a gateway runs now.
"""

import os
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

import msgspec

from holdfast.core.errors import HoldfastError
from holdfast.core.turns.stop import StopKind, StopOrder


class IntentState(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    DRAINING = "draining"  # stopping, without a planned stop
    STOPPED = "stopped"


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    state: IntentState
    at: float
    restart: str | None = None  # the id of a restart whose successor has not been ready yet

    @property
    def should_start(self) -> bool:
        """Whether a boot starts a gateway here: not after a person stopped it."""
        return self.state is not IntentState.STOPPED or self.restart is not None


class IntentFile:
    """Owns the file while it holds the home's lock; anyone may read it."""

    def __init__(self, path: Path, *, now: Callable[[], float]) -> None:
        self._path = path
        self._now = now

    def read(self) -> Intent | None:
        """The stored intent; None: this home was never started, or the file cannot be read."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=Intent)
        except (OSError, msgspec.MsgspecError):
            return None

    def record_starting(self) -> None:
        self._write(IntentState.STARTING)

    def record_running(self) -> None:
        self._write(IntentState.RUNNING)

    def record_stopping(self, order: StopOrder, restart: str) -> None:
        """Record that the gateway stops. Written before the stop waits for anything: the next boot
        must know it in any case."""
        if order.kind.restarts:
            self._write(IntentState.STOPPED, restart=restart)
        else:
            stays = order.kind is StopKind.STOP
            self._write(IntentState.STOPPED if stays else IntentState.DRAINING)

    def record_stopped(self, order: StopOrder) -> None:
        """The gateway has stopped. Without a planned stop, it should be running."""
        if order.kind in (StopKind.SIGNAL, StopKind.CRASH):
            self._write(IntentState.RUNNING)

    def _write(self, state: IntentState, *, restart: str | None = None) -> None:
        content = msgspec.json.encode(Intent(state=state, at=self._now(), restart=restart))
        draft = self._path.with_name(self._path.name + ".new")
        try:
            with open(draft, "wb", opener=_open_private) as file:
                file.write(content + b"\n")
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self._path)
            _fsync_dir(self._path.parent)
        except OSError as error:
            raise HoldfastError(
                "{path} cannot be written: {error}. Check the free space and the "
                "permissions of the home",
                path=self._path,
                error=error.strerror,
            ) from None


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def _fsync_dir(directory: Path) -> None:
    """Makes the new name as durable as the content."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
