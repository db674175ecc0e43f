"""The event loop's last word about itself, and how another thread has it say a newer one."""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from holdfast.core.ops.facts import Snapshot
from holdfast.core.ports.protocols import Clock

log = logging.getLogger(__name__)

WITHIN = 0.04  # seconds in which the loop may answer, before its last word is served
# A word so young is served again: however often status is asked for, the loop has other work.
_YOUNG = 0.05

Fresh = Callable[[], Coroutine[Any, Any, Snapshot]]


class LastWord:
    """Owns the last snapshot, and the one question to the loop that may be open.

    `ask`, `wait` and `now` are for another thread than the loop's; the rest is the loop's.
    """

    def __init__(self, *, clock: Clock, within: float = WITHIN) -> None:
        self._clock = clock
        self._within = within
        self._said: tuple[Snapshot, float] = (Snapshot(), clock.monotonic())
        self._ask: Callable[[], object] | None = None
        self._answered = threading.Event()  # no question is open
        self._answered.set()
        self._answered_at = -_YOUNG
        self._answering: asyncio.Task[None] | None = None

    def say(self, snapshot: Snapshot) -> None:
        """Replace what is served where the loop does not answer."""
        self._said = (snapshot, self._clock.monotonic())

    def listen(self, loop: asyncio.AbstractEventLoop, fresh: Fresh) -> None:
        """From now on this loop is asked."""
        self._ask = lambda: loop.call_soon_threadsafe(self._begin, loop, fresh)

    def now(self) -> tuple[Snapshot, float]:
        """The last word, and how many seconds old it is."""
        snapshot, at = self._said
        return snapshot, max(0.0, self._clock.monotonic() - at)

    def ask(self) -> float:
        """Have the loop say how it is, if it is there to say; until when that may be waited for.
        One that has not answered an earlier question will not be quicker with the next."""
        now = self._clock.monotonic()
        young = now - self._answered_at <= _YOUNG
        if self._ask is None or young or not self._answered.is_set():
            return now
        self._answered.clear()
        try:
            self._ask()
        except RuntimeError:
            return now  # the loop is closed: its last word stands
        return now + self._within

    def wait(self, until: float) -> None:
        """For the answer, and no longer."""
        self._answered.wait(max(0.0, until - self._clock.monotonic()))

    def _begin(self, loop: asyncio.AbstractEventLoop, fresh: Fresh) -> None:
        self._answering = loop.create_task(self._answer(fresh), name="status")
        self._answering.add_done_callback(self._done)

    async def _answer(self, fresh: Fresh) -> None:
        """In the breath in which it is known: what is said since must not be taken back by it."""
        self.say(await fresh())

    def _done(self, answer: asyncio.Task[None]) -> None:
        if not answer.cancelled() and (error := answer.exception()) is not None:
            log.error("Status is not known: %r", error, extra={"action": "status_failed"})
        self._answered_at = self._clock.monotonic()
        self._answered.set()
