"""Upkeep: what a process that is ready does for its store beside serving."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Protocol

from holdfast.core.errors import StoreError
from holdfast.service.backups import BackupScheduler

log = logging.getLogger(__name__)


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
