"""A guarded provider: asked only what it wants, for so long, and not while it keeps failing."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from holdfast.agent.memory.errands import Errands
from holdfast.core.people.memory import Hook, MemoryProvider
from holdfast.core.ports.protocols import Clock

log = logging.getLogger(__name__)

T = TypeVar("T")

Claim = Callable[[], Awaitable[bool]]  # False: somebody else has told it, or nobody is to


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds that one call may take, by hook, and what stands around them."""

    initialise: float = 3
    prompt_block: float = 1
    prefetch: float = 1
    sync_turn: float = 30
    on_session_end: float = 30
    on_pre_compact: float = 5
    shutdown: float = 1
    last_errands: float = 2  # what is left to do when the gateway stops
    pause: float = 60  # after the failures below, doubled with each further one
    longest_pause: float = 3600


USUAL_LIMITS = Limits()


_FAILURES = 3  # in a row


class Guarded:
    """Owns how far one provider is trusted, and the calls of it that are under way."""

    def __init__(self, provider: MemoryProvider, *, clock: Clock, limits: Limits) -> None:
        self.name = provider.name
        self.provider = provider
        self._clock = clock
        self._limits = limits
        self._errands = Errands(f"memory provider {provider.name}")
        self._running: set[asyncio.Task[Any]] = set()
        self._ready = False
        self._closed = False
        self._failures = 0
        self._paused_until = 0.0

    def wants(self, hook: Hook) -> bool:
        return hook in self.provider.wants

    def wait(self, *, prefetch: float) -> None:
        """So long is it waited for from now on."""
        self._limits = msgspec.structs.replace(self._limits, prefetch=prefetch)

    async def initialise(self) -> None:
        """Returns in time, whatever the provider does; one that fails is tried again later."""
        done = await self._attempt("initialise", self.provider.initialise, self._limits.initialise)
        self._ready = done is not None
        if not self._ready:
            self._pause()

    async def ask(self, hook: Hook, call: Callable[[], Awaitable[str]]) -> str:
        """The text it gives; "" where it gives none, fails, is late or is left alone."""
        if not self.wants(hook) or not self._trusted():
            return ""
        answer = await self._attempt(hook, call, self._limit(hook))
        if answer is not None and not isinstance(answer[0], str):
            self._failed(hook, "gave no text")
            return ""
        return answer[0] if answer is not None else ""

    async def tell(
        self, hook: Hook, call: Callable[[], Awaitable[None]], *, claim: Claim | None = None
    ) -> None:
        """The end of a session is told also while the provider is left alone: there is no
        second chance, and nobody waits for it. What has a second chance is claimed when it is
        about to be told, and not by one who is left alone."""
        if not self.wants(hook):
            return
        told = self._ready if hook is Hook.ON_SESSION_END else self._trusted()
        if told and (claim is None or await claim()):
            await self._attempt(hook, call, self._limit(hook))

    def tell_later(
        self,
        key: str,
        hook: Hook,
        call: Callable[[], Awaitable[None]],
        *,
        claim: Claim | None = None,
    ) -> asyncio.Future[None]:
        """Told after what was to be told before of the same key."""
        return self._errands.add(key, lambda: self.tell(hook, call, claim=claim))

    async def close(self) -> None:
        """Do what is left, for a while; then `shutdown`, if it was ever begun."""
        await self._errands.drain(self._limits.last_errands)
        self._closed = True
        for task in list(self._running):
            task.cancel()
        if self._ready:
            self._ready = False
            await self._attempt("shutdown", self.provider.shutdown, self._limits.shutdown)

    def _limit(self, hook: Hook) -> float:
        return {
            Hook.PROMPT_BLOCK: self._limits.prompt_block,
            Hook.PREFETCH: self._limits.prefetch,
            Hook.SYNC_TURN: self._limits.sync_turn,
            Hook.ON_SESSION_END: self._limits.on_session_end,
            Hook.ON_PRE_COMPACT: self._limits.on_pre_compact,
        }[hook]

    def _trusted(self) -> bool:
        if self._closed or self._clock.monotonic() < self._paused_until:
            return False
        if not self._ready:
            # Off the way of whoever asks: the next to ask finds it ready.
            self._errands.add(self.name, self._initialise_again)
        return self._ready

    async def _initialise_again(self) -> None:
        if not self._ready and self._clock.monotonic() >= self._paused_until:
            await self.initialise()

    async def _attempt(
        self, what: str, call: Callable[[], Awaitable[T]], seconds: float
    ) -> tuple[T] | None:
        """What the call gave; None: it failed. Returns in time also where the provider holds on
        to a call that was cancelled."""
        task = asyncio.create_task(_awaited(call), name=f"memory {self.name} {what}")
        self._running.add(task)
        task.add_done_callback(self._ended)
        try:
            await asyncio.wait({task}, timeout=seconds)
        finally:
            if not task.done():
                task.cancel()
        if not task.done():
            self._failed(what, f"took longer than {seconds:g} s")
        elif task.cancelled():
            self._failed(what, "was cancelled by itself")
        elif (error := task.exception()) is not None:
            self._failed(what, f"{type(error).__name__}: {error}")
        else:
            self._failures = 0
            return (task.result(),)
        return None

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # looked at, so that one that comes too late is not reported as lost

    def _failed(self, what: str, why: str) -> None:
        log.warning(
            "The memory provider %s failed in %s: %s",
            self.name,
            what,
            why,
            extra={"action": "memory_failed"},
        )
        self._failures += 1
        if self._failures >= _FAILURES:
            self._pause()

    def _pause(self) -> None:
        beyond = max(0, self._failures - _FAILURES)
        seconds = min(self._limits.pause * 2 ** min(beyond, 20), self._limits.longest_pause)
        self._paused_until = self._clock.monotonic() + seconds
        log.warning(
            "The memory provider %s is left alone for %g s.",
            self.name,
            seconds,
            extra={"action": "memory_paused"},
        )


async def _awaited(call: Callable[[], Awaitable[T]]) -> T:
    return await call()
