"""Retention: what is kept no longer, once a day and a little at a time."""

import logging
from collections.abc import Awaitable, Callable
from functools import partial

from holdfast.core.errors import HoldfastError
from holdfast.core.ids import SessionId
from holdfast.core.ports.protocols import Clock, Store
from holdfast.gateway.live_settings import LiveSettings

log = logging.getLogger(__name__)

_DAY = 86400.0
_AFTER_START = 60.0  # seconds: whoever waits for a start does not wait for this
_LAST_RUN_KEY = "retention_looked_at"  # the time of the last look, in the store
_MAX_GAP = 2 * _DAY  # between two looks, at the most, of a clock that is believed
_MAX_DELETED_PER_RUN = 20  # sessions of one look: each takes files and processes with it

DeleteSession = Callable[[SessionId], Awaitable[None]]


class Retention:
    """Owns the time of the next look. `delete` deletes a session for good; `spare` says that one
    is in use."""

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
        """Do what is due; when to look again."""
        now = self._clock.now()
        set_back = self._next_run > now + _DAY
        if now < self._next_run and not set_back:
            return self._next_run
        # First, so that what fails is tried again tomorrow and not at once.
        self._next_run = now + _DAY
        if not await self._clock_is_plausible(now):
            return self._next_run
        settings = self._live_settings.current.retention
        # Before the messages, which say whether they have ended.
        runs = await self._prune_rows(self._store.prune_runs, now - settings.inbox_days * _DAY)
        messages = await self._prune_rows(self._store.prune_inbox, now - settings.inbox_days * _DAY)
        deliveries = await self._prune_rows(
            self._store.prune_outbox, now - settings.outbox_days * _DAY
        )
        sessions = await self._prune_sessions(now) if settings.sessions_days else 0
        if settings.audit_days:  # it tells of that itself
            prune = partial(self._store.prune_audit, at=now)
            await self._prune_rows(prune, now - settings.audit_days * _DAY)
        if messages or deliveries or sessions or runs:
            log.info(
                "Pruned %d sessions, %d ended messages, %d deliveries and %d runs of jobs.",
                sessions,
                messages,
                deliveries,
                runs,
                extra={"action": "pruned"},
            )
        return self._next_run

    async def _clock_is_plausible(self, now: float) -> bool:
        """Whether the clock has gone on as clocks do since the last look, which may have been that
        of another process. One that was set ahead makes everything old, and what is taken away
        then nobody brings back: it has to say the same a day later."""
        last = await self._store.meta(_LAST_RUN_KEY)
        await self._store.set_meta(_LAST_RUN_KEY, str(int(now)))
        went_on = last is not None and last.isdigit() and 0 <= now - int(last) <= _MAX_GAP
        if not went_on and last is not None:
            log.info(
                "Nothing is pruned before tomorrow: the clock has jumped, or this gateway was"
                " away for days.",
                extra={"action": "prune_postponed"},
            )
        return went_on

    async def _prune_rows(self, prune: Callable[..., Awaitable[int]], before: float) -> int:
        total = 0
        while gone := await prune(before=before):
            total += gone
        return total

    async def _prune_sessions(self, now: float) -> int:
        """Delete those that nobody has used for long; what is left over is due at once."""
        before = now - self._live_settings.current.retention.sessions_days * _DAY
        found = await self._store.sessions_unused_since(before=before, limit=_MAX_DELETED_PER_RUN)
        gone = 0
        for session_id in found:
            if not await self._in_use(session_id):
                gone += await self._delete_one(session_id)
        if gone == _MAX_DELETED_PER_RUN:
            self._next_run = now
        return gone

    async def _delete_one(self, session_id: SessionId) -> bool:
        """One that cannot be deleted keeps no other; it is tried again tomorrow."""
        try:
            await self._delete(session_id)
        except HoldfastError as error:
            log.warning(
                "Session %s could not be deleted: %s",
                session_id,
                error,
                extra={"action": "prune_failed", "session": session_id},
            )
            return False
        return True
