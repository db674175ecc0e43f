"""A lane: the one owner of a live session. It runs the session's turns, one at a time, in order."""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence

import msgspec

from holdfast.agent.agent import Agent
from holdfast.agent.work import Waiting
from holdfast.core.admission import Decision, Running, admit, notice
from holdfast.core.crash import CrashPoint
from holdfast.core.errors import HoldfastError, StoreError
from holdfast.core.events import TurnStarted
from holdfast.core.ids import InboxId, SessionId, SessionKey, TurnId
from holdfast.core.inbox import BusyMode, InboxEnd, InboxRow
from holdfast.core.message import NoteMessage
from holdfast.core.outbox import NewDelivery
from holdfast.core.reset import Opening
from holdfast.core.turn import BeginTurn, LaneState, OpenTurn, move
from holdfast.gateway.endings import abandoned, answered, failed, interrupted, stopped, unanswered
from holdfast.gateway.gate import Gate
from holdfast.gateway.house import House
from holdfast.gateway.mailbox import Mailbox
from holdfast.gateway.opening import owner_of, told_to_model, told_to_people
from holdfast.gateway.transcribing import opening_message
from holdfast.gateway.turn import Turn
from holdfast.gateway.waiting import TurnApprovals, until_woken

log = logging.getLogger(__name__)

CUT_NOTE = NoteMessage(
    text="[System note: an interruption of the gateway cut this turn. The history above is "
    "intact. Look at the latest tool results first, then finish what was asked.]"
)
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0

Stop = tuple[Sequence[InboxEnd], Sequence[NewDelivery]]


