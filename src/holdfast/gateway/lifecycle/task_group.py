"""The group of all tasks of a gateway."""

import asyncio
from collections.abc import Coroutine
from typing import Any


class SupervisedTaskGroup:
    """Owns the group of all tasks of the gateway, and the task that holds the group.

    A task group cancels the task that entered it when one of its own tasks fails. If that were
    the task of a start, which ends soon or may be cancelled, a failure would go unnoticed. So the
    group has a task of its own, and a failure sets an event (`failed`).
    """

    def __init__(self) -> None:
        self.tasks = asyncio.TaskGroup()
        self.failed = asyncio.Event()  # set when a task of the gateway has failed
        self.failure: Exception | None = None
        self._entered = asyncio.Event()
        self._closing = asyncio.Event()
        self._holder_task: asyncio.Task[None] | None = None
        self._service_tasks: list[asyncio.Task[None]] = []

    def run_until_closed(self, work: Coroutine[Any, Any, None], *, name: str) -> None:
        """Start a task that runs until the group is closed."""
        self._service_tasks.append(self.tasks.create_task(work, name=name))

    async def open(self) -> None:
        self._holder_task = asyncio.create_task(self._hold_group(), name="gateway task group")
        await self._entered.wait()

    async def close(self) -> None:
        """Returns when every task has ended; if cancelled, it cancels them. Does nothing if it was
        never opened."""
        self._closing.set()
        if self._holder_task is None:
            return
        for task in self._service_tasks:
            task.cancel()
        try:
            await asyncio.shield(self._holder_task)
        except asyncio.CancelledError:
            self._holder_task.cancel()
            raise

    async def _hold_group(self) -> None:
        try:
            async with self.tasks:
                self._entered.set()
                await self._closing.wait()
        except ExceptionGroup as failures:
            found = failures.exceptions[0]
            assert isinstance(found, Exception), "a group of these holds nothing else"
            self.failure = found
            self.failed.set()
