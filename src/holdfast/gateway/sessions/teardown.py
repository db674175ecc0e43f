"""Ends sessions: stop the turn, force-stop one that does not unwind, release resources, delete."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Protocol, runtime_checkable

from holdfast.core.errors import StoreError
from holdfast.core.ids import InboxId, SessionId
from holdfast.core.messages.inbox import InboxState
from holdfast.core.people.audit import GATEWAY_ACTOR, AuditEntry, AuditKind
from holdfast.core.ports.runtime import Clock
from holdfast.core.ports.store import Store, StoreReader
from holdfast.core.ports.store_commands import DeleteSession, EndSession
from holdfast.core.ports.store_queries import (
    ListSubagentsBelow,
    ListSupersededTurns,
)
from holdfast.core.sessions.session import CommandEffect
from holdfast.core.text.translation import N_
from holdfast.gateway.agents.cache import AgentCache
from holdfast.gateway.live.subscriptions import MessageSubscriptions
from holdfast.gateway.outbound.command_effects import CommandEffects
from holdfast.gateway.turns.endings import STOPPED_BY_USER, message_end, superseded_ends
from holdfast.gateway.turns.lane import Lane
from holdfast.gateway.turns.lanes import Lanes

log = logging.getLogger(__name__)


_TIMEOUT = 10.0  # seconds per holder: one that hangs delays neither the others nor the user
REPEAT_WINDOW = 60.0  # seconds from one stop to the next
UNWIND_TIMEOUT = 5.0  # seconds
SUSPENDED_NOTICE = N_(
    "Stopping the turn was not enough, so this conversation is suspended. Your next "
    "message starts a fresh one; /resume returns to this one."
)

CheckStopped = Callable[[], Awaitable[bool]]


class SessionResources(Protocol):
    """Holds resources for sessions: runners, browsers, memory, subagents."""

    name: str

    async def end_session(self, session_id: SessionId) -> None:
        """Release the resources of this session. Idempotent; an unknown session is no error."""
        ...


@runtime_checkable
class PersistentSessionResources(Protocol):
    """A holder that stores something on disk which outlives the session's end."""

    async def forget(self, session_id: SessionId) -> None:
        """Delete what is stored for this session, which is closed already. Idempotent."""
        ...


class SessionTeardown:
    """Releases everything that a session holds outside the store. Owns the list of holders."""

    def __init__(
        self, cache: AgentCache, holders: Sequence[SessionResources], *, timeout: float = _TIMEOUT
    ) -> None:
        self._cache = cache
        self._holders = tuple(holders)
        self._timeout = timeout

    async def close(self, session_id: SessionId) -> None:
        """A11: end the session's resources, whether or not an agent is cached. A holder that fails
        or hangs is logged, and does not affect the others."""
        self._cache.drop(session_id)
        await asyncio.gather(*(self._release(holder, session_id) for holder in self._holders))

    async def forget(self, session_id: SessionId) -> None:
        """Close the session and delete what is stored for it. Unlike `close`, this raises the error
        of a holder, so that nothing is reported as deleted that is not."""
        await self.close(session_id)
        for holder in self._holders:
            if isinstance(holder, PersistentSessionResources):
                await holder.forget(session_id)

    async def _release(self, holder: SessionResources, session_id: SessionId) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                await holder.end_session(session_id)
        # The boundary of a holder: its failure must not prevent the other releases.
        except Exception:
            log.exception(
                "Could not release the %s of session %s",
                holder.name,
                session_id,
                extra={"action": "session_teardown_failed", "session": session_id},
            )


