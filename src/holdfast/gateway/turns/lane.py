"""The lane of a live session: its mailbox, its open turn, and the loop that runs the turns.

`Lane` holds the state. `LaneLoop` runs its turns one after the other, in the lane's own task.
`LanePause` gives a command the session for itself.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from holdfast.agent.agent import Agent
from holdfast.core.errors import StoreError
from holdfast.core.ids import InboxId, SessionId, SessionKey, TurnId
from holdfast.core.messages.events import TurnStarted
from holdfast.core.messages.inbox import InboxEnd, InboxRow
from holdfast.core.messages.outbox import NewDelivery
from holdfast.core.messages.transcript import NoteMessage
from holdfast.core.sessions.reset import SessionReset
from holdfast.core.turns.stop import TurnExitReason
from holdfast.core.turns.turn import LaneState, OpenTurn, TurnRowState, lane_transition
from holdfast.gateway.approvals.pending import PendingApprovals
from holdfast.gateway.durable_writes import FIRST_WAIT, MAX_WAIT, RetriedWrite
from holdfast.gateway.services import Services
from holdfast.gateway.turns.admission import Mailbox, admit_to_turn
from holdfast.gateway.turns.dormant_turn import DormantTurn
from holdfast.gateway.turns.endings import (
    end_stopped,
    end_unanswered,
    name_session,
    run_agent,
    write_end_never_begun,
    write_unbegun_ends,
)
from holdfast.gateway.turns.turn import Turn
from holdfast.gateway.turns.turn_factory import TurnFactory

log = logging.getLogger(__name__)


class LanePause:
    """Pauses a lane for a command that needs the session for itself: until it is released,
    messages wait and no turn begins."""

    def __init__(self) -> None:
        self._paused = asyncio.Event()
        self._released = asyncio.Event()

    async def wait_for_release(self) -> None:
        """Called by the lane between two turns; returns when the pause is released."""
        self._paused.set()
        await self._released.wait()

    async def wait_until_paused(self) -> None:
        """Returns once the lane is paused, or is gone."""
        await self._paused.wait()

    def release(self) -> None:
        self._paused.set()
        self._released.set()


class Lane:
    """Owns one session's mailbox and its one open turn, running or dormant.

    Only `LaneLoop` sets and clears `current_turn`. `admit` and `stop` are synchronous: what they
    decide is decided, and on its way to the store, before anything else can happen.
    """

    def __init__(self, session_id: SessionId, *, services: Services) -> None:
        self.session_id = session_id
        self.state = LaneState.IDLE
        self.routes: set[SessionKey] = set()  # those that brought it work
        self.task: asyncio.Task[None] | None = None  # runs the `LaneLoop`
        self.pause: LanePause | None = None  # set by a command that needs the session for itself
        # Why the session is fresh, until a turn has announced it.
        self.pending_reset: SessionReset | None = None
        # How the last turn was interrupted, until a turn has the note.
        self.pending_note: NoteMessage | None = None
        self.approvals = PendingApprovals()  # of the current turn
        self.held = False  # the gateway stops: no turn begins here any more
        self.on_change: Callable[[], None] | None = None  # called at each change during a stop
        self.mailbox = Mailbox(services.platforms)
        self.dormant_turn: DormantTurn | None = None  # open, but without an agent that runs it
        self.current_turn: Turn | None = None  # has an agent, until its end is durable
        self.closing_write: RetriedWrite | None = None  # of a turn's end, until it is durable
        self._services = services

    @property
    def queued(self) -> int:
        return len(self.mailbox)

    @property
    def busy(self) -> bool:
        """Something is being answered, or is about to be."""
        return self.answering is not None or bool(self.mailbox)

    @property
    def in_flight(self) -> int:
        """Accepted messages whose end is not yet durable and published."""
        turn = self.current_turn
        running = 0 if turn is None else len(turn.rows) + len(turn.steers)
        waiting = 0 if turn or self.dormant_turn is None else len(self.dormant_turn.rows)
        return running + waiting + len(self.mailbox)

    @property
    def running_turn(self) -> Turn | None:
        """The running turn. None: there is none, or it has ended and its end is being written."""
        return None if self.current_turn is None or self.current_turn.closed else self.current_turn

    @property
    def answering(self) -> InboxId | None:
        """The message whose end is the end of the turn that is open."""
        if self.dormant_turn is not None:
            return self.dormant_turn.answering
        return None if self.running_turn is None else self.running_turn.rows[-1].id

    @property
    def open_turn_id(self) -> TurnId | None:
        """The id of the open turn, running or dormant."""
        if self.dormant_turn is not None:
            return self.dormant_turn.open_turn.turn.id
        return None if self.current_turn is None else self.current_turn.turn_id

    @property
    def dormant_record(self) -> OpenTurn | None:
        """The row of the dormant turn."""
        return None if self.dormant_turn is None else self.dormant_turn.open_turn

    @property
    def open_since(self) -> float | None:
        """When the open turn began. None: no turn is open."""
        if self.dormant_turn is not None:
            return self.dormant_turn.open_turn.turn.started_at
        turn = self.current_turn
        return None if turn is None or turn.closed else turn.started_at

    @property
    def queued_since(self) -> float | None:
        """When the next message was accepted. None: no message waits."""
        return self.mailbox[0].accepted_at if self.mailbox else None

    @property
    def waiting_messages(self) -> Sequence[InboxRow]:
        """The messages that no turn has taken yet, in order."""
        steers = self.current_turn.steers if self.current_turn is not None else ()
        return (*steers, *self.mailbox)

    def resume(self, open_turn: OpenTurn) -> None:
        """Resume a turn that an earlier process did not end, before anything else."""
        self.approvals = PendingApprovals(open_turn.approvals)
        self.dormant_turn = DormantTurn(open_turn, self.approvals, services=self._services)

    def admit(self, row: InboxRow) -> None:
        """Take an accepted message: to run next, or to act on the turn that is running."""
        self._services.feeds.live_step_replaced(self.session_id)  # what waits has changed
        turn = self.running_turn
        queued = row if turn is None else admit_to_turn(turn, row, services=self._services)
        if queued is not None:
            self.mailbox.append(queued)
        if turn is None:
            self._services.reactions.track_recovered(row)
            self.approvals.wake()

    def stop(
        self, ends: Sequence[InboxEnd], deliveries: Sequence[NewDelivery], *, by: str = ""
    ) -> bool:
        """End the open turn for good; False: nothing is running.

        `ends` and `deliveries` are the command's own, and commit together with the turn's. `by`:
        who asked for it, if no command did.
        """
        if self.dormant_turn is not None:
            return self.dormant_turn.stop(ends, deliveries, by=by)
        turn = self.running_turn
        if turn is None:
            return False
        at = self._services.clock.now()
        turn.end(end_stopped(turn, ends=ends, deliveries=deliveries, by=by, at=at))
        turn.cancel()
        return True

    def drop_waiting_messages(self) -> list[InboxRow]:
        """Remove and return the messages that no turn has taken. The caller ends them: a message
        that ended while it was still here would block everything behind it."""
        steers = self.current_turn.steers if self.current_turn is not None else deque[InboxRow]()
        waiting = [*steers, *self.mailbox.take_all()]
        steers.clear()
        return waiting

    def set_state(self, state: LaneState) -> None:
        """Change the state, and notify the feeds and a stop that waits for this lane."""
        self.state = lane_transition(self.state, state)
        self._services.feeds.session_changed(self.session_id)
        if self.on_change is not None:
            self.on_change()


class LaneLoop:
    """Runs the turns of one lane in order, until there is nothing left to answer.

    The mailbox and the current turn belong to the lane. One loop runs per lane, in the lane's own
    task, and ends with it.
    """

    def __init__(self, lane: Lane, *, services: Services, fresh: bool) -> None:
        self._lane = lane
        self._services = services
        self._turn_factory = TurnFactory(lane.session_id, services=services, fresh=fresh)

    async def run(self) -> None:
        """Answer until nothing is left to answer. A store failure delays, but loses nothing."""
        lane, wait = self._lane, FIRST_WAIT
        while self._has_more:
            if lane.pause is not None:
                await lane.pause.wait_for_release()
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
        """While the gateway stops, only a turn that waits for a person keeps waiting."""
        lane = self._lane
        waits = lane.dormant_turn is not None and lane.dormant_turn.open_turn.is_waiting
        return waits if lane.held else bool(lane.pause or lane.dormant_turn or lane.mailbox)

    async def _do_next(self) -> None:
        """Wait until the dormant turn is woken; then end it, or run what is next."""
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
        """Returns once it is durable. A stop finds the write in the lane, to retry it at once."""
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
        # Out of the mailbox before it ends, so that nothing else can end it.
        lane.mailbox.popleft()
        try:
            services = self._services
            effect = end_unanswered(
                first, why, delivery_factory=services.delivery_factory, at=services.clock.now()
            )
            await write_unbegun_ends(services, effect)
        except StoreError:
            lane.mailbox.appendleft(first)
            raise

    async def _next_turn(self, agent: Agent, first: InboxRow) -> Turn | None:
        """A new or a resumed turn. None: a command has ended what this agent was leased for, or
        the gateway stops."""
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
            return None  # its row is unchanged: the successor resumes it
        # From here on: a write that undoes this is queued before any other.
        dormant.resuming = True
        try:
            turn = await self._turn_factory.resume(agent, dormant, approvals=lane.approvals)
        except StoreError:
            dormant.resuming = False  # its row is unchanged
            raise
        lane.dormant_turn = None
        lane.approvals.mark_resumed()
        self._services.feeds.session_committed(lane.session_id)
        if dormant.stopped:
            at = self._services.clock.now()
            ends, deliveries = dormant.ends, dormant.deliveries
            end = end_stopped(turn, ends=ends, deliveries=deliveries, by=dormant.stopped_by, at=at)
            turn.end(end)
        elif lane.held:  # since the check above: this turn has not been asked to park
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
        """Messages could not act on the turn before it was resumed. Those that came after it
        began do so now."""
        lane = self._lane
        for row in lane.mailbox.take_all():
            if row.accepted_at < resumed.turn.started_at:
                lane.mailbox.append(row)
            else:
                lane.admit(row)
        # A message that wanted to interrupt it may have moved to another session.
        if lane.running_turn is not None:
            lane.approvals.restore_withdrawn()

    def _make_dormant(self, turn: Turn) -> None:
        """The turn waits for a person. Its request is in the store, so its beginning is too."""
        lane = self._lane
        lane.pending_reset = lane.pending_note = None
        open_turn = turn.to_open_turn()
        lane.dormant_turn = DormantTurn(
            open_turn, lane.approvals, services=self._services, fallback=turn.fallback
        )

    async def _end_unbegun(self, turn: Turn) -> None:
        """The store did not take the beginning. A stopped turn has ended all the same. Any other
        begins again: raises `StoreError`, with its messages at the front of the mailbox."""
        end = turn.ending
        if end is not None and end.state is TurnRowState.SUPERSEDED:
            await self._write_until_durable(lambda: write_end_never_begun(self._services, end))
            return
        self._lane.mailbox.extendleft(reversed((*turn.rows, *turn.steers)))
        raise StoreError("the turn could not be begun")

    async def _stay_parked(self) -> None:
        """Show the lane as parked until it is cancelled: the successor runs what is next."""
        lane = self._lane
        if lane.state is not LaneState.PARKED:
            lane.set_state(LaneState.PARKED)
        await asyncio.get_running_loop().create_future()

    def _is_next(self, row: InboxRow) -> bool:
        lane = self._lane
        return bool(lane.mailbox) and lane.mailbox[0] is row
