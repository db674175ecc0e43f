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
from holdfast.core.ports.store import StoreReader
from holdfast.core.ports.store_queries import CheckIntegrity
from holdfast.system.process import holdfast_command

log = logging.getLogger(__name__)


_HOUR = 3600.0
_FIRST_AFTER = 600.0  # seconds after a start for a home that has no backup
_RETRY_AFTER = _HOUR  # after a backup that failed, or sooner if one is due
_MAX_IDLE_WAIT = _HOUR  # how long a backup waits for a moment without a running turn
_MAX_SLEEP = _HOUR  # a change of the system clock is noticed within this time
# What the backup command needs to find itself and its files; nothing that may be a secret.
_INHERITED_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH", "PYTHONHOME")


class BackupMaker(Protocol):
    async def make(self) -> dict[str, Any]: ...


def _newest_backup(folder: Path) -> BackupStatus:
    from holdfast.store.backup import directory  # noqa: PLC0415 - not needed by a start

    with suppress(HoldfastError, OSError):
        for one in directory.list_backups(folder):
            if one.manifest is not None:
                return BackupStatus(name=one.path.name, made_at=one.made_at, bytes=one.bytes)
    return BackupStatus()


class BackupScheduler:
    """Owns the time of the next backup, and the status of the last one, also of one that another
    process has made."""

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
        """`wait_until_idle` returns when no turn runs; `find_newest` reads the backup directory
        and may be slow."""
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
        """Runs forever; if scheduled backups are off, it only reads the existing ones."""
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
        """Read the backup directory again: other processes add and remove backups. The next one is
        due by the newest, as after a start."""
        # Serialized: a listing from before a backup must not replace the status of that backup.
        async with self._status_lock:
            newest = await asyncio.to_thread(self._find_newest, self._folder)
            if newest.name != self.status.name or self.status.next_at is None:
                due = self._due_after(newest) if self._period else None
                self.status = msgspec.structs.replace(newest, next_at=due)

    def _schedule_in(self, seconds: float) -> None:
        self.status = msgspec.structs.replace(self.status, next_at=self._clock.now() + seconds)

    def _due_after(self, newest: BackupStatus) -> float:
        """When the next backup is due after this one. If the clock was set back, the last backup is
        in the future; that delays the next one by at most the usual period."""
        now, last = self._clock.now(), newest.made_at
        return min(last, now) + self._period if last else now + min(_FIRST_AFTER, self._period)

    async def _wait_until_due(self) -> None:
        while (left := (self.status.next_at or 0.0) - self._clock.now()) > 0:
            if left > self._period:
                return  # the clock was set back by more than the period
            await self._sleep(min(left, _MAX_SLEEP))

    async def _make(self) -> bool:
        try:
            made = await self._maker.make()
        except (HoldfastError, OSError) as error:
            log.error("Backup failed: %s", error, extra={"action": "backup_failed"})
            self.status = msgspec.structs.replace(self.status, problem=str(error))
            return False
        name, bytes_ = Path(made["path"]).name, made["bytes"]
        async with self._status_lock:
            self.status = BackupStatus(name=name, made_at=made["made_at"], bytes=bytes_)
        log.info("Backup created: %s, %d bytes.", name, bytes_, extra={"action": "backup_created"})
        return True


class CheckableStore(StoreReader, Protocol):
    @property
    def unclean(self) -> bool: ...


class StatsRecorder(Protocol):
    """Records statistics from `open` to `close`."""

    async def open(self) -> None: ...
    async def close(self) -> None: ...


class Maintenance:
    """Owns background tasks: the integrity check of the store after an unclean shutdown, the
    backups, the statistics of earlier processes, and those added for the configuration.

    No message depends on them: one that fails is logged, and stops nothing else.
    """

    def __init__(
        self, store: CheckableStore, *, backups: BackupScheduler, minute_history: StatsRecorder
    ) -> None:
        self._store = store
        self._backups = backups
        self._minute_history = minute_history
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        self.add_task(self._check_store(), name="check the store")
        self.add_task(self._backups.run(), name="backups")
        self.add_task(self._minute_history.open(), name="per-minute statistics")

    def add_task(self, work: Coroutine[Any, Any, None], *, name: str) -> None:
        """Run `work` in the background until it is done or this is closed."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)

    async def refresh_backups(self) -> None:
        """To be called when another process has added or removed a backup."""
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
            problems = await self._store.read(CheckIntegrity())
        except StoreError as error:
            log.warning(
                "Could not check the integrity of state.db: %s",
                error,
                extra={"action": "store_checked"},
            )
            return
        if not problems:
            log.info(
                "Previous shutdown was unclean; integrity check of state.db passed.",
                extra={"action": "store_checked"},
            )

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error(
                "Background task %s crashed (please report):", task.get_name(), exc_info=error
            )


class BackupCommand:
    """Makes a backup by `holdfast backup create`, at the lowest priority.

    A process of its own: compressing in this one would compete with the event loop, and its memory
    would stay allocated.
    """

    def __init__(self, home: Path, *, folder: Path, keep: int, environ: Mapping[str, str]) -> None:
        self._arguments = (
            *holdfast_command(),
            *("backup", "create", "--home", str(home), "--to", f"{folder}/"),
            *("--keep", str(keep), "--scheduled", "--json"),
        )
        self._environ = {name: environ[name] for name in _INHERITED_VARIABLES if name in environ}

    async def make(self) -> dict[str, Any]:
        """Returns the JSON report of the new backup; raises `HoldfastError` with the reason of a
        failure.

        On cancellation the command is killed; the next backup removes what it left behind.
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
        report = json.loads(out)
        assert isinstance(report, dict), "the command prints an object"
        return report
