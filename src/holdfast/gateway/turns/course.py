"""The course of a lane: from one turn to the next, in order, until nothing is left to answer."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from holdfast.agent.agent import Agent
from holdfast.core.errors import StoreError
from holdfast.core.messages.events import TurnStarted
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.turns.stop import TurnExitReason
from holdfast.core.turns.turn import LaneState, OpenTurn, TurnState
from holdfast.gateway.approvals.pending import PendingApprovals
from holdfast.gateway.closing_write import FIRST_WAIT, MAX_WAIT, RetriedWrite
from holdfast.gateway.services import Services
from holdfast.gateway.turns.dormant_turn import DormantTurn
from holdfast.gateway.turns.endings import end_stopped, end_unanswered
from holdfast.gateway.turns.finishing import (
    name_session,
    run_agent,
    write_end_never_begun,
    write_unbegun_ends,
)
from holdfast.gateway.turns.lane import Lane
from holdfast.gateway.turns.turn import Turn
from holdfast.gateway.turns.turn_factory import TurnFactory

log = logging.getLogger(__name__)


class LaneLoop:
    """Owns the way from turn to turn; what waits, and the turn that is present, are the lane's.

    One runs for each lane, in the lane's own task, and goes away with it.
    """

    def __init__(self, lane: Lane, *, services: Services, fresh: bool) -> None:
        self._lane = lane
        self._services = services
        self._turn_factory = TurnFactory(lane.session_id, services=services, fresh=fresh)

    async def run(self) -> None:
        """Answer until there is nothing to answer. A store that fails delays, and loses nothing."""
        lane, wait = self._lane, FIRST_WAIT
        while self._has_more:
            if lane.pause is not None:
                await lane.pause.hold_lane()
                lane.pause = None
                continue
            try:
                await self._do_next()
                wait = FIRST_WAIT
            except StoreError as error:
                log.error(
                    "Session %s waits for the store: %s",
                    lane.session_id,
                    error,
                    extra={"action": "lane_waiting_for_store", "session": lane.session_id},
                )
                await asyncio.sleep(wait)
                wait = min(wait * 2, MAX_WAIT)
            lane.set_state(LaneState.IDLE)

    @property
    def _has_more(self) -> bool:
        """Who waits for a person waits on while the gateway stops: only a person ends that."""
        lane = self._lane
        waits = lane.dormant_turn is not None and lane.dormant_turn.open_turn.is_waiting
        return waits if lane.held else bool(lane.pause or lane.dormant_turn or lane.mailbox)

    async def _do_next(self) -> None:
        """Wait for whom the turn set aside waits for; then end it, or run what is next."""
        lane = self._lane
        if lane.dormant_turn is not None and lane.dormant_turn.open_turn.is_waiting:
            lane.set_state(LaneState.WAITING)
            await lane.dormant_turn.wait_until_woken(lane.mailbox)
            if lane.held and not lane.dormant_turn.stopped:
                await self._stay_parked()
        lane.set_state(LaneState.STARTING)
        if lane.dormant_turn is not None and lane.dormant_turn.stopped:
            await self._end_dormant(lane.dormant_turn)
        else:
            await self._run_next()

    async def _end_dormant(self, dormant: DormantTurn, why: str = "") -> None:
        await self._write_until_durable(await dormant.end(why))
        self._lane.dormant_turn = None

    async def _write_until_durable(self, write: Callable[[], Awaitable[None]]) -> None:
        """Returns once it is durable. A stop of the gateway finds it in the lane, to hurry it."""
        self._lane.closing_write = closing = RetriedWrite(write)
        try:
            await closing.until_durable()
        finally:
            self._lane.closing_write = None

    async def _run_next(self) -> None:
        lane, cache = self._lane, self._services.cache
        first = lane.dormant_turn.rows[0] if lane.dormant_turn else lane.mailbox[0]
        try:
            agent = await self._turn_factory.lease_agent(first)
        except StoreError:
            raise
        except Exception as error:  # the edge of a turn that could not even begin
            about = {"action": "agent_build_failed", "session": lane.session_id}
            log.exception("No agent for %s.", lane.session_id, extra=about)
            await self._fail_next(first, f"there is no agent for this conversation: {error}")
            return
        try:
            lane.current_turn = turn = await self._next_turn(agent, first)
            if turn is not None:
                lane.set_state(LaneState.RUNNING)
                await self._run_turn(turn)
        except StoreError:
            # The buffer may hold what the log does not: the next try reads the log again.
            cache.drop(lane.session_id)
            raise
        finally:
            lane.current_turn = None
            if not first.inbound.lasting:
                cache.drop(lane.session_id)
            cache.release(agent)

    async def _fail_next(self, first: InboxRow, why: str) -> None:
        """End what was to be run next as failed, and tell its sender."""
        lane = self._lane
        if lane.dormant_turn is not None:
            await self._end_dormant(lane.dormant_turn, why)
            return
        if not self._is_next(first):
            return
        # Out of the mailbox before it ends: nobody else can end it then.
        lane.mailbox.popleft()
        try:
            house = self._services
            at = house.clock.now()
            await write_unbegun_ends(
                house, end_unanswered(first, why, delivery_factory=house.delivery_factory, at=at)
            )
        except StoreError:
            lane.mailbox.appendleft(first)
            raise

    async def _next_turn(self, agent: Agent, first: InboxRow) -> Turn | None:
        """Begun or gone on with; None: a command has ended what this agent was leased for, or the
        gateway stops."""
        lane = self._lane
        if lane.dormant_turn is not None:
            return await self._resume(agent, lane.dormant_turn)
        if lane.held:
            return None
        await lane.mailbox.wait_until_complete()
        recalled = await self._turn_factory.recall(first)
        if lane.held or not self._is_next(first):
            return None
        lane.approvals = PendingApprovals()
        return self._turn_factory.begin(
            agent,
            lane.mailbox.take_next(),
            approvals=lane.approvals,
            reset=lane.pending_reset,
            recalled=recalled,
            interruption=lane.pending_note,
        )

    async def _resume(self, agent: Agent, dormant: DormantTurn) -> Turn | None:
        lane = self._lane
        await self._turn_factory.save_prompt(agent)
        if lane.held and not dormant.stopped:
            return None  # its row says what it said: a successor goes on with it
        dormant.resuming = (
            True  # from here on: what takes that back is queued before anyone else is
        )
        try:
            turn = await self._turn_factory.resume(agent, dormant, approvals=lane.approvals)
        except StoreError:
            dormant.resuming = False  # its row says what it said
            raise
        lane.dormant_turn = None
        lane.approvals.mark_resumed()
        self._services.feeds.session_committed(lane.session_id)
        if dormant.stopped:
            at = self._services.clock.now()
            ends, told = dormant.ends, dormant.deliveries
            turn.end(end_stopped(turn, ends=ends, deliveries=told, by=dormant.stopped_by, at=at))
        elif lane.held:  # since it was looked at: nobody has told this turn to park
            turn.leave(TurnExitReason.PARKED)
        return turn

    async def _run_turn(self, turn: Turn) -> None:
        lane = self._lane
        if turn.resumed:
            self._readmit(turn.resumed)
        turn.emit(TurnStarted(lane.session_id, turn.turn_id, bool(turn.resumed)))
        if not turn.closed and await run_agent(turn, self._services):
            self._make_dormant(turn)
        elif turn.exit_reason is not None and turn.ending is None:
            await self._stay_parked()
        elif await turn.has_begun():
            lane.pending_reset = lane.pending_note = None
            await self._write_until_durable(turn.wait_ended)
            name_session(turn, self._services)
        else:
            await self._end_unbegun(turn)
        # Too late to steer: they run next. Not sooner, since one that was on its way to the log
        # when the turn ended may have come back.
        lane.mailbox.extendleft(reversed(turn.steers))

    def _readmit(self, resumed: OpenTurn) -> None:
        """Nobody could act on the turn before it had gone on; now those do who came after it."""
        lane = self._lane
        for row in lane.mailbox.take_all():
            if row.accepted_at < resumed.turn.started_at:
                lane.mailbox.append(row)
            else:
                lane.admit(row)
        if (
            lane.running_turn is not None
        ):  # who wanted to interrupt it may have been taken elsewhere
            lane.approvals.restore_withdrawn()

    def _make_dormant(self, turn: Turn) -> None:
        """It waits for a person, and has asked in the log: so it has begun there, too."""
        lane = self._lane
        lane.pending_reset = lane.pending_note = None
        open_turn = turn.to_open_turn()
        lane.dormant_turn = DormantTurn(
            open_turn, lane.approvals, services=self._services, fallback=turn.fallback
        )

    async def _end_unbegun(self, turn: Turn) -> None:
        """The store did not take the beginning. What was stopped has ended all the same; else the
        turn is begun anew: raises `StoreError`, with its messages in front of the mailbox."""
        end = turn.ending
        if end is not None and end.state is TurnState.SUPERSEDED:
            await self._write_until_durable(lambda: write_end_never_begun(self._services, end))
            return
        self._lane.mailbox.extendleft(reversed((*turn.rows, *turn.steers)))
        raise StoreError("the turn could not be begun")

    async def _stay_parked(self) -> None:
        """What is next is a successor's. Until it is cancelled, it shows that it is parked."""
        lane = self._lane
        if lane.state is not LaneState.PARKED:
            lane.set_state(LaneState.PARKED)
        await asyncio.get_running_loop().create_future()

    def _is_next(self, row: InboxRow) -> bool:
        lane = self._lane
        return bool(lane.mailbox) and lane.mailbox[0] is row
