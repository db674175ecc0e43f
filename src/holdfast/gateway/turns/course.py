"""The course of a lane: from one turn to the next, in order, until nothing is left to answer."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from holdfast.agent.agent import Agent
from holdfast.core.errors import StoreError
from holdfast.core.messages.events import TurnStarted
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.turns.stop import LeftAs
from holdfast.core.turns.turn import LaneState, OpenTurn, TurnState
from holdfast.gateway.approvals.pending import TurnApprovals
from holdfast.gateway.closing_write import FIRST_WAIT, LONGEST_WAIT, ClosingWrite
from holdfast.gateway.services import House
from holdfast.gateway.turns.dormant_turn import Aside
from holdfast.gateway.turns.endings import stopped, unanswered
from holdfast.gateway.turns.finishing import (
    name_session,
    run_agent,
    write_never_begun,
    write_unbegun,
)
from holdfast.gateway.turns.lane import Lane
from holdfast.gateway.turns.turn import Turn
from holdfast.gateway.turns.turn_factory import Beginning

log = logging.getLogger(__name__)


class Course:
    """Owns the way from turn to turn; what waits, and the turn that is present, are the lane's.

    One runs for each lane, in the lane's own task, and goes away with it.
    """

    def __init__(self, lane: Lane, *, house: House, fresh: bool) -> None:
        self._lane = lane
        self._house = house
        self._beginning = Beginning(lane.session_id, house=house, fresh=fresh)

    async def run(self) -> None:
        """Answer until there is nothing to answer. A store that fails delays, and loses nothing."""
        lane, wait = self._lane, FIRST_WAIT
        while self._has_more:
            if lane.barrier is not None:
                await lane.barrier.rest()
                lane.barrier = None
                continue
            try:
                await self._do_next()
                wait = FIRST_WAIT
            except StoreError as error:
                log.error(
                    "Session %s waits for the store: %s",
                    lane.session_id,
                    error,
                    extra={"action": "lane_waits", "session": lane.session_id},
                )
                await asyncio.sleep(wait)
                wait = min(wait * 2, LONGEST_WAIT)
            lane.become(LaneState.IDLE)

    @property
    def _has_more(self) -> bool:
        """Who waits for a person waits on while the gateway stops: only a person ends that."""
        lane = self._lane
        waits = lane.aside is not None and lane.aside.open_turn.waits
        return waits if lane.held else bool(lane.barrier or lane.aside or lane.mailbox)

    async def _do_next(self) -> None:
        """Wait for whom the turn set aside waits for; then end it, or run what is next."""
        lane = self._lane
        if lane.aside is not None and lane.aside.open_turn.waits:
            lane.become(LaneState.WAITING)
            await lane.aside.until_woken(lane.mailbox)
            if lane.held and not lane.aside.stopped:
                await self._rest()
        lane.become(LaneState.STARTING)
        if lane.aside is not None and lane.aside.stopped:
            await self._end_aside(lane.aside)
        else:
            await self._run_next()

    async def _end_aside(self, aside: Aside, why: str = "") -> None:
        await self._close(await aside.end(why))
        self._lane.aside = None

    async def _close(self, write: Callable[[], Awaitable[None]]) -> None:
        """Returns once it is durable. A stop of the gateway finds it in the lane, to hurry it."""
        self._lane.closing = closing = ClosingWrite(write)
        try:
            await closing.until_durable()
        finally:
            self._lane.closing = None

    async def _run_next(self) -> None:
        lane, cache = self._lane, self._house.cache
        first = lane.aside.rows[0] if lane.aside else lane.mailbox[0]
        try:
            agent = await self._beginning.lease(first)
        except StoreError:
            raise
        except Exception as error:  # the edge of a turn that could not even begin
            about = {"action": "no_agent", "session": lane.session_id}
            log.exception("No agent for %s.", lane.session_id, extra=about)
            await self._give_up(first, f"there is no agent for this conversation: {error}")
            return
        try:
            lane.present = turn = await self._next_turn(agent, first)
            if turn is not None:
                lane.become(LaneState.RUNNING)
                await self._run_to_its_end(turn)
        except StoreError:
            # The buffer may hold what the log does not: the next try reads the log again.
            cache.drop(lane.session_id)
            raise
        finally:
            lane.present = None
            if not first.inbound.lasting:
                cache.drop(lane.session_id)
            cache.release(agent)

    async def _give_up(self, first: InboxRow, why: str) -> None:
        """End what was to be run next as failed, and tell its sender."""
        lane = self._lane
        if lane.aside is not None:
            await self._end_aside(lane.aside, why)
            return
        if not self._is_next(first):
            return
        # Out of the mailbox before it ends: nobody else can end it then.
        lane.mailbox.popleft()
        try:
            house = self._house
            at = house.clock.now()
            await write_unbegun(house, unanswered(first, why, replies=house.replies, at=at))
        except StoreError:
            lane.mailbox.appendleft(first)
            raise

    async def _next_turn(self, agent: Agent, first: InboxRow) -> Turn | None:
        """Begun or gone on with; None: a command has ended what this agent was leased for, or the
        gateway stops."""
        lane = self._lane
        if lane.aside is not None:
            return await self._go_on(agent, lane.aside)
        if lane.held:
            return None
        await lane.mailbox.settled()
        recalled = await self._beginning.recall(first)
        if lane.held or not self._is_next(first):
            return None
        lane.approvals = TurnApprovals()
        return self._beginning.begin(
            agent,
            lane.mailbox.take(),
            approvals=lane.approvals,
            opening=lane.opening,
            recalled=recalled,
            cut=lane.note_owed,
        )

    async def _go_on(self, agent: Agent, aside: Aside) -> Turn | None:
        lane = self._lane
        await self._beginning.keep_prompt(agent)
        if lane.held and not aside.stopped:
            return None  # its row says what it said: a successor goes on with it
        aside.going_on = True  # from here on: what takes that back is queued before anyone else is
        try:
            turn = await self._beginning.go_on(agent, aside, approvals=lane.approvals)
        except StoreError:
            aside.going_on = False  # its row says what it said
            raise
        lane.aside = None
        lane.approvals.went_on()
        self._house.feeds.committed(lane.session_id)
        if aside.stopped:
            at = self._house.clock.now()
            ends, told = aside.ends, aside.deliveries
            turn.end(stopped(turn, ends=ends, deliveries=told, by=aside.by, at=at))
        elif lane.held:  # since it was looked at: nobody has told this turn to park
            turn.leave(LeftAs.PARKED)
        return turn

    async def _run_to_its_end(self, turn: Turn) -> None:
        lane = self._lane
        if turn.resumed:
            self._admit_again(turn.resumed)
        turn.emit(TurnStarted(lane.session_id, turn.turn_id, bool(turn.resumed)))
        if not turn.closed and await run_agent(turn, self._house):
            self._set_aside(turn)
        elif turn.left is not None and turn.ending is None:
            await self._rest()
        elif await turn.has_begun():
            lane.opening = lane.note_owed = None
            await self._close(turn.ended)
            name_session(turn, self._house)
        else:
            await self._end_unbegun(turn)
        # Too late to steer: they run next. Not sooner, since one that was on its way to the log
        # when the turn ended may have come back.
        lane.mailbox.extendleft(reversed(turn.steers))

    def _admit_again(self, resumed: OpenTurn) -> None:
        """Nobody could act on the turn before it had gone on; now those do who came after it."""
        lane = self._lane
        for row in lane.mailbox.empty():
            if row.accepted_at < resumed.turn.started_at:
                lane.mailbox.append(row)
            else:
                lane.admit(row)
        if lane.turn is not None:  # who wanted to interrupt it may have been taken elsewhere
            lane.approvals.stand_again()

    def _set_aside(self, turn: Turn) -> None:
        """It waits for a person, and has asked in the log: so it has begun there, too."""
        lane = self._lane
        lane.opening = lane.note_owed = None
        open_turn = turn.set_aside()
        lane.aside = Aside(open_turn, lane.approvals, house=self._house, fallen=turn.fallen)

    async def _end_unbegun(self, turn: Turn) -> None:
        """The store did not take the beginning. What was stopped has ended all the same; else the
        turn is begun anew: raises `StoreError`, with its messages in front of the mailbox."""
        end = turn.ending
        if end is not None and end.state is TurnState.SUPERSEDED:
            await self._close(lambda: write_never_begun(self._house, end))
            return
        self._lane.mailbox.extendleft(reversed((*turn.rows, *turn.steers)))
        raise StoreError("the turn could not be begun")

    async def _rest(self) -> None:
        """What is next is a successor's. Until it is cancelled, it shows that it is parked."""
        lane = self._lane
        if lane.state is not LaneState.PARKED:
            lane.become(LaneState.PARKED)
        await asyncio.get_running_loop().create_future()

    def _is_next(self, row: InboxRow) -> bool:
        lane = self._lane
        return bool(lane.mailbox) and lane.mailbox[0] is row
