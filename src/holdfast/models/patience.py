"""Patience: how long a call may still wait for what, and the means to end it from outside."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from holdfast.core.model import ModelFailed
from holdfast.models import faults
from holdfast.models.target import ModelTarget

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]


class Patience:
    """Owns the waiting of one call.

    A limit covers only what is awaited through `wait`: the time its consumer takes between two
    events is not the provider's. Nothing is ever cancelled outside of `wait`, so that neither
    a limit nor `end` can strike in the middle of the consumer's own work.
    """

    __slots__ = ("_close", "_deadline", "_ended", "_loop", "_scope", "_sleep", "_target")

    def __init__(self, target: ModelTarget, *, sleep: Sleep) -> None:
        self._target = target
        self._sleep = sleep
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + (target.limits.whole or float("inf"))
        self._scope: asyncio.Timeout | None = None
        self._close: Callable[[], None] | None = None
        self._ended = False

    @property
    def remaining(self) -> float:
        return 0.0 if self._ended else self._deadline - self._loop.time()

    def end(self) -> None:
        """The wait in progress, or else the next one, raises `ModelFailed`. Idempotent."""
        self._ended = True
        if self._scope is not None:
            if not self._scope.expired():
                self._scope.reschedule(self._loop.time())
        elif self._close is not None:
            self._close()

    def hold(self, close: Callable[[], None] | None) -> None:
        """What `end` closes at once if nothing is being waited for just then."""
        self._close = close

    async def wait(self, what: Awaitable[T], limit: float, *, stage: str, setting: str) -> T:
        """Await it, `limit` seconds at the most (0: as long as the whole call may take)."""
        until = self._loop.time() + limit if limit else float("inf")
        at = min(until, self._deadline)
        try:
            async with asyncio.timeout_at(at if at != float("inf") else None) as scope:
                self._scope = scope
                if self._ended:
                    self.end()
                return await what
        except TimeoutError as error:
            if not scope.expired():
                raise
            raise self._expired(stage, setting, limit, whole=self._deadline < until) from error
        finally:
            self._scope = None

    async def pause(self, seconds: float) -> None:
        await self.wait(self._sleep(seconds), 0, stage="was not done", setting="whole_timeout")

    def _expired(self, stage: str, setting: str, limit: float, *, whole: bool) -> ModelFailed:
        if self._ended:
            return faults.ended(self._target)
        if whole:
            allowed = self._target.limits.whole
            return faults.timed_out(self._target, "was not done", "whole_timeout", allowed)
        return faults.timed_out(self._target, stage, setting, limit)
