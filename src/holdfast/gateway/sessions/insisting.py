"""Insisting: a turn that does not unwind when it is stopped, or has to be stopped again, sets its
session aside."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from holdfast.core.ids import SessionId
from holdfast.core.people.audit import GATEWAY_ACTOR
from holdfast.gateway.services import Services
from holdfast.gateway.sessions import leaving
from holdfast.gateway.turns.endings import STOPPED_BY_USER
from holdfast.gateway.turns.lanes import Lanes

log = logging.getLogger(__name__)

REPEAT_WINDOW = 60.0  # seconds from one stop to the next
UNWIND_TIMEOUT = 5.0
SUSPENDED_NOTICE = (
    "This conversation is set aside, since stopping it was not enough. What is said next begins a "
    "fresh one; /resume goes back to this."
)

CheckStopped = Callable[[], Awaitable[bool]]


class ForceStop:
    """Owns nothing: what was stopped, and when, is in the store."""

    def __init__(
        self,
        services: Services,
        lanes: Lanes,
        *,
        suspend: Callable[[SessionId], Awaitable[bool]],
        unwind_timeout: float = UNWIND_TIMEOUT,
    ) -> None:
        self._services = services
        self._lanes = lanes
        self._suspend = suspend
        self._unwind_timeout = unwind_timeout

    def before_stop(self, session_id: SessionId, *, at: float) -> CheckStopped:
        """Called in the instant in which a person stops the session's turn, before that is done;
        what is returned is awaited behind it. True: the session is set aside."""
        lane = self._lanes.get(session_id)
        turn = lane.running_turn if lane is not None else None
        agent = turn.task if turn is not None else None
        this = lane.open_turn_id if lane is not None else None

        async def see() -> bool:
            stopped = await self._services.store.turns_superseded_between(
                session_id, reason=STOPPED_BY_USER, since=at - REPEAT_WINDOW, until=at
            )
            if set(stopped) - {this} or not await self._has_unwound(agent):
                return await self._suspend_and_log(session_id)
            return False

        return see

    async def stop(self, session_id: SessionId, *, by: str = GATEWAY_ACTOR) -> bool:
        """What /stop does, without a message; False: nothing was running."""
        see = self.before_stop(session_id, at=self._services.clock.now())
        stopped = await leaving.stop_session(self._services, self._lanes, session_id, by=by)
        if stopped:
            await see()
        return stopped

    async def _has_unwound(self, agent: asyncio.Task[object] | None) -> bool:
        if agent is None or agent.done():
            return True
        done, _ = await asyncio.wait({agent}, timeout=self._unwind_timeout)
        return bool(done)

    async def _suspend_and_log(self, session_id: SessionId) -> bool:
        suspended = await self._suspend(session_id)
        if suspended:
            log.warning(
                "Session %s was set aside: stopping it was not enough.",
                session_id,
                extra={"action": "suspended", "session": session_id},
            )
        return suspended
