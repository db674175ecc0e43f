"""The lane of a live session: its mailbox, the turn it is at, and the loop that runs one turn after the other."""

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
from holdfast.core.turns.turn import LaneState, OpenTurn, TurnState, lane_transition
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


# MERGED holdfast.gateway.turns.barrier: A barrier in front of a lane: while it is down, what is said waits and no turn begins.
class LanePause:
    """Put down by whoever must have the session to themselves, and lifted by them."""

    def __init__(self) -> None:
        self._held = asyncio.Event()
        self._released = asyncio.Event()

    async def hold_lane(self) -> None:
        """The lane stands before it, with nothing under way."""
        self._held.set()
        await self._released.wait()

    async def wait_until_held(self) -> None:
        """Returns once the lane does, or has gone."""
        await self._held.wait()

    def release(self) -> None:
        self._held.set()
        self._released.set()


# MERGED holdfast.gateway.turns.lane: A lane: the one owner of a live session. It holds what is said to it, and the turn it is at.
class Lane:
    """Owns one session's mailbox and the one turn that it is at: running, or set aside.

    `Course` runs its turns, one at a time, and alone sets and drops the one that is present.
    `admit` and `stop` are plain functions: what they decide is decided, and on its way to the log,
    before anything else can happen.
    """

    def __init__(self, session_id: SessionId, *, services: Services) -> None:
        self.session_id = session_id
        self.state = LaneState.IDLE
        self.routes: set[SessionKey] = set()  # those that brought it work
        self.task: asyncio.Task[None] | None = None  # what runs it
        self.pause: LanePause | None = None  # put down by who must have the session to themselves
        self.pending_reset: SessionReset | None = (
            None  # why it is fresh, until its people were told
        )
        self.pending_note: NoteMessage | None = None  # of a cut, until a turn was told of it
        self.approvals = PendingApprovals()  # what the present turn has asked people for
        self.held = False  # the gateway stops: no turn begins here any more
        self.on_change: Callable[[], None] | None = None  # told of each change while it stops
        self.mailbox = Mailbox(services.platforms)
        self.dormant_turn: DormantTurn | None = None  # the turn that is open and that nobody runs
        self.current_turn: Turn | None = (
            None  # the turn that has an agent, until its end is durable
        )
        self.closing_write: RetriedWrite | None = None  # the end of its turn, until that is durable
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
        """Messages that were accepted here and whose end is not yet durable and told."""
        turn = self.current_turn
        running = 0 if turn is None else len(turn.rows) + len(turn.steers)
        waiting = 0 if turn or self.dormant_turn is None else len(self.dormant_turn.rows)
        return running + waiting + len(self.mailbox)

    @property
    def running_turn(self) -> Turn | None:
        """The running turn; None: there is none, or it has ended and is on its way to the log."""
        return None if self.current_turn is None or self.current_turn.closed else self.current_turn

    @property
    def answering(self) -> InboxId | None:
        """The message whose end is the end of the turn that is open."""
        if self.dormant_turn is not None:
            return self.dormant_turn.answering
        return None if self.running_turn is None else self.running_turn.rows[-1].id

    @property
    def open_turn_id(self) -> TurnId | None:
        """The one that is open, whether or not somebody runs it."""
        if self.dormant_turn is not None:
            return self.dormant_turn.open_turn.turn.id
        return None if self.current_turn is None else self.current_turn.turn_id

    @property
    def dormant_record(self) -> OpenTurn | None:
        """The open turn that nobody runs at the moment."""
        return None if self.dormant_turn is None else self.dormant_turn.open_turn

    @property
    def open_since(self) -> float | None:
        """When the turn began that is open here; None: there is none."""
        if self.dormant_turn is not None:
            return self.dormant_turn.open_turn.turn.started_at
        turn = self.current_turn
        return None if turn is None or turn.closed else turn.started_at

    @property
    def queued_since(self) -> float | None:
        """Since when the message waits that is next; None: none does."""
        return self.mailbox[0].accepted_at if self.mailbox else None

    @property
    def waiting_messages(self) -> Sequence[InboxRow]:
        """What no turn has taken yet, in the order in which it will be."""
        steers = self.current_turn.steers if self.current_turn is not None else ()
        return (*steers, *self.mailbox)

    def resume(self, open_turn: OpenTurn) -> None:
        """Go on with a turn that an earlier process did not end, before anything else."""
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
        who wants it, where no command is among them.
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
        """Forget the messages that no turn has begun with. To end them is the caller's: one that
        ended while it was still here could never begin, nor anything behind it."""
        steers = self.current_turn.steers if self.current_turn is not None else deque[InboxRow]()
        waiting = [*steers, *self.mailbox.take_all()]
        steers.clear()
        return waiting

    def set_state(self, state: LaneState) -> None:
        """Whoever looks at the session, or waits for it while the gateway stops, is told."""
        self.state = lane_transition(self.state, state)
        self._services.feeds.session_changed(self.session_id)
        if self.on_change is not None:
            self.on_change()


# MERGED holdfast.gateway.turns.course: The course of a lane: from one turn to the next, in order, until nothing is left to answer.
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
