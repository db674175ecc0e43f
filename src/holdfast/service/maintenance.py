"""Background tasks of a running process: store check after a crash, backups, statistics."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import msgspec

from holdfast.core.config.settings import BackupSettings
from holdfast.core.errors import HoldfastError, StoreError
from holdfast.core.ops.status import BackupStatus
from holdfast.core.ports.runtime import Clock
from holdfast.system.process import holdfast_command

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


class CheckableStore(Protocol):
    @property
    def unclean(self) -> bool: ...
    async def check(self) -> list[str]: ...


class StatsRecorder(Protocol):
    """What is counted, from when it is opened until it is closed."""

    async def open(self) -> None: ...
    async def close(self) -> None: ...


class Maintenance:
    """Owns its tasks: one looks through a file that was left open by a death, one backs it up, one
    takes up the counts of earlier lives; the others are about the configuration.

    None is needed for any message: one that fails is told in the log, and stops nothing.
    """

    def __init__(
        self, store: CheckableStore, *, backups: BackupScheduler, minute_history: StatsRecorder
    ) -> None:
        self._store = store
        self._backups = backups
        self._minute_history = minute_history
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        self._start_task(self._check_store(), name="examine the store")
        self._start_task(self._backups.run(), name="backups")
        self._start_task(self._minute_history.open(), name="minutes")

    async def refresh_backups(self) -> None:
        """Somebody has put one on the shelf, or has taken some away."""
        await self._backups.refresh()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._minute_history.close()

    async def _check_store(self) -> None:
        if not self._store.unclean:
            return
        try:
            found = await self._store.check()
        except StoreError as error:
            log.warning(
                "The store could not be examined: %s", error, extra={"action": "store_checked"}
            )
            return
        if not found:
            log.info("The store was not closed, and is sound.", extra={"action": "store_checked"})

    def add_task(self, work: Coroutine[Any, Any, None], *, name: str) -> None:
        """Something else that is done beside serving, until this is closed."""
        self._start_task(work, name=name)

    def _start_task(self, work: Coroutine[Any, Any, None], *, name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s: a bug of ours.", task.get_name(), exc_info=error)


# What a program needs to find itself and its files; nothing that may be a secret.
_INHERITED_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH", "PYTHONHOME")


class BackupCommand:
    """Makes a backup by `holdfast backup create`, at the lowest priority.

    In this process packing would take turns with the event loop, and would leave its memory here.
    """

    def __init__(self, home: Path, *, folder: Path, keep: int, environ: Mapping[str, str]) -> None:
        self._arguments = (
            *holdfast_command(),
            *("backup", "create", "--home", str(home), "--to", f"{folder}/"),
            *("--keep", str(keep), "--gently", "--json"),
        )
        self._environ = {name: environ[name] for name in _INHERITED_VARIABLES if name in environ}

    async def make(self) -> dict[str, Any]:
        """What it tells of the new backup; raises `HoldfastError` with why there is none.

        Cancelled, it is ended, and leaves nothing that the next one does not clear away.
        """
        program = await asyncio.create_subprocess_exec(
            *self._arguments,
            env=self._environ,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            out, err = await program.communicate()
        except BaseException:
            program.kill()
            await program.wait()
            raise
        if program.returncode:
            raise HoldfastError(err.decode("utf-8", "replace").strip().removeprefix("error: "))
        told = json.loads(out)
        assert isinstance(told, dict), "this is what it prints"
        return told
