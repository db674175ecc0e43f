"""Upkeep: what a process that is ready does for its store beside serving."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Protocol

from holdfast.core.errors import StoreError
from holdfast.service.backups import Backups

log = logging.getLogger(__name__)


class Examined(Protocol):
    @property
    def unclean(self) -> bool: ...
    async def check(self) -> list[str]: ...


class Counted(Protocol):
    """What is counted, from when it is opened until it is closed."""

    async def open(self) -> None: ...
    async def close(self) -> None: ...


class Upkeep:
    """Owns its tasks: one looks through a file that was left open by a death, one backs it up, one
    takes up the counts of earlier lives; the others are about the configuration.

    None is needed for any message: one that fails is told in the log, and stops nothing.
    """

    def __init__(self, store: Examined, *, backups: Backups, minutes: Counted) -> None:
        self._store = store
        self._backups = backups
        self._minutes = minutes
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        self._start(self._examine(), name="examine the store")
        self._start(self._backups.run(), name="backups")
        self._start(self._minutes.open(), name="minutes")

    async def look_at_backups(self) -> None:
        """Somebody has put one on the shelf, or has taken some away."""
        await self._backups.look()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._minutes.close()

    async def _examine(self) -> None:
        if not self._store.unclean:
            return
        try:
            found = await self._store.check()
        except StoreError as error:
            log.warning("The store could not be examined: %s", error, extra={"action": "examined"})
            return
        if not found:
            log.info("The store was not closed, and is sound.", extra={"action": "examined"})

    def add(self, work: Coroutine[Any, Any, None], *, name: str) -> None:
        """Something else that is done beside serving, until this is closed."""
        self._start(work, name=name)

    def _start(self, work: Coroutine[Any, Any, None], *, name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s: a bug of ours.", task.get_name(), exc_info=error)
