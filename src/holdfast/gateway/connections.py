"""Connections: the platforms that are connected, each held by a task of its own."""

import asyncio
import logging

from holdfast.core.ports import Intake, Platform

log = logging.getLogger(__name__)


class _Connection:
    """One account's connection. What its platform enters, the same task leaves: a platform may
    hold task groups and timeouts open meanwhile, and those belong to the task that entered them.
    """

    def __init__(self, platform: Platform) -> None:
        self.platform = platform
        self.task: asyncio.Task[None] | None = None
        self._there = asyncio.Event()
        self._leaving = asyncio.Event()

    @property
    def there(self) -> bool:
        return self._there.is_set()

    async def hold(self, intake: Intake) -> None:
        try:
            async with self.platform.connect(intake):
                self._there.set()
                await self._leaving.wait()
        except Exception:  # a platform's edge: a door that does not open keeps no other shut
            if self.there:
                raise
            log.exception(
                "%s:%s could not be connected; what is owed there waits for the next start.",
                self.platform.name,
                self.platform.account,
                extra={"action": "connect_failed"},
            )

    async def opened(self) -> bool:
        """Whether it is connected, once that is known."""
        assert self.task is not None, "whoever waits has begun it"
        there = asyncio.ensure_future(self._there.wait())
        try:
            await asyncio.wait({self.task, there}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            there.cancel()
        return self.there

    def leave(self) -> None:
        """One that is still on its way in is not waited for."""
        self._leaving.set()
        if self.task is not None and not self.there:
            self.task.cancel()


class Connections:
    """Owns the connections, from the first attempt to the last goodbye."""

    def __init__(self, *, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        self._all: list[_Connection] = []

    async def open(self, platform: Platform, intake: Intake) -> bool:
        """False: it could not be connected, which is told in the log."""
        connection = _Connection(platform)
        self._all.append(connection)
        name = f"platform {platform.name}:{platform.account}"
        connection.task = self._tasks.create_task(connection.hold(intake), name=name)
        return await connection.opened()

    async def close(self) -> None:
        """Let all of them go at once; one that hangs keeps no other."""
        leaving = [one.task for one in self._all if one.task is not None]
        for connection in self._all:
            connection.leave()
        try:
            if leaving:
                await asyncio.wait(leaving)
        finally:
            for task in leaving:
                task.cancel()
            self._all.clear()
