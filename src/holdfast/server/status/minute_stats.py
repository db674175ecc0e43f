"""Per-minute statistics of the last day, and their summary of the last hour."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from holdfast.core.errors import StoreError
from holdfast.core.ops.stats import MINUTE_SECONDS, NO_DURATIONS, MinuteStats, sum_usage
from holdfast.core.ops.status import AgentCacheStatus, HourStats
from holdfast.core.ports.runtime import Clock
from holdfast.core.ports.store import StoreReader, StoreWriter
from holdfast.core.ports.store_commands import AddMinuteStats
from holdfast.core.ports.store_queries import ListMinuteStats
from holdfast.core.turns.pricing import Prices, total_cost
from holdfast.core.turns.turn import NO_USAGE
from holdfast.gateway.live.counters import Counters

log = logging.getLogger(__name__)


DAY = 24 * 60 * MINUTE_SECONDS


class MinuteStatsStore(StoreWriter, StoreReader, Protocol):
    """The part of the store that is used here."""


class MinuteHistory:
    """Owns the minutes of the last day, and the timer that closes one.

    A minute in which nothing happened is in memory only, so that an idle gateway writes nothing.
    """

    def __init__(
        self,
        counters: Counters,
        store: MinuteStatsStore,
        *,
        clock: Clock,
        agents: Callable[[], AgentCacheStatus],
        lag: Callable[[], float],
        memory: Callable[[], int | None],
    ) -> None:
        """`lag`: the worst of the last minute; `memory`: what is resident now."""
        self._counters = counters
        self._store = store
        self._clock = clock
        self._agents = agents
        self._lag = lag
        self._memory = memory
        self._agents_before = AgentCacheStatus()
        self._closed: deque[MinuteStats] = deque(maxlen=DAY // MINUTE_SECONDS)
        self._timer: asyncio.TimerHandle | None = None
        self._saving: set[asyncio.Task[None]] = set()
        self._minute_start = self._start_of_minute()

    async def open(self) -> None:
        """Load the minutes that earlier processes saved, and start the timer."""
        since = self._minute_start - DAY
        try:
            self._closed.extend(await self._store.read(ListMinuteStats(since=since)))
        except StoreError as error:
            log.warning(
                "Could not load chart history, charts start empty: %s",
                error,
                extra={"action": "minute_stats"},
            )
        self._schedule()

    async def close(self) -> None:
        """Save the current minute as it is; the next process adds to it."""
        if self._timer is not None:
            self._timer.cancel()
        self._close_minute()
        await asyncio.gather(*self._saving, return_exceptions=True)

    def since(self, at: float) -> list[MinuteStats]:
        """The closed minutes and the current one so far, in order."""
        return [
            minute for minute in (*self._closed, self._current()) if minute.at + MINUTE_SECONDS > at
        ]

    def _current(self) -> MinuteStats:
        agents = self._agents()
        return msgspec.structs.replace(
            self._counters.current_minute(at=self._minute_start),
            hits=agents.hits - self._agents_before.hits,
            misses=agents.misses - self._agents_before.misses,
            lag=self._lag(),
            memory=self._memory() or 0,
        )

    def _close_minute(self) -> None:
        """The minute is over."""
        minute = self._current()
        self._counters.start_minute()
        self._agents_before = self._agents()
        self._closed.append(minute)
        if not minute.idle:
            add = AddMinuteStats(stats=minute, since=self._minute_start - DAY)
            task = asyncio.create_task(self._save(add), name="save minute")
            self._saving.add(task)
            task.add_done_callback(self._saving.discard)
        self._minute_start = self._start_of_minute()

    async def _save(self, add: AddMinuteStats) -> None:
        try:
            await self._store.write(add)
        except StoreError as error:
            log.warning(
                "Could not save per-minute statistics: %s", error, extra={"action": "minute_stats"}
            )

    def _start_of_minute(self) -> int:
        return int(self._clock.now()) // MINUTE_SECONDS * MINUTE_SECONDS

    def _schedule(self) -> None:
        wait = self._minute_start + MINUTE_SECONDS - self._clock.now()
        # A clock that was set back would make it wait for hours.
        soon = min(max(wait, 1.0), float(MINUTE_SECONDS))
        self._timer = asyncio.get_running_loop().call_later(soon, self._on_timer)

    def _on_timer(self) -> None:
        self._close_minute()
        self._schedule()


HOUR = 60 * MINUTE_SECONDS


def hour_stats(minutes: Sequence[MinuteStats], *, now: float, prices: Prices) -> HourStats:
    """Of the minutes that ended within the last hour and the present one, in any order. The same
    minute may come twice: a restart divides it between two processes."""
    last = int(now) // MINUTE_SECONDS
    turns = [0] * (HOUR // MINUTE_SECONDS)
    for minute in minutes:
        back = last - minute.at // MINUTE_SECONDS
        if 0 <= back < len(turns):
            turns[-1 - back] += minute.turns
    first_token = sum((minute.first_token for minute in minutes), NO_DURATIONS)
    duration = sum((minute.duration for minute in minutes), NO_DURATIONS)
    usage = sum_usage(minute.usage_by_model for minute in minutes)
    tokens = sum(usage.values(), NO_USAGE)
    return HourStats(
        turns=tuple(turns),
        failed=sum(minute.failed for minute in minutes),
        first_token_mean=first_token.mean,
        first_token_worst=first_token.worst,
        duration_mean=duration.mean,
        duration_worst=duration.worst,
        input_tokens=tokens.input_tokens,
        cached_tokens=tokens.cached_tokens,
        output_tokens=tokens.output_tokens,
        cost=total_cost(usage, prices),
    )
