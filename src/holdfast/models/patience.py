"""Patience: how long a call may still wait for what, and the means to end it from outside."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from holdfast.core.turns.model import ModelFailed
from holdfast.models import errors
from holdfast.models.target import ModelTarget

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]
_NEVER = float("inf")


class CallDeadline:
    """Owns the waiting of one call.

    A limit covers what is awaited through `wait` since something was last `heard`, in as many
    waits as it takes: the time its consumer takes between two events is not the provider's, and
    a comment that keeps a connection alive is no token. Nothing is ever cancelled outside of
    `wait`, so that neither a limit nor `end` can strike in the middle of the consumer's work.
    """

    __slots__ = (
        "_armed",
        "_close_response",
        "_deadline",
        "_cancelled",
        "_expired",
        "_loop",
        "_idle_seconds",
        "_sleep",
        "_target",
        "_task",
        "_timer",
        "_until",
    )

    def __init__(self, target: ModelTarget, *, sleep: Sleep) -> None:
        self._target = target
        self._sleep = sleep
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + (target.limits.total or _NEVER)
        self._task: asyncio.Task[object] | None = None  # that waits at present
        self._timer: asyncio.TimerHandle | None = None
        self._armed = _NEVER
        self._until = _NEVER
        self._idle_seconds = 0.0  # seconds waited since something was heard
        self._expired = False
        self._cancelled = False
        self._close_response: Callable[[], None] | None = None

    @property
    def remaining(self) -> float:
        return 0.0 if self._cancelled else self._deadline - self._loop.time()

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    def mark_progress(self) -> None:
        """What was waited for came: the next limit begins anew."""
        self._idle_seconds = 0.0

    def cancel(self) -> None:
        """The wait in progress, or else the next one, raises `ModelFailed`. Idempotent."""
        self._cancelled = True
        if self._task is not None:
            self._expire()
        elif self._close_response is not None:
            self._close_response()

    def close_on_cancel(self, close: Callable[[], None] | None) -> None:
        """What `end` closes at once if nothing is being waited for just then."""
        self._close_response = close

    def finish(self) -> None:
        """The call is over: nothing of it stays behind in the event loop."""
        if self._timer is not None:
            self._timer.cancel()

    async def pause(self, seconds: float) -> None:
        await self.wait(
            lambda: self._sleep(seconds), 0, stage="was not done", setting="whole_timeout"
        )

    async def wait(
        self, start: Callable[[], Awaitable[T]], limit: float, *, stage: str, setting: str
    ) -> T:
        """Await what it begins; raises `ModelFailed` once there were `limit` seconds of silence
        (0: as many as the whole call may take)."""
        if self._cancelled:
            raise errors.released_error(self._target)
        began = self._loop.time()
        until = began + limit - self._idle_seconds if limit else _NEVER
        self._until = until if until < self._deadline else self._deadline
        whole = self._deadline < until
        if self._until <= began:
            # What is there already is taken without a pause in which a timer could ring.
            raise self._failure(stage, setting, limit, is_total=whole)
        # A timer a token would cost more than the token: the one that is set stays, and looks
        # when it fires whether the deadline has moved on meanwhile.
        if self._until < self._armed:
            self._arm()
        task = self._task = asyncio.current_task()
        assert task is not None
        cancelling = task.cancelling()
        try:
            return await start()
        except asyncio.CancelledError:
            if not self._withdraw_cancel(task) or task.cancelling() > cancelling:
                raise  # somebody else cancels this task, too: theirs goes first
            raise self._failure(stage, setting, limit, is_total=whole) from None
        finally:
            self._withdraw_cancel(task)
            self._task = None
            self._idle_seconds += self._loop.time() - began

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._armed = self._until
        self._timer = None
        if self._until != _NEVER:
            self._timer = self._loop.call_at(self._until, self._on_timer)

    def _on_timer(self) -> None:
        self._timer, self._armed = None, _NEVER
        if self._task is None:
            return
        if self._loop.time() < self._until:
            self._arm()
        else:
            self._expire()

    def _expire(self) -> None:
        if self._task is not None and not self._expired:
            self._expired = True
            self._task.cancel()

    def _withdraw_cancel(self, task: "asyncio.Task[object]") -> bool:
        """Whether there was a cancellation of ours, which there is no more."""
        if not self._expired:
            return False
        self._expired = False
        task.uncancel()
        return True

    def _failure(self, stage: str, setting: str, limit: float, *, is_total: bool) -> ModelFailed:
        if self._cancelled:
            return errors.released_error(self._target)
        if is_total:
            allowed = self._target.limits.total
            return errors.timeout_error(self._target, "was not done", "whole_timeout", allowed)
        return errors.timeout_error(self._target, stage, setting, limit)
