"""The event loop's last word about itself, and how another thread has it say a newer one."""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from holdfast.core.ops.facts import GatewaySnapshot
from holdfast.core.ports.protocols import Clock

log = logging.getLogger(__name__)

ANSWER_TIMEOUT = 0.04  # seconds in which the loop may answer, before its last word is served
# A word so young is served again: however often status is asked for, the loop has other work.
_FRESH_FOR = 0.05

FreshSnapshot = Callable[[], Coroutine[Any, Any, GatewaySnapshot]]


class SnapshotCache:
    """Owns the last snapshot, and the one question to the loop that may be open.

    `ask`, `wait` and `now` are for another thread than the loop's; the rest is the loop's.
    """

    def __init__(self, *, clock: Clock, timeout: float = ANSWER_TIMEOUT) -> None:
        self._clock = clock
        self._timeout = timeout
        self._latest: tuple[GatewaySnapshot, float] = (GatewaySnapshot(), clock.monotonic())
        self._request: Callable[[], object] | None = None
        self._answered = threading.Event()  # no question is open
        self._answered.set()
        self._answered_at = -_FRESH_FOR
        self._task: asyncio.Task[None] | None = None

    def publish(self, snapshot: GatewaySnapshot) -> None:
        """Replace what is served where the loop does not answer."""
        self._latest = (snapshot, self._clock.monotonic())

    def attach_loop(self, loop: asyncio.AbstractEventLoop, fresh: FreshSnapshot) -> None:
        """From now on this loop is asked."""
        self._request = lambda: loop.call_soon_threadsafe(self._start_task, loop, fresh)

    def latest(self) -> tuple[GatewaySnapshot, float]:
        """The last word, and how many seconds old it is."""
        snapshot, at = self._latest
        return snapshot, max(0.0, self._clock.monotonic() - at)

    def request_fresh(self) -> float:
        """Have the loop say how it is, if it is there to say; until when that may be waited for.
        One that has not answered an earlier question will not be quicker with the next."""
        now = self._clock.monotonic()
        young = now - self._answered_at <= _FRESH_FOR
        if self._request is None or young or not self._answered.is_set():
            return now
        self._answered.clear()
        try:
            self._request()
        except RuntimeError:
            return now  # the loop is closed: its last word stands
        return now + self._timeout

    def wait_for_answer(self, until: float) -> None:
        """For the answer, and no longer."""
        self._answered.wait(max(0.0, until - self._clock.monotonic()))

    def _start_task(self, loop: asyncio.AbstractEventLoop, fresh: FreshSnapshot) -> None:
        self._task = loop.create_task(self._refresh(fresh), name="status")
        self._task.add_done_callback(self._on_done)

    async def _refresh(self, fresh: FreshSnapshot) -> None:
        """In the breath in which it is known: what is said since must not be taken back by it."""
        self.publish(await fresh())

    def _on_done(self, answer: asyncio.Task[None]) -> None:
        if not answer.cancelled() and (error := answer.exception()) is not None:
            log.error("Status is not known: %r", error, extra={"action": "status_failed"})
        self._answered_at = self._clock.monotonic()
        self._answered.set()
