"""Errands: work that nobody waits for, in order for each who has any, and none of it in the way."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from zlib import crc32

log = logging.getLogger(__name__)

QueuedTask = Callable[[], Awaitable[None]]

_BUCKETS = 8  # so many run at once; those of one key are always in the same
_MAX_QUEUED = 1000  # errands waiting in a bucket, beyond which new ones are refused


class _Bucket:
    """Errands in order, and the task that runs them while there are any."""

    __slots__ = ("task", "queue")

    def __init__(self) -> None:
        self.queue: deque[tuple[QueuedTask, asyncio.Future[None]]] = deque()
        self.task: asyncio.Task[None] | None = None


class KeyedTaskQueue:
    """Owns what waits to be done. An errand is trusted not to raise: it logs its own trouble."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._buckets = tuple(_Bucket() for _ in range(_BUCKETS))

    def add(self, key: str, task: QueuedTask) -> asyncio.Future[None]:
        """Resolves once it is done, or was dropped because too much waits."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        bucket = self._buckets[crc32(key.encode()) % _BUCKETS]
        if len(bucket.queue) >= _MAX_QUEUED:
            log.warning("%s does not keep up.", self._name, extra={"action": "memory_queue_full"})
            done.set_result(None)
            return done
        bucket.queue.append((task, done))
        if bucket.task is None:
            bucket.task = asyncio.create_task(_run_bucket(bucket), name=f"errands of {self._name}")
        return done

    async def drain(self, seconds: float) -> None:
        """Wait for all of them, so long; what is left then is dropped."""
        tasks = [bucket.task for bucket in self._buckets if bucket.task]
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=seconds)
        for bucket in self._buckets:
            while bucket.queue:
                bucket.queue.popleft()[1].set_result(None)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)


async def _run_bucket(bucket: _Bucket) -> None:
    try:
        while bucket.queue:
            errand, done = bucket.queue.popleft()
            try:
                await errand()
            finally:
                if not done.done():
                    done.set_result(None)
    finally:
        bucket.task = None
