"""Order: what is to be done about a channel is done in turn, and no channel waits for another."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from holdfast.core.errors import IntakeClosed, NotConnected, StoreError
from holdfast.platforms.pauses import growing

log = logging.getLogger(__name__)

Job = Callable[[], Awaitable[None]]


class Order:
    """Owns what waits, by channel; each has a task while something does. What cannot be done for
    the moment is tried again, and what comes behind it waits."""

    def __init__(
        self,
        tasks: asyncio.TaskGroup,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._tasks = tasks
        self._sleep = sleep
        self._waiting: dict[str, deque[Job]] = {}
        self._working: set[asyncio.Task[None]] = set()
        self._left = False

    @property
    def idle(self) -> bool:
        return not self._waiting

    def put(self, channel_id: str, job: Job) -> None:
        if self._left:
            return
        if channel_id in self._waiting:
            self._waiting[channel_id].append(job)
            return
        self._waiting[channel_id] = deque([job])
        self.aside(self._work(channel_id))

    def aside(self, work: Coroutine[Any, Any, None]) -> None:
        """At once, in no order."""
        task = self._tasks.create_task(work)
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    def leave(self) -> None:
        """The connection ends: what waits is found again by the next one."""
        self._left = True
        for task in self._working:
            task.cancel()

    async def _work(self, channel_id: str) -> None:
        waiting = self._waiting[channel_id]
        while waiting:
            await self._done(waiting[0])
            waiting.popleft()
        del self._waiting[channel_id]

    async def _done(self, job: Job) -> None:
        pauses = growing()
        while True:
            try:
                return await job()
            except (StoreError, IntakeClosed, NotConnected) as error:
                pause = next(pauses)
                log.warning(
                    "Messages of Discord are not taken: %s. The next try is in %.1f s.",
                    error,
                    pause,
                    extra={"action": "feed_paused"},
                )
                await self._sleep(pause)
