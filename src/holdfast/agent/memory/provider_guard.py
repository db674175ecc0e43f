"""A circuit breaker around a memory provider.

It sets time limits, queues background calls, and pauses the provider after repeated failures.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from holdfast.core.people.memory import MemoryHook, MemoryProvider
from holdfast.core.ports.runtime import Clock
from holdfast.core.retry import MEMORY_PROVIDER_RETRY, RetryPolicy

log = logging.getLogger(__name__)

T = TypeVar("T")
QueuedTask = Callable[[], Awaitable[None]]
_QueuedItem = tuple[QueuedTask, asyncio.Future[None]]

_MAX_CONCURRENT = 32  # tasks of one provider that run at once; those of one key run one by one
_MAX_QUEUED = 8000  # tasks of one provider that wait; beyond that, new ones are dropped
_MAX_FAILURES = 3  # in a row

ClaimNotification = Callable[[], Awaitable[bool]]
"""Called when a notification is due. False if another caller has sent it, or if it must not be
sent."""


class KeyedTaskQueue:
    """Owns a queue of background tasks. Those of one key run in order, those of different keys
    concurrently, up to a limit. A task must not raise: it logs its own errors."""

    def __init__(self, name: str, *, max_concurrent: int = _MAX_CONCURRENT) -> None:
        self._name = name
        self._max_concurrent = max_concurrent
        self._waiting: dict[str, deque[_QueuedItem]] = {}  # by key; also while one of them runs
        self._ready: deque[str] = deque()  # keys with waiting tasks, none of which runs
        self._workers: set[asyncio.Task[None]] = set()
        self._size = 0  # tasks that wait

    def add(self, key: str, task: QueuedTask) -> asyncio.Future[None]:
        """Queue a task. The future resolves once the task is done, or was dropped because the queue
        is full."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._size >= _MAX_QUEUED:
            log.warning(
                "The queue of memory provider %s is full (%d tasks); a task is dropped",
                self._name,
                _MAX_QUEUED,
                extra={"action": "memory_queue_full"},
            )
            done.set_result(None)
            return done
        self._size += 1
        if key in self._waiting:
            self._waiting[key].append((task, done))
            return done
        self._waiting[key] = deque([(task, done)])
        self._ready.append(key)
        if len(self._workers) < self._max_concurrent:
            worker = asyncio.create_task(self._work(), name=f"queue of {self._name}")
            self._workers.add(worker)
        return done

    async def join(self) -> None:
        """Wait until no task waits or runs."""
        while self._workers:
            await asyncio.wait(self._workers)

    async def close(self) -> None:
        """Cancel the running tasks, and drop the rest."""
        workers = list(self._workers)
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        for queue in self._waiting.values():
            for _, done in queue:
                done.set_result(None)
        self._workers.clear()  # also those that were cancelled before they began
        self._waiting.clear()
        self._ready.clear()
        self._size = 0

    async def _work(self) -> None:
        """Run tasks until none is ready. A key is ready again after its task has run."""
        try:
            while self._ready:
                key = self._ready.popleft()
                run, done = self._waiting[key].popleft()
                self._size -= 1
                try:
                    await run()
                finally:
                    if not done.done():
                        done.set_result(None)
                    if self._waiting[key]:
                        self._ready.append(key)
                    else:
                        del self._waiting[key]
        finally:
            worker = asyncio.current_task()
            assert worker is not None, "this is a task"
            self._workers.discard(worker)


class ProviderLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Time limits in seconds: of one call by hook, and of pauses."""

    initialise: float = 3
    prompt_block: float = 1
    prefetch: float = 1
    sync_turn: float = 30
    on_session_end: float = 30
    on_pre_compact: float = 5
    shutdown: float = 1
    pauses: RetryPolicy = MEMORY_PROVIDER_RETRY  # after `_MAX_FAILURES` failures, and each further


DEFAULT_LIMITS = ProviderLimits()


class ProviderGuard:
    """Owns the state of one provider (ready, paused, failed), its queue and its running calls. It
    calls only the hooks that the provider wants, each with a time limit."""

    def __init__(
        self,
        provider: MemoryProvider,
        *,
        clock: Clock,
        limits: ProviderLimits,
        on_late_ready: Callable[["ProviderGuard"], Awaitable[None]] | None = None,
    ) -> None:
        """`on_late_ready` is called when a repeated attempt to initialise the provider has
        succeeded. It must not raise."""
        self.name = provider.name
        self.provider = provider
        self._clock = clock
        self._limits = limits
        self._on_late_ready = on_late_ready
        self._queue = KeyedTaskQueue(f"memory provider {provider.name}")
        self._running: set[asyncio.Task[Any]] = set()
        self._ready = False
        self._closed = False
        self._failures = 0
        self._paused_until = 0.0

    def wants(self, hook: MemoryHook) -> bool:
        return hook in self.provider.wants

    def set_prefetch_timeout(self, *, seconds: float) -> None:
        """Change the time limit of `prefetch`."""
        self._limits = msgspec.structs.replace(self._limits, prefetch=seconds)

    async def initialise(self) -> None:
        """Initialise the provider. Returns within the limit, whatever the provider does; a failed
        attempt is repeated later."""
        done = await self._attempt("initialise", self.provider.initialise, self._limits.initialise)
        self._ready = done is not None
        if not self._ready:
            self._pause()

    async def ask(self, hook: MemoryHook, call: Callable[[], Awaitable[str]]) -> str:
        """The provider's text; "" if it has none, fails, is too slow or is paused."""
        if not self.wants(hook) or not self._is_available():
            return ""
        answer = await self._attempt(hook, call, self._limit(hook))
        if answer is not None and not isinstance(answer[0], str):
            self._record_failure(hook, "returned no text")
            return ""
        return answer[0] if answer is not None else ""

    async def notify(
        self,
        hook: MemoryHook,
        call: Callable[[], Awaitable[None]],
        *,
        claim: ClaimNotification | None = None,
    ) -> bool:
        """Notify the provider now. Returns whether its hook has returned. The end of a session is
        reported even while the provider is paused: no caller waits for it, and otherwise only the
        next start reports it. It needs an initialised provider. A notification that must not be
        repeated is claimed right before it is sent, and not while the provider is
        paused."""
        if not self.wants(hook):
            return False
        available = self._is_available()  # called for each hook: it repeats a failed initialise
        callable_now = self._ready if hook is MemoryHook.ON_SESSION_END else available
        if not callable_now or (claim is not None and not await claim()):
            return False
        return await self._attempt(hook, call, self._limit(hook)) is not None

    def queue_task(self, key: str, task: QueuedTask) -> asyncio.Future[None]:
        """Run a task of this provider in the background, behind the earlier ones of the same
        key."""
        return self._queue.add(key, task)

    async def join(self) -> None:
        """Wait until no background task waits or runs."""
        await self._queue.join()

    async def close(self) -> None:
        """Drop the background tasks, then call `shutdown` if the provider was initialised."""
        self._closed = True
        await self._queue.close()
        for task in list(self._running):
            task.cancel()
        if self._ready:
            self._ready = False
            await self._attempt("shutdown", self.provider.shutdown, self._limits.shutdown)

    def _limit(self, hook: MemoryHook) -> float:
        return {
            MemoryHook.PROMPT_BLOCK: self._limits.prompt_block,
            MemoryHook.PREFETCH: self._limits.prefetch,
            MemoryHook.SYNC_TURN: self._limits.sync_turn,
            MemoryHook.ON_SESSION_END: self._limits.on_session_end,
            MemoryHook.ON_PRE_COMPACT: self._limits.on_pre_compact,
        }[hook]

    def _is_available(self) -> bool:
        if self._closed or self._clock.monotonic() < self._paused_until:
            return False
        if not self._ready:
            # In the background, so that this caller does not wait; a later one finds it ready.
            self._queue.add(self.name, self._retry_initialise)
        return self._ready

    async def _retry_initialise(self) -> None:
        if not self._ready and self._clock.monotonic() >= self._paused_until:
            await self.initialise()
            if self._ready and self._on_late_ready is not None:
                await self._on_late_ready(self)

    async def _attempt(
        self, what: str, call: Callable[[], Awaitable[T]], seconds: float
    ) -> tuple[T] | None:
        """The result of the call; None if it failed. Returns in time even if the provider ignores
        the cancellation."""
        task = asyncio.create_task(_await_call(call), name=f"memory {self.name} {what}")
        self._running.add(task)
        task.add_done_callback(self._on_task_done)
        try:
            await asyncio.wait({task}, timeout=seconds)
        finally:
            if not task.done():
                task.cancel()
        if not task.done():
            self._record_failure(what, f"took longer than {seconds:g} s")
        elif task.cancelled():
            self._record_failure(what, "cancelled itself")
        elif (error := task.exception()) is not None:
            self._record_failure(what, f"{type(error).__name__}: {error}")
        else:
            self._failures = 0
            return (task.result(),)
        return None

    def _on_task_done(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not report a late one as lost

    def _record_failure(self, what: str, why: str) -> None:
        log.warning(
            "Memory provider %s failed in %s: %s",
            self.name,
            what,
            why,
            extra={"action": "memory_failed"},
        )
        self._failures += 1
        if self._failures >= _MAX_FAILURES:
            self._pause()

    def _pause(self) -> None:
        extra = max(0, self._failures - _MAX_FAILURES)
        seconds = self._limits.pauses.wait(extra)
        self._paused_until = self._clock.monotonic() + seconds
        log.warning(
            "Memory provider %s is paused for %g s after repeated failures",
            self.name,
            seconds,
            extra={"action": "memory_paused"},
        )


async def _await_call(call: Callable[[], Awaitable[T]]) -> T:
    return await call()
