"""Backups that the gateway makes by itself: when the next is due, and what became of the last."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import msgspec

from holdfast.core.config.settings import BackupSettings
from holdfast.core.errors import HoldfastError
from holdfast.core.ops.facts import BackupStatus
from holdfast.core.ports.protocols import Clock

log = logging.getLogger(__name__)

_HOUR = 3600.0
_FIRST_AFTER = 600.0  # seconds after a start for a home that has no backup
_RETRY_AFTER = _HOUR  # after one that could not be made, or sooner if one is due
_MAX_IDLE_WAIT = _HOUR  # so long a gap in the conversations is waited for
_MAX_SLEEP = _HOUR  # a clock that was set is noticed within this time


class BackupMaker(Protocol):
    async def make(self) -> dict[str, Any]: ...


def _newest_backup(folder: Path) -> BackupStatus:
    from holdfast.store.backup import directory  # noqa: PLC0415 - beside the start, not in it

    with suppress(HoldfastError, OSError):
        for one in directory.list_backups(folder):
            if one.manifest is not None:
                return BackupStatus(name=one.path.name, made_at=one.made_at, bytes=one.bytes)
    return BackupStatus()


class BackupScheduler:
    """Owns the time of the next backup, and the facts of the last, whoever made it."""

    def __init__(
        self,
        settings: BackupSettings,
        *,
        folder: Path,
        maker: BackupMaker,
        wait_until_idle: Callable[[], Awaitable[None]],
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        find_newest: Callable[[Path], BackupStatus] = _newest_backup,
    ) -> None:
        """`quiet` returns when no turn runs; `newest` reads the shelf, and may take its time."""
        self._period = settings.every_hours * _HOUR
        self._folder = folder
        self._maker = maker
        self._wait_until_idle = wait_until_idle
        self._clock = clock
        self._sleep = sleep
        self._find_newest = find_newest
        self._status_lock = asyncio.Lock()
        self.status = BackupStatus()

    async def run(self) -> None:
        """For ever; where none are wanted, only what is there is looked at."""
        await self.refresh()
        if not self._period:
            return
        while True:
            await self._wait_until_due()
            with suppress(TimeoutError):
                async with asyncio.timeout(_MAX_IDLE_WAIT):
                    await self._wait_until_idle()
            made = await self._make()
            self._schedule_in(self._period if made else min(self._period, _RETRY_AFTER))

    async def refresh(self) -> None:
        """What is on the shelf now: somebody else may put one there, or take one away. The next is
        due by the newest, as it is after a start."""
        # One after the other: what was seen before a backup was made must not be told after it.
        async with self._status_lock:
            newest = await asyncio.to_thread(self._find_newest, self._folder)
            if newest.name != self.status.name or self.status.next_at is None:
                due = self._due_after(newest) if self._period else None
                self.status = msgspec.structs.replace(newest, next_at=due)

    def _schedule_in(self, seconds: float) -> None:
        self.status = msgspec.structs.replace(self.status, next_at=self._clock.now() + seconds)

    def _due_after(self, newest: BackupStatus) -> float:
        """A clock that was set back makes of the last one something to come; it does not keep the
        next one waiting for longer than usual."""
        now, last = self._clock.now(), newest.made_at
        return min(last, now) + self._period if last else now + min(_FIRST_AFTER, self._period)

    async def _wait_until_due(self) -> None:
        while (left := (self.status.next_at or 0.0) - self._clock.now()) > 0:
            if left > self._period:
                return  # the clock was set back by more than there ever was to wait
            await self._sleep(min(left, _MAX_SLEEP))

    async def _make(self) -> bool:
        try:
            told = await self._maker.make()
        except (HoldfastError, OSError) as error:
            log.error("No backup could be made: %s", error, extra={"action": "backup_failed"})
            self.status = msgspec.structs.replace(self.status, problem=str(error))
            return False
        name, bytes_ = Path(told["path"]).name, told["bytes"]
        async with self._status_lock:
            self.status = BackupStatus(name=name, made_at=told["made_at"], bytes=bytes_)
        log.info("Backed up: %s, %d bytes.", name, bytes_, extra={"action": "backup_created"})
        return True
