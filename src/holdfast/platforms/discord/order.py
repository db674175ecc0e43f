"""Order: what is to be done about a channel is done in turn, and no channel waits for another."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from holdfast.core.errors import IntakeClosed, NotConnected, StoreError
from holdfast.platforms.pauses import backoff_delays

log = logging.getLogger(__name__)

ChannelTask = Callable[[], Awaitable[None]]


class ChannelQueues:
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
        self._queues: dict[str, deque[ChannelTask]] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._stopped = False

    @property
    def is_idle(self) -> bool:
        return not self._queues

    def enqueue(self, channel_id: str, job: ChannelTask) -> None:
        if self._stopped:
            return
        if channel_id in self._queues:
            self._queues[channel_id].append(job)
            return
        self._queues[channel_id] = deque([job])
        self.start_now(self._run_queue(channel_id))

    def start_now(self, work: Coroutine[Any, Any, None]) -> None:
        """At once, in no order."""
        task = self._tasks.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def stop(self) -> None:
        """The connection ends: what waits is found again by the next one."""
        self._stopped = True
        for task in self._running:
            task.cancel()

    async def _run_queue(self, channel_id: str) -> None:
        waiting = self._queues[channel_id]
        while waiting:
            await self._run_with_retry(waiting[0])
            waiting.popleft()
        del self._queues[channel_id]

    async def _run_with_retry(self, job: ChannelTask) -> None:
        pauses = backoff_delays()
        while True:
            try:
                return await job()
            except (StoreError, IntakeClosed, NotConnected) as error:
                pause = next(pauses)
                log.warning(
                    "Messages of Discord are not taken: %s. The next try is in %.1f s.",
                    error,
                    pause,
                    extra={"action": "receiver_retrying"},
                )
                await self._sleep(pause)
