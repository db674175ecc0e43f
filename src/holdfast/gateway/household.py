"""The household: the task group of a gateway, which outlives whoever started the gateway."""

import asyncio
from collections.abc import Coroutine
from typing import Any


class SupervisedTaskGroup:
    """Owns the group that every task of the house is in, and the task that holds the group.

    A group cancels the task that entered it when one of its own fails. Were that the task of
    a start, which is over soon or may be cancelled, nobody would hear of a failure: so the group
    has a task of its own, and a failure is a fact that anyone can wait for (`broken`).
    """

    def __init__(self) -> None:
        self.tasks = asyncio.TaskGroup()
        self.failed = asyncio.Event()  # a task that was never to fail has failed
        self.failure: Exception | None = None
        self._entered = asyncio.Event()
        self._closing = asyncio.Event()
        self._holder_task: asyncio.Task[None] | None = None
        self._service_tasks: list[asyncio.Task[None]] = []

    def run_until_closed(self, work: Coroutine[Any, Any, None], *, name: str) -> None:
        """A task that is there as long as the house is: it ends when the household is closed."""
        self._service_tasks.append(self.tasks.create_task(work, name=name))

    async def open(self) -> None:
        self._holder_task = asyncio.create_task(self._hold_group(), name="household")
        await self._entered.wait()

    async def close(self) -> None:
        """Returns when every task has ended; cancelled, it cancels them. Skipped where it was
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
