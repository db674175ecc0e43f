"""Spreads the work of a crowd over several iterations of the event loop."""

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

_MAX_HOLD = 0.02  # seconds that many waiters wait for urgent work before some continue
_MAX_URGENT = 0.25  # seconds for which work is urgent; some commands call a model, and take longer


class IterationPacer:
    """Lets a few of many waiters continue in each iteration of the event loop. Owns those that
    wait, in order. A chat command passes about ten iterations until it is answered. If the work of
    a thousand messages were done in one of them, it would wait for all of them. Up to `at_once`
    continue without waiting, so that their writes share commits."""

    def __init__(self, *, at_once: int, per_iteration: int) -> None:
        self._at_once = at_once
        self._per_iteration = per_iteration
        self._entered = 0  # in this iteration, or in several with few
        self._urgent = 0  # how many `urgent` contexts are open
        self._urgent_until = 0.0
        self._released_at = 0.0  # when some that waited last went on
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._next: asyncio.Handle | None = None  # of `_begin_iteration`

    def enter(self) -> asyncio.Future[None] | None:
        """None: continue. Otherwise, await the future first."""
        if self._waiting or self._entered >= self._at_once:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            self._schedule()
            return waiter
        self._entered += 1
        if self._entered == self._at_once // 2:  # a callback for each would cost too much
            self._schedule()
        return None

    @contextmanager
    def urgent(self) -> Iterator[None]:
        """While something is done that must not wait for the crowd, the crowd waits for it, at most
        `_MAX_HOLD` at a time. A loop with nothing to do also leaves the interpreter to the thread
        that writes, for which the urgent work waits."""
        self._urgent += 1
        self._urgent_until = asyncio.get_running_loop().time() + _MAX_URGENT
        self._reschedule()
        try:
            yield
        finally:
            self._urgent -= 1
            self._reschedule()

    def _begin_iteration(self) -> None:
        self._next = None
        self._entered = 0
        self._released_at = asyncio.get_running_loop().time()
        left = self._per_iteration
        while left and self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():  # else its task was cancelled
                waiter.set_result(None)
                left -= 1
        if self._waiting:
            self._schedule()

    def _schedule(self) -> None:
        if self._next is not None:
            return
        loop = asyncio.get_running_loop()
        if self._urgent and loop.time() < self._urgent_until:
            self._next = loop.call_at(self._released_at + _MAX_HOLD, self._begin_iteration)
        else:
            self._next = loop.call_soon(self._begin_iteration)

    def _reschedule(self) -> None:
        """Whether something is urgent has changed. A release that is due stays: else, with urgent
        work in every iteration, none would ever happen."""
        if not self._waiting:
            return
        if self._next is not None:
            if asyncio.get_running_loop().time() >= self._released_at + _MAX_HOLD:
                return
            self._next.cancel()
            self._next = None
        self._schedule()
