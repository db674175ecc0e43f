"""Retries: a call that failed in a way that may pass is made again, later and later."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Protocol

import msgspec

from holdfast.core.turns.model import RETRYABLE_FAULTS, ModelEvent, ModelFailed, Retrying

Attempt = Callable[[], AsyncGenerator[ModelEvent, None]]


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Full jitter: anything between nothing and a ceiling that doubles, so that a thousand
    sessions that failed together do not come back together."""

    retries: int = 4
    first_delay: float = 0.5
    max_delay: float = 30.0
    max_retry_after: float = 60.0  # a provider that asks for more is not waited for

    def delay(self, failed: ModelFailed, attempt: int, *, jitter: float) -> float | None:
        """Seconds until the next attempt, after `attempt` failed ones; None: there is none."""
        if failed.fault not in RETRYABLE_FAULTS or attempt > self.retries:
            return None
        spread: float = jitter * min(self.max_delay, self.first_delay * 2 ** (attempt - 1))
        if failed.retry_after is None:
            return spread
        if failed.retry_after > self.max_retry_after:
            return None
        return failed.retry_after + jitter * self.first_delay


class RetryWaiter(Protocol):
    """How a retry waits: bounded by the time limit of the whole call."""

    @property
    def remaining(self) -> float: ...
    def pause(self, seconds: float) -> Awaitable[None]: ...


async def with_retries(
    attempt: Attempt, *, policy: RetryPolicy, waiter: RetryWaiter, jitter: Callable[[], float]
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
            delay = policy.delay(failed, failures, jitter=jitter())
            if delay is None or delay >= waiter.remaining:
                raise
            retrying = Retrying(str(failed), failures, delay)
        yield retrying
        await waiter.pause(delay)
