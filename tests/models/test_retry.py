"""Retries happen only where they are safe, respect Retry-After, and are limited."""

import pytest

from holdfast.core.messages.transcript import AssistantMessage
from holdfast.core.retry import RetryPolicy
from holdfast.core.turns.model import (
    Completed,
    ModelEvent,
    ModelFailed,
    ModelFault,
    Retrying,
    TextDelta,
)
from holdfast.core.turns.turn import Usage
from holdfast.models.retry import ModelRetryPolicy, with_retries

DONE = Completed(AssistantMessage(text="ok"), Usage())


class RecordingWaiter:
    """Returns at once, and records each wait."""

    def __init__(self, remaining: float = 900) -> None:
        self.remaining = remaining
        self.waited: list[float] = []
        self.finished = 0

    async def pause(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.remaining -= seconds

    def finish(self) -> None:
        self.finished += 1


class HalfReply:
    """Returns half a word, and then the given failure or the end of the reply."""

    def __init__(self, failure: ModelFailed | None) -> None:
        self._failure = failure
        self._started = False
        self.closed = False
        self.done = False

    async def next_events(self) -> list[ModelEvent]:
        if not self._started:
            self._started = True
            return [TextDelta("hal")]
        if self._failure is not None:
            raise self._failure
        self.done = True
        return [DONE]

    def close(self) -> None:
        self.closed = True


async def run(
    failures: list[ModelFailed],
    *,
    backoff: ModelRetryPolicy | None = None,
    waiter: RecordingWaiter | None = None,
    jitter: float = 1.0,
) -> list[ModelEvent]:
    """Also checks that every reply is closed and the waiter finished once, whatever happens."""
    waiter, replies = waiter or RecordingWaiter(), list[HalfReply]()

    async def open_reply() -> HalfReply:
        replies.append(HalfReply(failures.pop(0) if failures else None))
        return replies[-1]

    policy = backoff or ModelRetryPolicy()
    events = with_retries(open_reply, policy=policy, waiter=waiter, jitter=lambda: jitter)
    try:
        return [event async for event in events]
    finally:
        assert replies and all(reply.closed for reply in replies)
        assert waiter.finished == 1


def fault(kind: ModelFault, retry_after: float | None = None) -> ModelFailed:
    return ModelFailed("no luck", fault=kind, retry_after=retry_after)


async def test_a_retry_voids_what_was_streamed_and_streams_again() -> None:
    assert await run([fault(ModelFault.SERVER)]) == [
        TextDelta("hal"),
        Retrying("no luck", 1, 0.5, attempts=5, fault=ModelFault.SERVER),
        TextDelta("hal"),
        DONE,
    ]


async def test_waits_double_up_to_a_ceiling() -> None:
    waiter = RecordingWaiter()
    await run(
        [fault(ModelFault.NETWORK)] * 5,
        waiter=waiter,
        backoff=ModelRetryPolicy(retries=5, backoff=RetryPolicy(first=0.5, longest=5)),
    )
    assert waiter.waited == [0.5, 1, 2, 4, 5]


async def test_jitter_is_full() -> None:
    waiter = RecordingWaiter()
    await run([fault(ModelFault.TIMEOUT)] * 2, waiter=waiter, jitter=0.0)
    assert waiter.waited == [0, 0]


async def test_retry_after_is_obeyed() -> None:
    waiter = RecordingWaiter()
    await run([fault(ModelFault.RATE_LIMIT, retry_after=7)], waiter=waiter, jitter=0.0)
    assert waiter.waited == [7]


@pytest.mark.parametrize(
    "kind", [ModelFault.AUTH, ModelFault.BAD_REQUEST, ModelFault.CONTEXT_TOO_LONG]
)
async def test_permanent_faults_are_not_retried(kind: ModelFault) -> None:
    failures = [fault(kind)]
    with pytest.raises(ModelFailed) as failed:
        await run(failures)
    assert (failed.value.fault, failures) == (kind, [])


async def test_retries_are_used_up() -> None:
    waiter = RecordingWaiter()
    failures = [fault(ModelFault.MALFORMED)] * 9
    with pytest.raises(ModelFailed):
        await run(failures, waiter=waiter, backoff=ModelRetryPolicy(retries=3))
    assert len(waiter.waited) == 3


async def test_a_retry_with_too_long_a_wait_is_not_started() -> None:
    waiter = RecordingWaiter()
    with pytest.raises(ModelFailed) as failed:
        await run([fault(ModelFault.RATE_LIMIT, retry_after=3600)], waiter=waiter)
    assert (failed.value.retry_after, waiter.waited) == (3600, [])


async def test_a_retry_that_would_outlast_the_call_is_not_started() -> None:
    waiter = RecordingWaiter(remaining=5)
    with pytest.raises(ModelFailed) as failed:
        await run([fault(ModelFault.RATE_LIMIT, retry_after=20)], waiter=waiter)
    assert (failed.value.fault, waiter.waited) == (ModelFault.RATE_LIMIT, [])
