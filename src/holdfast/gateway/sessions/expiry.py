"""Background task that ends expired sessions and prunes old rows.

`Expiry` sleeps until the next deadline. `Retention` prunes once a day, a little at a time.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from math import inf

from holdfast.core.config.settings import Settings
from holdfast.core.errors import HoldfastError
from holdfast.core.ids import SessionId, SessionKey
from holdfast.core.messages.source import parse_route
from holdfast.core.ports.command import Command
from holdfast.core.ports.runtime import Clock
from holdfast.core.ports.store import Store
from holdfast.core.ports.store_commands import (
    ExpireSession,
    PruneAudit,
    PruneInbox,
    PruneOutbox,
    PruneRuns,
    SetMeta,
)
from holdfast.core.ports.store_queries import (
    GetMeta,
    ListExpiringSessions,
    ListUnendedMemory,
    ListUnusedSessions,
)
from holdfast.core.retry import EXPIRY_RETRY
from holdfast.core.sessions.reset import ExpiringSession, expires_at
from holdfast.gateway.agents.cache import AgentCache
from holdfast.gateway.agents.memory import MemoryManager
from holdfast.gateway.live_settings import LiveSettings
from holdfast.gateway.sessions.resolver import SessionStore
from holdfast.gateway.sessions.teardown import SessionTeardown
from holdfast.gateway.turns.lanes import Lanes

log = logging.getLogger(__name__)


_DAY = 86400.0
_AFTER_START = 60.0  # seconds: pruning must not delay a start
_LAST_RUN_KEY = "retention_looked_at"  # the time of the last run, in the store
_MAX_GAP = 2 * _DAY  # between two runs; after a longer one the clock is not trusted
_MAX_DELETED_PER_RUN = 20  # sessions: each may have files and processes to remove
_MAX_EXPIRED_PER_RUN = 50  # sessions; there may be thousands after a long downtime
_READ_LIMIT = 1000  # sessions read per run; some may be in use for any length of time
_IDLE_PAUSE = 60.0  # seconds between two reports of idle sessions, at most
_MIN_SLEEP = 1.0  # seconds between two runs
_MAX_SLEEP = 86400.0  # seconds: a clock change is noticed within a day

DeleteSession = Callable[[SessionId], Awaitable[None]]


class Retention:
    """Owns the time of the next pruning. `delete` deletes a session for good; `in_use` tells
    whether it must be kept."""

    def __init__(
        self,
        live_settings: LiveSettings,
        *,
        store: Store,
        clock: Clock,
        delete: DeleteSession,
        in_use: Callable[[SessionId], Awaitable[bool]],
    ) -> None:
        self._live_settings = live_settings
        self._store = store
        self._clock = clock
        self._delete = delete
        self._in_use = in_use
        self._next_run = clock.now() + _AFTER_START

    async def prune(self) -> float:
        """Prune what is due. Returns the time of the next run."""
        now = self._clock.now()
        set_back = self._next_run > now + _DAY
        if now < self._next_run and not set_back:
            return self._next_run
        # First, so that a step that fails is tried again tomorrow and not at once.
        self._next_run = now + _DAY
        if not await self._clock_is_plausible(now):
            return self._next_run
        settings = self._live_settings.current.retention
        # Before the messages, because those record whether they have ended.
        runs = await self._prune_rows(PruneRuns(before=now - settings.inbox_days * _DAY))
        messages = await self._prune_rows(PruneInbox(before=now - settings.inbox_days * _DAY))
        deliveries = await self._prune_rows(PruneOutbox(before=now - settings.outbox_days * _DAY))
        sessions = await self._prune_sessions(now) if settings.sessions_days else 0
        if settings.audit_days:  # 0: the audit log is kept
            before = now - settings.audit_days * _DAY
            await self._prune_rows(PruneAudit(before=before, at=now))
        if messages or deliveries or sessions or runs:
            log.info(
                "Pruned %d sessions, %d ended messages, %d deliveries and %d job runs",
                sessions,
                messages,
                deliveries,
                runs,
                extra={"action": "pruned"},
            )
        return self._next_run

    async def _clock_is_plausible(self, now: float) -> bool:
        """Whether the clock has advanced normally since the last run, which may have been that of
        another process. A clock that was set ahead makes everything look old, and a deletion cannot
        be undone, so the clock must be plausible again a day later."""
        last = await self._store.read(GetMeta(key=_LAST_RUN_KEY))
        await self._store.write(SetMeta(key=_LAST_RUN_KEY, value=str(int(now))))
        went_on = last is not None and last.isdigit() and 0 <= now - int(last) <= _MAX_GAP
        if not went_on and last is not None:
            log.info(
                "Pruning postponed to tomorrow: the clock has jumped, or this gateway did "
                "not run for days",
                extra={"action": "prune_postponed"},
            )
        return went_on

    async def _prune_rows(self, prune: Command[int]) -> int:
        """Prune rows in batches, one commit each, so that other writes do not wait long."""
        total = 0
        while pruned := await self._store.write(prune):
            total += pruned
        return total

    async def _prune_sessions(self, now: float) -> int:
        """Delete sessions that were not used for long. If some are left over, the next run is due
        at once."""
        before = now - self._live_settings.current.retention.sessions_days * _DAY
        found = await self._store.read(
            ListUnusedSessions(before=before, limit=_MAX_DELETED_PER_RUN)
        )
        gone = 0
        for session_id in found:
            if not await self._in_use(session_id):
                gone += await self._delete_one(session_id)
        if gone == _MAX_DELETED_PER_RUN:
            self._next_run = now
        return gone

    async def _delete_one(self, session_id: SessionId) -> bool:
        """Delete one session. A failure does not prevent other deletions; it is tried again
        tomorrow."""
        try:
            await self._delete(session_id)
        except HoldfastError as error:
            log.warning(
                "Could not delete session %s: %s; trying again tomorrow",
                session_id,
                error,
                extra={"action": "prune_failed", "session": session_id},
            )
            return False
        return True


class IdleMemory:
    """Reports the ends of sessions that were idle for `memory.end_after` to memory providers. The
    sessions themselves continue. Owns nothing."""

    def __init__(
        self,
        live_settings: LiveSettings,
        *,
        store: Store,
        clock: Clock,
        lanes: Lanes,
        cache: AgentCache,
        memory: MemoryManager,
    ) -> None:
        self._live_settings = live_settings
        self._store = store
        self._clock = clock
        self._lanes = lanes
        self._cache = cache
        self._memory = memory

    @property
    def after(self) -> float | None:
        """Seconds of idleness; None: no end is reported because of them."""
        seconds = self._live_settings.current.memory.end_after
        return seconds if seconds and self._memory.wants_ends else None

    async def end_idle(self) -> float | None:
        """Report the ends that are due. Returns when the next one is; None: none will be."""
        if (after := self.after) is None:
            return None
        now = self._clock.now()
        found = await self._store.read(ListUnendedMemory(limit=_MAX_EXPIRED_PER_RUN))
        due = [
            session_id
            for session_id, active_at in found
            if active_at + after <= now and self._lanes.get(session_id) is None
        ]
        for session_id in due:
            # An agent that is built is how the store learns that the session continues.
            self._cache.drop(session_id)
        await self._memory.finalise(due)
        if len(due) == _MAX_EXPIRED_PER_RUN:
            return now
        # One run serves all that are due within a minute.
        pause = min(_IDLE_PAUSE, after / 100)
        waiting = [at + after for session_id, at in found if session_id not in due]
        return max(min(waiting), now + pause) if waiting else None


class Expiry:
    """Owns the time of the next run.

    `on_session_idle` is called whenever a session becomes idle: only then can there be a deadline
    earlier than the one it sleeps until.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        live_settings: LiveSettings,
        sessions: SessionStore,
        *,
        retention: Retention,
        idle_memory: IdleMemory,
        teardown: SessionTeardown,
        cache: AgentCache,
    ) -> None:
        self._store = store
        self._clock = clock
        self._live_settings = live_settings
        self._sessions = sessions
        self._retention = retention
        self._idle_memory = idle_memory
        self._teardown = teardown
        self._cache = cache
        self._wake_at = inf
        self._woken = asyncio.Event()
        self._closed = False

    async def run(self) -> None:
        """Run until `close` is called."""
        while not self._closed:
            self._wake_at = inf  # a session that becomes idle during the run may have been missed
            try:
                self._wake_at = await self.run_once()
            except HoldfastError as error:
                log.warning(
                    "Expiring sessions failed: %s; retrying in %s s",
                    error,
                    EXPIRY_RETRY.wait(0),
                    extra={"action": "expiry_failed"},
                )
                self._wake_at = self._clock.now() + EXPIRY_RETRY.wait(0)
            await self._sleep()

    def close(self) -> None:
        self._closed = True
        self._woken.set()

    def apply_settings(self, settings: Settings) -> None:
        """Apply changed settings: by their deadlines, the current sleep may be too long."""
        self._woken.set()

    def on_session_idle(self) -> None:
        """A session has just become idle."""
        if self._wake_at > self._earliest_deadline():
            self._woken.set()

    async def run_once(self) -> float:
        """Expire and prune what is due. Returns the time of the next run."""
        self._cache.sweep(self._clock.now())
        pruned = await self._retention.prune()
        expires = await self._expire()
        nexts = (pruned, expires, await self._idle_memory.end_idle(), self._cache.next_sweep())
        return min(at for at in nexts if at is not None)

    async def _sleep(self) -> None:
        left = max(self._wake_at - self._clock.now(), _MIN_SLEEP)
        with suppress(TimeoutError):
            async with asyncio.timeout(min(left, _MAX_SLEEP)):
                await self._woken.wait()
        self._woken.clear()

    def _earliest_deadline(self) -> float:
        """The earliest deadline of a session that becomes idle now."""
        now = self._clock.now()
        idle = now + self._live_settings.current.cache.idle_ttl
        expires = self._sessions.policies.earliest(now)
        after = self._idle_memory.after
        ended = None if after is None else now + after
        return min(at for at in (idle, expires, ended) if at is not None)

    def _deadline(self, route: SessionKey, active_at: float) -> float | None:
        platform, _, kind, _ = parse_route(route)
        return expires_at(self._sessions.policies.for_chat(platform, kind), active_at)

    async def _expire(self) -> float | None:
        """End expired sessions. Returns when the next one expires."""
        if not self._sessions.policies.is_enabled:
            return None
        now = self._clock.now()
        found = await self._store.read(
            ListExpiringSessions(
                expires_at=self._deadline,
                earliest=self._sessions.policies.earliest,
                limit=_READ_LIMIT,
            )
        )
        again = now + EXPIRY_RETRY.wait(0)
        spared = ended = 0
        for each in found:
            if each.expires_at > now:
                return min(each.expires_at, again) if spared else each.expires_at
            if ended == _MAX_EXPIRED_PER_RUN:
                return now
            if await self._end_session(each, now):
                ended += 1
            else:
                spared += 1
        return again if spared else None

    async def _end_session(self, expiring: ExpiringSession, now: float) -> bool:
        """End one session; False if it is in use, and kept. It is ended in the store first and
        once, so that its next message opens a fresh session even if releasing its resources
        fails."""
        session_id = expiring.session_id
        if await self._sessions.is_in_use(session_id):
            return False
        ended = await self._store.write(
            ExpireSession(session_id=session_id, active_at=expiring.active_at, at=now)
        )
        if not ended:
            return False
        await self._teardown.close(session_id)
        log.info(
            "Session %s expired", session_id, extra={"action": "expired", "session": session_id}
        )
        return True
