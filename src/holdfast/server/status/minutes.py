"""The minutes of the last day: closed one by one, kept where something happened, and charted."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from holdfast.core.errors import StoreError
from holdfast.core.ops.facts import AgentFacts
from holdfast.core.ops.minute import MINUTE, Minute
from holdfast.core.ports.protocols import Clock
from holdfast.gateway.live.counters import Tally

log = logging.getLogger(__name__)

DAY = 24 * 60 * MINUTE


class MinuteStore(Protocol):
    """What of the store is used here."""

    def keep_minute(self, minute: Minute, *, since: int) -> Awaitable[None]: ...
    async def minutes(self, *, since: int) -> list[Minute]: ...


class Minutes:
    """Owns the minutes of the last day, and the timer that closes one.

    A minute in which nothing happened is in memory only, so that an idle gateway writes nothing.
    """

    def __init__(
        self,
        tally: Tally,
        store: MinuteStore,
        *,
        clock: Clock,
        agents: Callable[[], AgentFacts],
        lag: Callable[[], float],
        memory: Callable[[], int | None],
    ) -> None:
        """`lag`: the worst of the last minute; `memory`: what is resident now."""
        self._tally = tally
        self._store = store
        self._clock = clock
        self._agents = agents
        self._lag = lag
        self._memory = memory
        self._seen = AgentFacts()
        self._past: deque[Minute] = deque(maxlen=DAY // MINUTE)
        self._timer: asyncio.TimerHandle | None = None
        self._keeping: set[asyncio.Future[None]] = set()
        self._at = self._begin()

    async def open(self) -> None:
        """Take up what earlier lives have kept, and begin to count."""
        since = self._at - DAY
        try:
            self._past.extend(await self._store.minutes(since=since))
        except StoreError as error:
            log.warning("Charts begin now: %s", error, extra={"action": "minutes"})
        self._arm()

    async def close(self) -> None:
        """The minute that has begun is kept as it is; the next life adds to it."""
        if self._timer is not None:
            self._timer.cancel()
        self._turn()
        await asyncio.gather(*self._keeping, return_exceptions=True)

    def since(self, at: float) -> list[Minute]:
        """Those that are closed and the present one so far, in order."""
        return [minute for minute in (*self._past, self._present()) if minute.at + MINUTE > at]

    def _present(self) -> Minute:
        agents = self._agents()
        return msgspec.structs.replace(
            self._tally.now(at=self._at),
            hits=agents.hits - self._seen.hits,
            misses=agents.misses - self._seen.misses,
            lag=self._lag(),
            memory=self._memory() or 0,
        )

    def _turn(self) -> None:
        """The minute is over."""
        minute = self._present()
        self._tally.clear()
        self._seen = self._agents()
        self._past.append(minute)
        if not minute.idle:
            self._keep(minute)
        self._at = self._begin()

    def _keep(self, minute: Minute) -> None:
        keeping = asyncio.ensure_future(self._store.keep_minute(minute, since=self._at - DAY))
        self._keeping.add(keeping)
        keeping.add_done_callback(self._kept)

    def _kept(self, done: asyncio.Future[None]) -> None:
        self._keeping.discard(done)
        if not done.cancelled() and (error := done.exception()) is not None:
            log.warning("A minute is not kept: %s", error, extra={"action": "minutes"})

    def _begin(self) -> int:
        return int(self._clock.now()) // MINUTE * MINUTE

    def _arm(self) -> None:
        wait = self._at + MINUTE - self._clock.now()
        # A clock that was set back would have it wait for hours.
        soon = min(max(wait, 1.0), float(MINUTE))
        self._timer = asyncio.get_running_loop().call_later(soon, self._ring)

    def _ring(self) -> None:
        self._turn()
        self._arm()
