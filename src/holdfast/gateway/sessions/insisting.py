"""Insisting: a turn that does not unwind when it is stopped, or has to be stopped again, sets its
session aside."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from holdfast.core.ids import SessionId
from holdfast.core.people.audit import GATEWAY
from holdfast.gateway.services import House
from holdfast.gateway.sessions import leaving
from holdfast.gateway.turns.endings import STOPPED
from holdfast.gateway.turns.lanes import Lanes

log = logging.getLogger(__name__)

AGAIN_WITHIN = 60.0  # seconds from one stop to the next
UNWINDS_WITHIN = 5.0
SET_ASIDE = (
    "This conversation is set aside, since stopping it was not enough. What is said next begins a "
    "fresh one; /resume goes back to this."
)

Seen = Callable[[], Awaitable[bool]]


class Insisting:
    """Owns nothing: what was stopped, and when, is in the store."""

    def __init__(
        self,
        house: House,
        lanes: Lanes,
        *,
        suspend: Callable[[SessionId], Awaitable[bool]],
        unwinds_within: float = UNWINDS_WITHIN,
    ) -> None:
        self._house = house
        self._lanes = lanes
        self._suspend = suspend
        self._unwinds_within = unwinds_within

    def stopping(self, session_id: SessionId, *, at: float) -> Seen:
        """Called in the instant in which a person stops the session's turn, before that is done;
        what is returned is awaited behind it. True: the session is set aside."""
        lane = self._lanes.get(session_id)
        turn = lane.turn if lane is not None else None
        agent = turn.task if turn is not None else None
        this = lane.open_turn if lane is not None else None

        async def see() -> bool:
            stopped = await self._house.store.stopped_between(
                session_id, reason=STOPPED, since=at - AGAIN_WITHIN, until=at
            )
            if set(stopped) - {this} or not await self._unwinds(agent):
                return await self._set_aside(session_id)
            return False

        return see

    async def stop(self, session_id: SessionId, *, by: str = GATEWAY) -> bool:
        """What /stop does, without a message; False: nothing was running."""
        see = self.stopping(session_id, at=self._house.clock.now())
        stopped = await leaving.stop(self._house, self._lanes, session_id, by=by)
        if stopped:
            await see()
        return stopped

    async def _unwinds(self, agent: asyncio.Task[object] | None) -> bool:
        if agent is None or agent.done():
            return True
        done, _ = await asyncio.wait({agent}, timeout=self._unwinds_within)
        return bool(done)

    async def _set_aside(self, session_id: SessionId) -> bool:
        suspended = await self._suspend(session_id)
        if suspended:
            log.warning(
                "Session %s was set aside: stopping it was not enough.",
                session_id,
                extra={"action": "suspended", "session": session_id},
            )
        return suspended
