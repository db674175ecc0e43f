"""Retries: a call that failed in a way that may pass is made again, later and later."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Protocol

import msgspec

from holdfast.core.turns.model import RETRYABLE, ModelEvent, ModelFailed, Retrying

Attempt = Callable[[], AsyncGenerator[ModelEvent, None]]


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """Full jitter: anything between nothing and a ceiling that doubles, so that a thousand
    sessions that failed together do not come back together."""

    retries: int = 4
    first: float = 0.5
    ceiling: float = 30.0
    longest_wait: float = 60.0  # a provider that asks for more is not waited for

    def delay(self, failed: ModelFailed, attempt: int, *, jitter: float) -> float | None:
        """Seconds until the next attempt, after `attempt` failed ones; None: there is none."""
        if failed.fault not in RETRYABLE or attempt > self.retries:
            return None
        spread: float = jitter * min(self.ceiling, self.first * 2 ** (attempt - 1))
        if failed.retry_after is None:
            return spread
        if failed.retry_after > self.longest_wait:
            return None
        return failed.retry_after + jitter * self.first


class Waiting(Protocol):
    """How a retry waits: bounded by the time limit of the whole call."""

    @property
    def remaining(self) -> float: ...
    def pause(self, seconds: float) -> Awaitable[None]: ...


async def with_retries(
    attempt: Attempt, *, backoff: Backoff, waiting: Waiting, jitter: Callable[[], float]
) -> AsyncGenerator[ModelEvent, None]:
    """The events of the first attempt that succeeds, a `Retrying` before each new one.

    A wait that would outlast the call's limit is not begun: the failure itself says more than
    a timeout would.
    """
    failures = 0
    while True:
        try:
            async with aclosing(attempt()) as events:
                async for event in events:
                    yield event
            return
        except ModelFailed as failed:
            failures += 1
            delay = backoff.delay(failed, failures, jitter=jitter())
            if delay is None or delay >= waiting.remaining:
                raise
            retrying = Retrying(str(failed), failures, delay)
        yield retrying
        await waiting.pause(delay)
