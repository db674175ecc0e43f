"""The agent cache: agents kept between turns, bounded in number, bytes and idle time."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from itertools import islice

from holdfast.agent.agent import Agent
from holdfast.core.config.settings import Settings
from holdfast.core.ids import SessionId
from holdfast.core.ops.status import AgentCacheStatus
from holdfast.system.pacing import IterationPacer

log = logging.getLogger(__name__)

BuildAgent = Callable[[], Awaitable[Agent]]

_MAX_UNPACED = 64  # turns that may start in one iteration of the event loop
_MAX_PACED = 8  # how many waiting ones start in each iteration; 4 cost 22 % more CPU, 8 cost 7 %


def start_pacer() -> IterationPacer:
    """The pacer for starting turns."""
    return IterationPacer(at_once=_MAX_UNPACED, per_iteration=_MAX_PACED)


class _Entry:
    """A cached agent, its last measured size in bytes, and whether a turn has leased it."""

    __slots__ = ("agent", "busy", "counted")

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.busy = True
        self.counted = 0


class AgentCache:
    """Owns every live agent: at most one per session, evicted in least-recently-used order.

    Busy means that this exact instance is leased to a turn, from `lease` to `release`. A busy agent
    is never evicted, and no younger agent is evicted in its place, so the cache may exceed its
    bounds while turns run; the next lease or release checks again.

    It belongs to the event loop: every method but `lease` is synchronous, and none may be called
    from another thread.
    """

    def __init__(
        self,
        *,
        max_agents: int,
        max_bytes: int,
        idle_ttl: float = 3600,
        pacer: IterationPacer | None = None,
    ) -> None:
        self._max_agents = max_agents
        self._max_bytes = max_bytes
        self._idle_ttl = idle_ttl
        self._entries: OrderedDict[SessionId, _Entry] = OrderedDict()
        self._building: set[SessionId] = set()
        self._pacer = pacer or start_pacer()
        self._busy_over_bounds = 0  # how many of the oldest agents were mid-turn at the last check
        self.bytes = 0
        self.hits = 0
        self.misses = 0

    def apply_settings(self, settings: Settings) -> None:
        """Apply changed bounds."""
        limits = settings.cache
        self._max_agents = limits.max_agents
        self._max_bytes = limits.max_mb * 1_000_000
        self._idle_ttl = limits.idle_ttl
        self._evict()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, session_id: str) -> bool:
        return session_id in self._entries

    def __iter__(self) -> Iterator[SessionId]:
        return iter(list(self._entries))

    @property
    def status(self) -> AgentCacheStatus:
        return AgentCacheStatus(
            cached=len(self._entries),
            max_agents=self._max_agents,
            bytes=self.bytes,
            max_bytes=self._max_bytes,
            mid_turn=sum(entry.busy for entry in self._entries.values()),
            hits=self.hits,
            misses=self.misses,
        )

    def find(self, session_id: SessionId) -> Agent | None:
        """The session's agent, whether or not it is leased. A lookup does not count as use."""
        entry = self._entries.get(session_id)
        return None if entry is None else entry.agent

    async def lease(self, session_id: SessionId, *, signature: str, build: BuildAgent) -> Agent:
        """Lease the session's agent: the cached one if it was built from the same inputs, else a
        new one.

        One lane owns a session, so no other caller leases its agent while this builds. If many
        turns start at once, each waits here for its place.
        """
        if (place := self._pacer.enter()) is not None:
            await place
        entry = self._entries.get(session_id)
        if entry is not None and entry.agent.signature == signature:
            self.hits += 1
            entry.busy = True
            self._entries.move_to_end(session_id)
        else:
            self.misses += 1
            self.drop(session_id)
            entry = self._entries[session_id] = _Entry(await self._build_current(session_id, build))
            self._evict()
        return entry.agent

    async def _build_current(self, session_id: SessionId, build: BuildAgent) -> Agent:
        """Build an agent, and again if `drop` was called meanwhile: its inputs may have changed."""
        while True:
            self._building.add(session_id)
            try:
                agent = await build()
                if session_id in self._building:
                    return agent
            finally:
                self._building.discard(session_id)
            agent.release_clients()

    def release(self, agent: Agent) -> None:
        """Return an agent after its turn. An agent that was dropped meanwhile is closed now."""
        entry = self._entries.get(agent.session_id)
        if entry is None or entry.agent is not agent:
            agent.release_clients()
            return
        entry.busy = False
        self.bytes += agent.size - entry.counted
        entry.counted = agent.size
        self._evict()

    def drop(self, session_id: SessionId) -> None:
        """Remove the session's agent from the cache; if it is leased to a turn, after that turn."""
        self._building.discard(session_id)
        entry = self._entries.pop(session_id, None)
        if entry is None:
            return
        self.bytes -= entry.counted
        if not entry.busy:
            entry.agent.release_clients()

    def clear(self) -> None:
        for session_id in list(self._entries):
            self.drop(session_id)

    def sweep(self, now: float) -> int:
        """Evict the agents whose `idle_ttl` is over at `now` (seconds since the epoch); returns how
        many.

        An agent that never reported activity, or is mid-turn, is kept.
        """
        idle = [session_id for session_id, until in self._idle_until() if until <= now]
        for session_id in idle:
            self._evict_one(session_id)
        return len(idle)

    def next_sweep(self) -> float | None:
        """The time when the next agent will have been idle for long enough; None if there is
        none."""
        return min((until for _, until in self._idle_until()), default=None)

    def _idle_until(self) -> Iterator[tuple[SessionId, float]]:
        for session_id, entry in self._entries.items():
            if not entry.busy and entry.agent.active_at is not None:
                yield session_id, entry.agent.active_at + self._idle_ttl

    def _evict(self) -> None:
        excess = self._excess()
        spared = 0
        for session_id in list(islice(self._entries, excess)):
            if self._entries[session_id].busy:
                spared += 1
            else:
                self._evict_one(session_id)
        if spared > self._busy_over_bounds:
            log.warning(
                "Agent cache exceeds its bounds: %d of the oldest agents are mid-turn; the "
                "next lease or release checks again",
                spared,
                extra={"action": "agent_cache_over_limit"},
            )
        self._busy_over_bounds = spared

    def _evict_one(self, session_id: SessionId) -> None:
        """Remove the agent from the cache now, and release its resources in a later iteration of
        the loop, so that the message that caused the eviction does not wait for that."""
        entry = self._entries.pop(session_id)
        self.bytes -= entry.counted
        asyncio.get_running_loop().call_soon(entry.agent.release_clients)

    def _excess(self) -> int:
        """How many of the oldest entries exceed the bounds, by number or by bytes."""
        by_number = max(0, len(self._entries) - self._max_agents)
        over = self.bytes - self._max_bytes
        by_bytes = 0
        for entry in self._entries.values():
            if over <= 0:
                break
            over -= entry.counted
            by_bytes += 1
        return max(by_number, by_bytes)
