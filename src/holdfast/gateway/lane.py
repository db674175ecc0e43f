"""A lane: the one owner of a live session. It runs the session's turns, one at a time, in order."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence

from holdfast.agent.agent import Agent
from holdfast.core.child import ChildKind
from holdfast.core.errors import StoreError
from holdfast.core.events import TurnStarted
from holdfast.core.ids import InboxId, SessionId, SessionKey, TurnId
from holdfast.core.inbox import InboxEnd, InboxRow
from holdfast.core.message import NoteMessage
from holdfast.core.outbox import NewDelivery
from holdfast.core.reset import Opening
from holdfast.core.stopping import LeftAs
from holdfast.core.turn import LaneState, OpenTurn, TurnState, move
from holdfast.gateway.admitting import act_on
from holdfast.gateway.aside import Aside
from holdfast.gateway.beginning import Beginning
from holdfast.gateway.endings import stopped, unanswered
from holdfast.gateway.finishing import (
    FIRST_WAIT,
    LONGEST_WAIT,
    name_session,
    run_agent,
    until_durable,
    write_never_begun,
    write_unbegun,
)
from holdfast.gateway.gate import Gate
from holdfast.gateway.house import House
from holdfast.gateway.mailbox import Mailbox
from holdfast.gateway.turn import Turn
from holdfast.gateway.waiting import TurnApprovals

log = logging.getLogger(__name__)


class Lane:
    """Owns one session's mailbox and the one turn that it is at: running, or set aside.

    `admit`, `stop` and `cut` are plain functions: what they decide is decided, and on its way
    to the log, before anything else can happen.
    """

    def __init__(self, session_id: SessionId, *, house: House, fresh: bool) -> None:
        self.session_id = session_id
        self.state = LaneState.IDLE
        self.routes: set[SessionKey] = set()  # those that brought it work
        self.task: asyncio.Task[None] | None = None  # what runs it
        self.gate: Gate | None = None  # shut by who must have the session to themselves
        self.opening: Opening | None = None  # why it is fresh, until its people were told
        self.note_owed: NoteMessage | None = None  # of a cut, until a turn was told of it
        self.approvals = TurnApprovals()  # what the present turn has asked people for
        self.held = False  # the gateway stops: no turn begins here any more
        self.stirred: Callable[[], None] | None = None  # told of each change while it stops
        self._house = house
        self._beginning = Beginning(session_id, house=house, fresh=fresh)
        self._mailbox = Mailbox(house.doors)
        self._aside: Aside | None = None
        self._turn: Turn | None = None

    @property
    def queued(self) -> int:
        return len(self._mailbox)

    @property
    def busy(self) -> bool:
        """Something is being answered, or is about to be."""
        return self.answering is not None or bool(self._mailbox)

    @property
    def in_flight(self) -> int:
        """Messages that were accepted here and whose end is not yet durable and told."""
        turn = self._turn
        running = 0 if turn is None else len(turn.rows) + len(turn.steers)
        waiting = 0 if turn or self._aside is None else len(self._aside.rows)
        return running + waiting + len(self._mailbox)

    @property
    def turn(self) -> Turn | None:
        """The running turn; None: there is none, or it has ended and is on its way to the log."""
        return None if self._turn is None or self._turn.closed else self._turn

    @property
    def answering(self) -> InboxId | None:
        """The message whose end is the end of the turn that is open."""
        if self._aside is not None:
            return self._aside.answering
        return None if self.turn is None else self.turn.rows[-1].id

    @property
    def open_turn(self) -> TurnId | None:
        """The one that is open, whether or not somebody runs it."""
        if self._aside is not None:
            return self._aside.open_turn.turn.id
        return None if self._turn is None else self._turn.turn_id

    @property
    def set_aside(self) -> OpenTurn | None:
        """The open turn that nobody runs at the moment."""
        return None if self._aside is None else self._aside.open_turn

    @property
    def open_since(self) -> float | None:
        """When the turn began that is open here; None: there is none."""
        if self._aside is not None:
            return self._aside.open_turn.turn.started_at
        turn = self._turn
        return None if turn is None or turn.closed else turn.started_at

    @property
    def queued_since(self) -> float | None:
        """Since when the message waits that is next; None: none does."""
        return self._mailbox[0].accepted_at if self._mailbox else None

    @property
    def waiting(self) -> Sequence[InboxRow]:
        """What no turn has taken yet, in the order in which it will be."""
        steers = self._turn.steers if self._turn is not None else ()
        return (*steers, *self._mailbox)

    def resume(self, open_turn: OpenTurn) -> None:
        """Go on with a turn that an earlier process did not end, before anything else."""
        self.approvals = TurnApprovals(open_turn.approvals)
        self._aside = Aside(open_turn, self.approvals, house=self._house)

    def admit(self, row: InboxRow) -> None:
        """Take an accepted message: to run next, or to act on the turn that is running."""
        self._house.feeds.restarted(self.session_id)  # what waits has changed
        turn = self.turn
        queued = row if turn is None else act_on(turn, row, house=self._house)
        if queued is not None:
            self._mailbox.append(queued)
        if turn is None:
            self.approvals.wake()

    def stop(self, ends: Sequence[InboxEnd], deliveries: Sequence[NewDelivery]) -> bool:
        """End the open turn for good; False: nothing is running.

        `ends` and `deliveries` are the command's own, and commit together with the turn's.
        """
        if self._aside is not None:
            return self._aside.stop(ends, deliveries)
        turn = self.turn
        if turn is None:
            return False
        at = self._house.clock.now()
        turn.end(stopped(turn, ends=ends, deliveries=deliveries, at=at))
        turn.cancel()
        return True

    def drop_waiting(self) -> list[InboxRow]:
        """Forget the messages that no turn has begun with. To end them is the caller's: one that
        ended while it was still here could never begin, nor anything behind it."""
        steers = self._turn.steers if self._turn is not None else deque[InboxRow]()
        waiting = [*steers, *self._mailbox.empty()]
        steers.clear()
        return waiting

    @property
    def works_for_another(self) -> bool:
        """A turn elsewhere waits for what is done here: it is a child's lane."""
        rows = self._turn.rows if self._turn else self._aside.rows if self._aside else self._mailbox
        child = rows[0].inbound.child if rows else None
        return child is not None and child.kind is ChildKind.WAITED

    def park(self) -> None:
        """The running turn stands at its next step boundary, or is found to stand at one."""
        if self.turn is None:
            return
        self.turn.park()
        if self.turn is None:
            self._become(LaneState.PARKED)

    def leave(self, mark: LeftAs) -> asyncio.Future[None] | None:
        """The gateway is about to cut the running turn: it is marked, which is durable when what
        is returned is done. One that is parked or waits was not cut. None: nothing is open."""
        if self.turn is not None and self.turn.left is None:
            self.turn.leave(mark)
        if self._aside is not None:
            return self._aside.leave()
        return None if self._turn is None else self._turn.leaving

    @property
    def cut_short(self) -> bool:
        """The turn here is not ended by this process, and not parked either. One that was marked
        is cut, also where it has come to a step boundary since."""
        turn = self._turn
        return turn is not None and turn.ending is None and turn.left is not LeftAs.PARKED

    def cut(self, reason: str, *, detached: bool) -> bool:
        """Interrupt the running turn, which stays open; whether there was one to cut."""
        cut_short = self.cut_short
        if self.turn is not None:
            self.turn.cut(reason, detached=detached)
        return cut_short

    async def run(self) -> None:
        """Answer until there is nothing to answer. A store that fails delays, and loses nothing."""
        wait = FIRST_WAIT
        while self._has_more:
            if self.gate is not None:
                await self.gate.rest()
                self.gate = None
                continue
            try:
                await self._do_next()
                wait = FIRST_WAIT
            except StoreError as error:
                log.error(
                    "Session %s waits for the store: %s",
                    self.session_id,
                    error,
                    extra={"action": "lane_waits", "session": self.session_id},
                )
                await asyncio.sleep(wait)
                wait = min(wait * 2, LONGEST_WAIT)
            self._become(LaneState.IDLE)

    @property
    def _has_more(self) -> bool:
        """Who waits for a person waits on while the gateway stops: only a person ends that."""
        waits = self._aside is not None and self._aside.open_turn.waits
        return waits if self.held else bool(self.gate or self._aside or self._mailbox)

    async def _do_next(self) -> None:
        """Wait for whom the turn set aside waits for; then end it, or run what is next."""
        if self._aside is not None and self._aside.open_turn.waits:
            self._become(LaneState.WAITING)
            await self._aside.until_woken(self._mailbox)
            if self.held and not self._aside.stopped:
                await self._rest()
        self._become(LaneState.STARTING)
        if self._aside is not None and self._aside.stopped:
            await self._end_aside(self._aside)
        else:
            await self._run_next()

    async def _end_aside(self, aside: Aside, why: str = "") -> None:
        await aside.end(why)
        self._aside = None

    async def _run_next(self) -> None:
        cache = self._house.cache
        first = self._aside.rows[0] if self._aside else self._mailbox[0]
        try:
            agent = await self._beginning.lease(first)
        except StoreError:
            raise
        except Exception as error:  # the edge of a turn that could not even begin
            log.exception("No agent for %s.", self.session_id, extra={"action": "no_agent"})
            await self._give_up(first, f"there is no agent for this conversation: {error}")
            return
        try:
            self._turn = turn = await self._next_turn(agent, first)
            if turn is not None:
                self._become(LaneState.RUNNING)
                await self._run_to_its_end(turn)
        except StoreError:
            # The buffer may hold what the log does not: the next try reads the log again.
            cache.drop(self.session_id)
            raise
        finally:
            self._turn = None
            if not first.inbound.lasting:
                cache.drop(self.session_id)
            cache.release(agent)

    async def _give_up(self, first: InboxRow, why: str) -> None:
        """End what was to be run next as failed, and tell its sender."""
        if self._aside is not None:
            await self._end_aside(self._aside, why)
            return
        if not self._is_next(first):
            return
        # Out of the mailbox before it ends: nobody else can end it then.
        self._mailbox.popleft()
        try:
            house = self._house
            at = house.clock.now()
            await write_unbegun(house, unanswered(first, why, replies=house.replies, at=at))
        except StoreError:
            self._mailbox.appendleft(first)
            raise

    async def _next_turn(self, agent: Agent, first: InboxRow) -> Turn | None:
        """Begun or gone on with; None: a command has ended what this agent was leased for, or the
        gateway stops."""
        if self.held:
            return None
        if self._aside is not None:
            return await self._go_on(agent, self._aside)
        await self._mailbox.settled()
        recalled = await self._beginning.recall(first)
        if self.held or not self._is_next(first):
            return None
        self.approvals = TurnApprovals()
        return self._beginning.begin(
            agent,
            self._mailbox.take(),
            approvals=self.approvals,
            opening=self.opening,
            recalled=recalled,
            cut=self.note_owed,
        )

    async def _go_on(self, agent: Agent, aside: Aside) -> Turn:
        aside.going_on = True
        try:
            turn = await self._beginning.go_on(agent, aside, approvals=self.approvals)
        except StoreError:
            aside.going_on = False  # its row says what it said
            raise
        self._aside = None
        self.approvals.went_on()
        self._house.feeds.committed(self.session_id)
        if aside.stopped:
            at = self._house.clock.now()
            turn.end(stopped(turn, ends=aside.ends, deliveries=aside.deliveries, at=at))
        elif self.held:  # since it was looked at: nobody has told this turn to park
            turn.leave(LeftAs.PARKED)
        return turn

    async def _run_to_its_end(self, turn: Turn) -> None:
        if turn.resumed:
            self._admit_again(turn.resumed)
        turn.emit(TurnStarted(self.session_id, turn.turn_id, bool(turn.resumed)))
        if not turn.closed and await run_agent(turn, self._house):
            self._set_aside(turn)
        elif turn.left is not None and turn.ending is None:
            await self._rest()
        elif await turn.has_begun():
            self.opening = self.note_owed = None
            await until_durable(turn.ended)
            name_session(turn, self._house)
        else:
            await self._end_unbegun(turn)
        # Too late to steer: they run next. Not sooner, since one that was on its way to the log
        # when the turn ended may have come back.
        self._mailbox.extendleft(reversed(turn.steers))

    def _admit_again(self, resumed: OpenTurn) -> None:
        """Nobody could act on the turn before it had gone on; now those do who came after it."""
        for row in self._mailbox.empty():
            if row.accepted_at < resumed.turn.started_at:
                self._mailbox.append(row)
            else:
                self.admit(row)
        if self.turn is not None:  # who wanted to interrupt it may have been taken elsewhere
            self.approvals.stand_again()

    def _set_aside(self, turn: Turn) -> None:
        """It waits for a person, and has asked in the log: so it has begun there, too."""
        self.opening = self.note_owed = None
        open_turn = turn.set_aside()
        self._aside = Aside(open_turn, self.approvals, house=self._house, fallen=turn.fallen)

    async def _end_unbegun(self, turn: Turn) -> None:
        """The store did not take the beginning. What was stopped has ended all the same; else the
        turn is begun anew: raises `StoreError`, with its messages in front of the mailbox."""
        end = turn.ending
        if end is not None and end.state is TurnState.SUPERSEDED:
            await until_durable(lambda: write_never_begun(self._house, end))
            return
        self._mailbox.extendleft(reversed((*turn.rows, *turn.steers)))
        raise StoreError("the turn could not be begun")

    async def _rest(self) -> None:
        """What is next is a successor's. Until it is cancelled, it shows that it is parked."""
        if self.state is not LaneState.PARKED:
            self._become(LaneState.PARKED)
        await asyncio.get_running_loop().create_future()

    def _is_next(self, row: InboxRow) -> bool:
        return bool(self._mailbox) and self._mailbox[0] is row

    def _become(self, state: LaneState) -> None:
        self.state = move(self.state, state)
        self._house.feeds.changed(self.session_id)
        if self.stirred is not None:
            self.stirred()
