"""The hard end of a session: whatever it holds outside the store is ended, all of it, once."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from holdfast.core.ids import SessionId
from holdfast.gateway.agents.cache import AgentCache

log = logging.getLogger(__name__)

_TIMEOUT = 10.0  # seconds for one holder; what hangs delays neither its neighbours nor the user


class SessionResources(Protocol):
    """Who holds something for sessions: runners, browsers, memory, children."""

    name: str

    async def end_session(self, session_id: SessionId) -> None:
        """End what is held for this session. Idempotent; a session never heard of is fine."""
        ...


@runtime_checkable
class PersistentSessionResources(Protocol):
    """A holder that keeps something on disk which outlives the session's end."""

    async def forget(self, session_id: SessionId) -> None:
        """Delete what is kept for this session, which is closed already. Idempotent."""
        ...


class SessionTeardown:
    """Owns nothing but the list of who must be told."""

    def __init__(self, cache: AgentCache, *, timeout: float = _TIMEOUT) -> None:
        self._cache = cache
        self._timeout = timeout
        self._holders: list[SessionResources] = []

    def add(self, holders: Sequence[SessionResources]) -> None:
        self._holders.extend(holders)

    async def close(self, session_id: SessionId) -> None:
        """A11: whether an agent is cached or not. One that fails or hangs is logged, and the
        others get their turn all the same."""
        self._cache.drop(session_id)
        await asyncio.gather(*(self._release(holder, session_id) for holder in self._holders))

    async def forget(self, session_id: SessionId) -> None:
        """Close it and delete what was kept for it. Unlike a close it raises what kept one of
        them from that: nobody is to be told that something is gone which is not."""
        await self.close(session_id)
        for holder in self._holders:
            if isinstance(holder, PersistentSessionResources):
                await holder.forget(session_id)

    async def _release(self, holder: SessionResources, session_id: SessionId) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                await holder.end_session(session_id)
        except Exception:  # the edge of a holder: its trouble keeps nothing else alive
            log.exception(
                "The %s of session %s could not be ended.",
                holder.name,
                session_id,
                extra={"action": "session_teardown_failed", "session": session_id},
            )