class SessionStopper:
    """Stops the work of sessions on behalf of the gateway, a job or an operator. Owns nothing."""

    def __init__(
        self,
        lanes: Lanes,
        effects: CommandEffects,
        *,
        subscriptions: MessageSubscriptions,
        clock: Clock,
    ) -> None:
        self._lanes = lanes
        self._effects = effects
        self._subscriptions = subscriptions
        self._clock = clock

    async def stop_session(self, session_id: SessionId, *, by: str = GATEWAY_ACTOR) -> bool:
        """Stop the session as /stop does, without a message. True once that is durable, False if
        nothing was running."""
        lane = self._lanes.get(session_id)
        if lane is None:
            return False
        waiting = lane.drop_waiting_messages()
        ends = tuple(superseded_ends(waiting))
        async with AsyncExitStack() as stack:
            running = lane.answering
            if running is not None and running in self._subscriptions:
                events = await stack.enter_async_context(self._subscriptions.subscribe(running))
                if lane.stop(ends, (), by=by):
                    async for _ in events:
                        pass
                    return True
        if waiting:
            at = self._clock.now()
            try:
                effect = CommandEffect(inbox_ends=ends, by=by, session_id=session_id, at=at)
                await self._effects.commit(effect, retries=0)  # the caller can retry
            except StoreError:
                self._lanes.readmit(waiting, session_id)
                raise
        return bool(waiting)

    async def stop_message(self, inbox_id: InboxId, *, why: str = "") -> bool:
        """Stop the work on one message, as /stop does; False if no lane has it. With a reason, its
        turn fails and the sender gets that reason."""
        for lane in self._lanes:
            if lane.answering == inbox_id:
                if why and lane.running_turn is not None:
                    lane.running_turn.interrupt(why)
                    return True
                return lane.stop((), ())
            if any(row.id == inbox_id for row in lane.waiting_messages):
                await self._drop_waiting_message(lane, inbox_id, why or STOPPED_BY_USER)
                return True
        return False

    async def _drop_waiting_message(self, lane: Lane, inbox_id: InboxId, why: str) -> None:
        """End a message that waits. The turn that it waits for continues, and so do the other
        waiting messages."""
        waiting = lane.drop_waiting_messages()
        for row in waiting:
            if row.id != inbox_id:
                lane.admit(row)
        dropped = [row for row in waiting if row.id == inbox_id]
        ends = tuple(message_end(row, InboxState.SUPERSEDED, why) for row in dropped)
        effect = CommandEffect(inbox_ends=ends, session_id=lane.session_id, at=self._clock.now())
        try:
            await self._effects.commit(effect, retries=0)
        except StoreError:
            self._lanes.readmit(dropped, lane.session_id)
            raise


async def delete_session(
    session_id: SessionId,
    *,
    by: str = GATEWAY_ACTOR,
    store: Store,
    lanes: Lanes,
    stopper: SessionStopper,
    teardown: SessionTeardown,
    clock: Clock,
) -> None:
    """Delete the session and its subagents for good from the store, the search index and the disk.
    When this returns, nothing of it can be read from our files.

    A session ends first, so that new messages open another one, and its rows are deleted last, so
    that a deletion that was interrupted can be repeated."""
    # First, because while it runs it may start more subagents.
    await stopper.stop_session(session_id, by=by)
    below = await store.read(ListSubagentsBelow(session_id=session_id))
    for each in (*(subagent.session_id for subagent in reversed(below)), session_id):
        await store.write(EndSession(session_id=each, at=clock.now()))
        while (lane := lanes.get(each)) is not None:
            await stopper.stop_session(each, by=by)
            if lane.task is not None:
                await asyncio.wait([lane.task])
        await teardown.forget(each)
        kind, at = AuditKind.SESSION_DELETED, clock.now()
        act = AuditEntry(kind=kind, actor=by, at=at, session_id=each, subject=each)
        await store.write(DeleteSession(session_id=each), audit=act)
        await store.unindex_session(each)
    await store.erase_deleted()


class ForceStop:
    """Suspends a session whose turn does not unwind when it is stopped, or that is stopped again
    within `REPEAT_WINDOW`. Has no state: what was stopped, and when, is in the store."""

    def __init__(
        self,
        store: StoreReader,
        lanes: Lanes,
        *,
        stopper: SessionStopper,
        clock: Clock,
        suspend: Callable[[SessionId], Awaitable[bool]],
        unwind_timeout: float = UNWIND_TIMEOUT,
    ) -> None:
        self._store = store
        self._lanes = lanes
        self._stopper = stopper
        self._clock = clock
        self._suspend = suspend
        self._unwind_timeout = unwind_timeout

    def before_stop(self, session_id: SessionId, *, at: float) -> CheckStopped:
        """Call this before the session's turn is stopped, and await the returned function after the
        stop. It returns True if the session is suspended."""
        lane = self._lanes.get(session_id)
        turn = lane.running_turn if lane is not None else None
        agent = turn.task if turn is not None else None
        this_turn = lane.turn.turn_id if lane is not None and lane.turn is not None else None

        async def check() -> bool:
            stopped = await self._store.read(
                ListSupersededTurns(
                    session_id=session_id,
                    reason=STOPPED_BY_USER,
                    since=at - REPEAT_WINDOW,
                    until=at,
                )
            )
            if set(stopped) - {this_turn} or not await self._has_unwound(agent):
                return await self._suspend_and_log(session_id)
            return False

        return check

    async def stop(self, session_id: SessionId, *, by: str = GATEWAY_ACTOR) -> bool:
        """Stop the session as /stop does, without a message; False if nothing was running."""
        check = self.before_stop(session_id, at=self._clock.now())
        stopped = await self._stopper.stop_session(session_id, by=by)
        if stopped:
            await check()
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
                "Suspended session %s: stopping its turn was not enough",
                session_id,
                extra={"action": "suspended", "session": session_id},
            )
        return suspended