class Lane:
    """Owns one session's mailbox and its running turn.

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
        self._house = house
        self._fresh = fresh  # the store has nothing of this session yet
        self._mailbox = Mailbox(house.doors)
        self._resumed: OpenTurn | None = None
        self._turn: Turn | None = None
        self._stops: list[Stop] = []  # asked for before a resumed turn had gone on
        self.approvals = TurnApprovals()  # what the present turn has asked people for

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
        waiting = 0 if turn or self._resumed is None else len(self._resumed.rows)
        return running + waiting + len(self._mailbox)

    def resume(self, open_turn: OpenTurn) -> None:
        """Go on with a turn that an earlier process did not end, before anything else."""
        self._resumed = open_turn
        self._fresh = False
        self.approvals = TurnApprovals(open_turn.approvals)

    @property
    def turn(self) -> Turn | None:
        """The running turn; None: there is none, or it has ended and is on its way to the log."""
        return None if self._turn is None or self._turn.closed else self._turn

    @property
    def answering(self) -> InboxId | None:
        """The message whose end is the end of the running turn."""
        if self._resumed is not None:
            return self._resumed.rows[-1].id
        return None if self.turn is None else self.turn.rows[-1].id

    @property
    def waiting(self) -> Sequence[InboxRow]:
        """What no turn has taken yet, in the order in which it will be."""
        steers = self._turn.steers if self._turn is not None else ()
        return (*steers, *self._mailbox)

    def admit(self, row: InboxRow) -> None:
        """Take an accepted message: to run next, or to act on the turn that is running."""
        self._house.feeds.restarted(self.session_id)  # what waits has changed
        turn = self._turn
        if turn is None or turn.closed:
            self._mailbox.append(row)
            self.approvals.wake()
            return
        configured = self._house.busy_mode(row.inbound.source.platform)
        decision = admit(row, running=turn.running, configured=configured)
        row = self._decided(row, decision)
        if decision.mode is BusyMode.STEER:
            turn.steers.append(row)
        else:
            self._mailbox.append(row)
        if decision.mode is BusyMode.INTERRUPT:
            turn.end(interrupted(turn, by=row.id, at=self._house.clock.now()))
            self._house.watchers.merge(turn.inbox_ids[-1], into=row.id)
            turn.cancel()
        if (text := notice(decision)) and not row.inbound.note:
            self._house.notices.tell(row, text, agent=turn.agent, turn_id=turn.turn_id)

    def _decided(self, row: InboxRow, decision: Decision) -> InboxRow:
        """The row with its decision, which is on its way to the log; an earlier one is there."""
        if row.decision is not None:
            return row
        mode = decision.mode
        writing = self._house.store.decide(row.id, session_id=self.session_id, decision=mode)
        asyncio.ensure_future(writing).add_done_callback(_report_failure)
        return msgspec.structs.replace(row, decision=mode)

    def stop(self, ends: Sequence[InboxEnd], deliveries: Sequence[NewDelivery]) -> bool:
        """End the running turn for good; False: nothing is running.

        `ends` and `deliveries` are the command's own, and commit together with the turn's.
        """
        if self._resumed is not None:
            self._stops.append((ends, deliveries))
            self.approvals.withdraw(at=self._house.clock.now())
            self.approvals.wake()
            return True
        turn = self._turn
        if turn is None or turn.closed:
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

    def cut(self) -> None:
        """The gateway stops: results for the calls that die with it; the turn stays open."""
        if self._turn is not None and not self._turn.closed:
            self._turn.cut()

    async def run(self) -> None:
        """Answer until there is nothing to answer. A store that fails delays, and loses nothing."""
        wait = _FIRST_WAIT
        while self.gate or self._resumed or self._mailbox:
            if self.gate is not None:
                await self.gate.rest()
                self.gate = None
                continue
            try:
                if self._resumed is not None and self._resumed.waits:
                    await self._until_woken(self._resumed)
                self._become(LaneState.STARTING)
                await self._run_next()
                wait = _FIRST_WAIT
            except StoreError as error:
                log.error(
                    "Session %s waits for the store: %s",
                    self.session_id,
                    error,
                    extra={"action": "lane_waits", "session": self.session_id},
                )
                await asyncio.sleep(wait)
                wait = min(wait * 2, _LONGEST_WAIT)
            self._become(LaneState.IDLE)

    async def _until_woken(self, resumed: OpenTurn) -> None:
        """A turn that waits for a person holds no agent: it gets one when there is an answer."""
        self._become(LaneState.WAITING)
        store, clock = self._house.store, self._house.clock

        def called() -> bool:
            interrupted = any(self._interrupts(row, resumed) for row in self._mailbox)
            if interrupted:
                self.approvals.withdraw(at=clock.now())
            return interrupted or bool(self._stops)

        await until_woken(self.approvals, store=store, clock=clock, called=called)
        for session_id in {approval.asked_in for approval in self.approvals.all}:
            self._house.feeds.changed(session_id)  # a child's people look at another session

    def _interrupts(self, row: InboxRow, resumed: OpenTurn) -> bool:
        """Whether it will end the turn once that has gone on; see `_admit_again`."""
        last = resumed.rows[-1]
        children = self._house.children.running(self.session_id)
        running = Running(route=last.route, principal=last.principal, children=children)
        configured = self._house.busy_mode(row.inbound.source.platform)
        decision = admit(row, running=running, configured=configured)
        in_time = row.accepted_at >= resumed.turn.started_at
        return in_time and decision.mode is BusyMode.INTERRUPT

    async def _run_next(self) -> None:
        house = self._house
        first = self._resumed.rows[0] if self._resumed else self._mailbox[0]
        try:
            agent = await self._lease(first)
        except StoreError:
            raise
        except Exception as error:  # the edge of a turn that could not even begin
            log.exception("No agent for %s.", self.session_id, extra={"action": "no_agent"})
            await self._give_up(f"there is no agent for this conversation: {error}")
            return
        try:
            if not self._resumed:
                await self._mailbox.settled()
            recalled = await self._recall() if house.memory.recalls else None
            if not self._resumed and not self._mailbox:
                return  # a command has ended what was to be begun
            turn = await self._go_on(agent) if self._resumed else self._begin(agent, recalled)
            self._turn = turn
            self._become(LaneState.RUNNING)
            await self._run_to_its_end(turn)
        except StoreError:
            # The buffer may hold what the log does not: the next try reads the log again.
            house.cache.drop(self.session_id)
            raise
        finally:
            self._turn = None
            if not first.inbound.lasting:
                house.cache.drop(self.session_id)
            house.cache.release(agent)

    async def _lease(self, first: InboxRow) -> Agent:
        house = self._house
        signature = house.agents.signature_for(first)
        agent = await house.cache.lease(
            self.session_id,
            signature=signature,
            build=lambda: self._build(first, signature),
        )
        self._fresh = False  # this agent's turn, or a command meanwhile, gets it into the store
        return agent

    async def _build(self, first: InboxRow, signature: str) -> Agent:
        house, child = self._house, first.inbound.child
        if child is None:  # what a child does is its parent's to remember
            house.memory.enrol(self.session_id, first)
        return await house.agents.build(
            self.session_id,
            signature=signature,
            fresh=self._fresh,
            instructions=first.inbound.instructions,
            memory=None if child else lambda: house.memory.prompt_block(self.session_id, first),
            child=child,
        )

    async def _recall(self) -> tuple[InboxId, NoteMessage] | None:
        """What memory has about the message that is next, if it is a new one."""
        if self._resumed or not self._mailbox:
            return None
        row = self._mailbox[0]
        if row.inbound.child is not None:
            return None
        note = await self._house.memory.recall(self.session_id, row)
        return None if note is None else (row.id, note)

    async def _give_up(self, why: str) -> None:
        """End what was to be run next as failed, and tell its sender."""
        house, resumed, at = self._house, self._resumed, self._house.clock.now()
        if resumed is not None:
            records = await house.store.transcript(self.session_id)
            messages = [record.message for record in records]
            end = abandoned(resumed, why, messages=messages, replies=house.replies, at=at)
            await house.store.end_turn(end)
            self._resumed = None
            house.announcer.turn(end)
        elif self._mailbox:
            row = self._mailbox[0]
            effect = unanswered(row, why, replies=house.replies, at=at)
            await house.store.settle_command(effect)
            self._mailbox.remove(row)
            house.announcer.messages(effect.inbox_ends, effect.deliveries)

    def _begin(self, agent: Agent, recalled: tuple[InboxId, NoteMessage] | None) -> Turn:
        """Begin a turn with the oldest message, and those behind it that belong to it.

        What was recalled for it stands in front; for one that was dropped meanwhile, nowhere.
        """
        house, rows = self._house, self._mailbox.take()
        self.approvals = TurnApprovals()
        turn_id = TurnId(house.new_id("turn"))
        turn = Turn(turn_id, agent, rows, house=house, approvals=self.approvals)
        history = () if agent.messages else rows[0].inbound.history
        notes = (recalled[1],) if recalled and recalled[0] == rows[0].id else ()
        if self.opening is not None:
            notes = (told_to_model(self.opening), *notes)
        messages = (*history, *notes, *(opening_message(row) for row in rows))
        turn.begin(
            BeginTurn(
                turn_id=turn.turn_id,
                session_id=self.session_id,
                route=rows[0].route,
                inbox_ids=turn.inbox_ids,
                messages=messages,
                prompt=agent.prompt,
                principal=owner_of(rows[0], house.settings.sessions),
                opening=self.opening,
                deliveries=self._opening_notice(rows[-1], turn_id),
                at=house.clock.now(),
            )
        )
        for row in rows[:-1]:
            house.watchers.merge(row.id, into=rows[-1].id)
        return turn

    def _opening_notice(self, row: InboxRow, turn_id: TurnId) -> tuple[NewDelivery, ...]:
        """What people are told of a fresh session, in the commit that begins its first turn. Where
        they come for one answer to one question, the session itself says it."""
        if self.opening is None or self._house.replies.fetched(row):
            return ()
        text = told_to_people(self.opening)
        notice = self._house.replies.notice(row, text, session_id=self.session_id, turn_id=turn_id)
        return (notice,)

    async def _go_on(self, agent: Agent) -> Turn:
        assert self._resumed is not None, "only a resumed turn goes on"
        house, resumed = self._house, self._resumed
        turn = Turn(
            resumed.turn.id,
            agent,
            resumed.rows,
            house=house,
            approvals=self.approvals,
            resumed=resumed,
        )
        if not resumed.waits:
            await self._note_cut(turn)
        self._resumed = None
        self.approvals.went_on()
        house.feeds.committed(self.session_id)
        return turn

    async def _note_cut(self, turn: Turn) -> None:
        house, agent = self._house, turn.agent
        durable = house.store.resume_turn(
            turn.turn_id, session_id=self.session_id, note=CUT_NOTE, at=house.clock.now()
        )
        agent.remember(CUT_NOTE)
        await durable
        house.crash(CrashPoint.RESUME_COMMITTED)

    async def _run_to_its_end(self, turn: Turn) -> None:
        stops, self._stops = self._stops, []
        if stops:
            self.stop([e for ends, _ in stops for e in ends], [d for _, ds in stops for d in ds])
        if turn.resumed:
            self._admit_again(turn.resumed)
        turn.emit(TurnStarted(self.session_id, turn.turn_id, bool(turn.resumed)))
        if not turn.closed:
            await self._run_agent(turn)
        if self._resumed is not None:
            self._mailbox.extendleft(reversed(turn.steers))
            return  # it waits for a person
        if not await turn.has_begun():
            self._mailbox.extendleft(reversed((*turn.rows, *turn.steers)))
            raise StoreError("the turn could not be begun")
        self.opening = None
        await self._until_durable(turn)
        self._name(turn)
        # Too late to steer: they run next. Not sooner, since one that was on its way to the log
        # when the turn ended may have come back.
        self._mailbox.extendleft(reversed(turn.steers))

    def _name(self, turn: Turn) -> None:
        inbound, agent = turn.rows[0].inbound, turn.agent
        if turn.answer is not None and inbound.lasting and inbound.child is None:
            covered = agent.context.skipped
            self._house.titles.answered(self.session_id, agent.messages, covered=covered)

    def _admit_again(self, resumed: OpenTurn) -> None:
        """Nobody could act on the turn before it had gone on; now those do who came after it."""
        for row in self._mailbox.empty():
            if row.accepted_at < resumed.turn.started_at:
                self._mailbox.append(row)
            else:
                self.admit(row)

    async def _run_agent(self, turn: Turn) -> None:
        """Returns once the turn is closed, however; raises only if the lane itself is cancelled."""
        house = self._house
        try:
            completed = await turn.start()
            end = answered(turn, completed, replies=house.replies, at=house.clock.now())
        except asyncio.CancelledError:
            if _being_cancelled() or not (turn.closed or turn.interrupted):
                raise
            why = turn.interrupted
            end = failed(turn, why, replies=house.replies, at=house.clock.now())
        except Waiting:
            if not turn.closed:
                self._resumed = turn.set_aside()
            return
        except HoldfastError as error:
            end = failed(turn, str(error), replies=house.replies, at=house.clock.now())
        except Exception as error:  # the edge of a turn: its fault is its answer, not our crash
            log.exception("A turn failed.", extra={"action": "turn_failed"})
            why = f"an internal error ({type(error).__name__}); the log has the details"
            end = failed(turn, why, replies=house.replies, at=house.clock.now())
        # Somebody may have ended the turn in the very instant in which the agent was through.
        if not turn.closed:
            turn.end(end)

    async def _until_durable(self, turn: Turn) -> None:
        """The closing write, made again until the store takes it."""
        wait = _FIRST_WAIT
        while True:
            try:
                await turn.ended()
                return
            except StoreError as error:
                log.error("The end of a turn waits: %s", error, extra={"action": "end_waits"})
                await asyncio.sleep(wait)
                wait = min(wait * 2, _LONGEST_WAIT)

    def _become(self, state: LaneState) -> None:
        self.state = move(self.state, state)
        self._house.feeds.changed(self.session_id)


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _report_failure(done: asyncio.Future[None]) -> None:
    if not done.cancelled() and (error := done.exception()):
        # The row is durable without it; a restart decides again.
        log.warning("A decision was not kept: %s", error, extra={"action": "decide_failed"})
