"""A running turn: everything that exists only while it runs, in one object."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Collection, Sequence

from holdfast.agent.agent import Agent
from holdfast.agent.auxiliary import Auxiliary
from holdfast.agent.loop import run_turn
from holdfast.agent.work import Wish
from holdfast.core.admission import STEERED, Running
from holdfast.core.auxiliary import Errand
from holdfast.core.bench import Bench
from holdfast.core.child import DELEGATE, Delegation
from holdfast.core.crash import Crash, CrashPoint
from holdfast.core.errors import HoldfastError, StoreError
from holdfast.core.events import Event, MessageEnded, ToolBegan
from holdfast.core.ids import CallId, PrincipalId, SessionId, TurnId
from holdfast.core.inbox import InboxRow, InboxState
from holdfast.core.message import (
    AssistantMessage,
    CompactionMessage,
    Message,
    NoteMessage,
    Outcome,
    ToolMessage,
    UserMessage,
)
from holdfast.core.model import Completed, FellBack
from holdfast.core.outbox import NewDelivery
from holdfast.core.projection import open_calls
from holdfast.core.source import speaker_of
from holdfast.core.tool import ToolOutput
from holdfast.core.turn import NO_USAGE, BeginTurn, EndTurn, OpenTurn, TurnRow, TurnState, Usage
from holdfast.gateway.asking import Permission
from holdfast.gateway.delegating import Delegating, asker_of
from holdfast.gateway.house import House
from holdfast.gateway.live import LiveStep
from holdfast.gateway.showing import Showing
from holdfast.gateway.waiting import TurnApprovals

CANCELLED = "Cancelled while it ran. It may have had an effect."
NOT_STARTED = "Not started."


class TurnClosed(HoldfastError):
    """The turn has ended; nothing more may be written in its name."""


class Turn:
    """Owns one turn from its first write to its last, and is what the agent calls its work.

    `end` may be called by anyone at any instant: it closes the turn in one commit with
    whatever calls are open, and from then on the agent's own writes are refused.
    """

    def __init__(
        self,
        turn_id: TurnId,
        agent: Agent,
        rows: Sequence[InboxRow],
        *,
        house: House,
        approvals: TurnApprovals,
        resumed: OpenTurn | None = None,
    ) -> None:
        self.turn_id = turn_id
        self.agent = agent
        self.rows = tuple(rows)
        self.inbox_ids = tuple(row.id for row in rows)
        self.steers: deque[InboxRow] = deque()
        self.unsettled = resumed.started_calls if resumed else frozenset[CallId]()
        self.approvals = approvals
        self.replies_before = resumed.model_steps if resumed else 0
        self.usage = resumed.usage if resumed else Usage()
        self.resumed = resumed
        self.live = LiveStep()
        self.compacting = False  # its history is being summarised
        self.interrupted = ""  # why somebody else than its user stopped it
        self.fallen: FellBack | None = None  # why, and to whom, the first model gave the turn
        self._unasked: list[InboxRow] = []  # steers that are kept, and in no request yet
        self._replies = self.replies_before
        self._started_at = resumed.turn.started_at if resumed else house.clock.now()
        self._begun: asyncio.Future[None] | None = None
        self._ending: EndTurn | None = None
        self._ended: asyncio.Future[None] | None = None
        self._cut = False
        self._started = set(self.unsettled)
        self._house = house
        self._showing = Showing(house.redact)
        self._task: asyncio.Task[Completed] | None = None

    def start(self) -> asyncio.Task[Completed]:
        """Run the agent; whoever calls this awaits the task to its end."""
        self._task = asyncio.create_task(run_turn(self.agent, self), name=f"turn {self.turn_id}")
        self.agent.lend(self.interrupt)
        self._task.add_done_callback(lambda _: self.agent.lend(None))
        return self._task

    def interrupt(self, reason: str) -> None:
        """Stop the agent: the turn ends as failed, and its user is told this reason."""
        self.interrupted = reason
        self.cancel()

    @property
    def session_id(self) -> SessionId:
        return self.agent.session_id

    @property
    def principal(self) -> PrincipalId:
        return self.rows[-1].principal

    @property
    def bench(self) -> Bench:
        child = self.rows[0].inbound.child
        if child is None:
            return self._house.bench(self.session_id)
        return self._house.bench(child.bench, shell=child.session_id)

    @property
    def delegation(self) -> Delegation:
        tools = self.agent.toolbox.by_name.values()
        asker = asker_of(
            self.rows[-1],
            session_id=self.session_id,
            turn_id=self.turn_id,
            toolsets=list(dict.fromkeys(tool.toolset for tool in tools)),
        )
        return Delegating(self._house.children, asker)

    @property
    def crash(self) -> Crash:
        return self._house.crash

    @property
    def auxiliary(self) -> Auxiliary:
        return self._house.auxiliary

    @property
    def reasoning(self) -> str | None:
        """By the message, else by the config; of several that are one turn, the last says."""
        return self.rows[-1].inbound.effort or self._house.settings.agent.reasoning

    @property
    def running(self) -> Running:
        """The turn as admission sees it."""
        last = self.rows[-1]
        return Running(
            route=last.route,
            principal=last.principal,
            children=self._house.children.running(self.session_id),
            compacting=self.compacting,
        )

    def redact(self, text: str) -> str:
        return self._house.redact(text)

    def emit(self, event: Event) -> None:
        for shown in self._showing.of(event):
            self._house.watchers.publish(self.inbox_ids[-1], shown)
            if self.live.take(shown):
                self._house.feeds.publish(self.session_id, shown)
            elif isinstance(shown, ToolBegan):
                self._house.feeds.restarted(self.session_id)

    def asking(self) -> None:
        """Who steered hears so now: before this, nobody could say that the model knows."""
        steers, self._unasked = self._unasked, []
        for row in steers:
            self._house.notices.tell(row, STEERED, agent=self.agent, turn_id=self.turn_id)

    def replied(self, message: AssistantMessage, usage: Usage) -> Awaitable[None]:
        self._must_be_open()
        self.usage = self.usage + usage
        self._replies += 1
        self.live.replied()
        return self._told(
            self._house.store.record_reply(
                self.turn_id,
                session_id=self.session_id,
                message=message,
                usage=usage,
                at=self._house.clock.now(),
            )
        )

    def noted(self, message: NoteMessage, usage: Usage) -> Awaitable[None]:
        self._must_be_open()
        self.usage = self.usage + usage
        return self._told(
            self._house.store.record_note(
                self.turn_id,
                session_id=self.session_id,
                message=message,
                usage=usage,
                at=self._house.clock.now(),
            )
        )

    def compacted(self, message: CompactionMessage, usage: Usage) -> Awaitable[None]:
        self._must_be_open()
        self.usage = self.usage + usage
        return self._told(
            self._house.store.record_compaction(
                self.turn_id,
                session_id=self.session_id,
                message=message,
                usage=usage,
                at=self._house.clock.now(),
            )
        )

    def spent(self, errand: Errand, usage: Usage) -> None:
        if usage != NO_USAGE:
            counting = self._house.store.count_auxiliary(
                self.session_id, errand=errand, usage=usage
            )
            done = asyncio.ensure_future(counting)
            done.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def before_compaction(self, messages: Sequence[Message]) -> None:
        await self._house.memory.pre_compact(self.session_id, messages)

    def fell_back(self, event: FellBack) -> None:
        """A5: this agent answers to the end of the turn; the next is built anew, and asks the
        first model again."""
        self.fallen = event if self.fallen is None else FellBack(self.fallen.why, event.model)
        self._house.cache.drop(self.session_id)

    async def permit(self, wish: Wish, later: Sequence[Wish]) -> ToolOutput | None:
        self._must_be_open()
        permission = Permission(
            self._house,
            self.approvals,
            session_id=self.session_id,
            turn_id=self.turn_id,
            row=self.rows[-1],
        )
        return await permission.of(wish, later)

    def set_aside(self) -> OpenTurn:
        """All that is needed to go on with a turn that stands at a step boundary and waits."""
        row = TurnRow(
            id=self.turn_id,
            session_id=self.session_id,
            state=TurnState.OPEN,
            usage=self.usage,
            reason="",
            started_at=self._started_at,
            ended_at=None,
        )
        return OpenTurn(
            turn=row,
            rows=self.rows,
            started_calls=frozenset(self._started),
            usage=self.usage,
            model_steps=self._replies,
            set_aside=True,
        )

    def calling(self, call_ids: Sequence[CallId]) -> Awaitable[None]:
        self._must_be_open()
        self._started.update(call_ids)
        return self._house.store.record_started(
            self.turn_id, session_id=self.session_id, call_ids=call_ids, at=self._house.clock.now()
        )

    def called(self, message: ToolMessage) -> Awaitable[None]:
        self._must_be_open()
        self._started.discard(message.call_id)
        self.live.called(message.call_id)
        durable = self._told(
            self._house.store.record_finished(
                self.turn_id,
                session_id=self.session_id,
                message=message,
                at=self._house.clock.now(),
            )
        )
        durable.add_done_callback(lambda done: self._called(message.call_id, done))
        return durable

    def next_steer(self) -> tuple[UserMessage, Awaitable[None]] | None:
        self._must_be_open()
        if not self.steers:
            return None
        row = self.steers.popleft()
        message = user_message(row)
        durable = self._told(
            self._house.store.record_steer(
                self.turn_id,
                session_id=self.session_id,
                inbox_id=row.id,
                message=message,
                at=self._house.clock.now(),
            )
        )
        durable.add_done_callback(lambda done: self._steered(row, done))
        # Shielded: whether the row has ended is to be heard also where the turn is cancelled.
        return message, asyncio.shield(durable)

    def cut_calls(self) -> tuple[ToolMessage, ...]:
        """A result for each open call: what a provider needs, and all that is known of it."""
        return cut_results(self.agent.messages, self._started)

    @property
    def closed(self) -> bool:
        """Ended, or cut by a gateway that stops: either way nothing more is written."""
        return self._cut or self._ending is not None

    def begin(self, begin: BeginTurn) -> None:
        """Open the turn, and do not wait: the model may think while the disk turns.

        Writes keep their order, so nothing of the turn is durable before its beginning is.
        """
        self._started_at = begin.at
        self._begun = self._told(self._house.store.begin_turn(begin))
        # With its first turn a session gets into the log, and gets its title.
        self._begun.add_done_callback(lambda _: self._house.feeds.changed(self.session_id))
        self._begun.add_done_callback(lambda done: self._owed(begin.deliveries, done))
        for message in begin.messages:
            self.agent.remember(message)
        self.crash(CrashPoint.TURN_BEGUN)

    @property
    def answer(self) -> str | None:
        """What it answered; None: it has not, or ended in another way."""
        end = self._ending
        if end is None or end.state is not TurnState.ANSWERED:
            return None
        last = end.messages[-1] if end.messages else None
        return last.text if isinstance(last, AssistantMessage) else ""

    async def has_begun(self) -> bool:
        """Whether the beginning is in the log; a turn that is gone on with has begun long ago."""
        try:
            if self._begun is not None:
                await asyncio.shield(self._begun)
        except StoreError:
            return False
        return True

    def end(self, end: EndTurn) -> None:
        """Close the turn: `end` is on its way to the log, and joins the buffer at once."""
        self._must_be_open()
        self._ending = end
        self.approvals.withdraw(at=end.at)
        self.crash(CrashPoint.END_SUBMITTED)
        for message in end.messages:
            self.agent.remember(message)
        self.live = LiveStep()
        self._ended = self._write_end(end)

    async def ended(self) -> None:
        """Returns once what closed the turn is durable. After a failure, asking writes again."""
        assert self._ending is not None, "only a turn that was ended has an end"
        writing = self._ended or self._write_end(self._ending)
        self._ended = None
        await asyncio.shield(writing)

    def _write_end(self, end: EndTurn) -> asyncio.Future[None]:
        """Announced by the commit itself, so that what was committed first goes out first."""

        def announce(done: asyncio.Future[None]) -> None:
            # One that fails is written again, or belongs to a turn that could not be begun.
            if not done.cancelled() and done.exception() is None:
                self.crash(CrashPoint.END_COMMITTED)
                self._house.announcer.turn(end)
                self._remember()

        writing = self._told(self._house.store.end_turn(end))
        writing.add_done_callback(announce)
        return writing

    def _remember(self) -> None:
        """Memory hears of turns that were answered, and of no other; not of a child's, whose
        words are its parent's."""
        if self.answer is not None and self.rows[0].inbound.child is None:
            said = "\n\n".join(row.inbound.text for row in self.rows)
            self._house.memory.answered(
                self.session_id, self.rows[-1], user=said, assistant=self.answer
            )

    def cut(self) -> None:
        """The gateway kills what runs: those calls get their result, and the turn stays open."""
        self._must_be_open()
        for message in self.cut_calls():
            # Children have rows of their own: they go on in the successor, and so does their call.
            if message.outcome is Outcome.CANCELLED and message.name != DELEGATE:
                writing = asyncio.ensure_future(self.called(message))
                writing.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._cut = True

    def cancel(self) -> None:
        """Stop the agent at its next await. Idempotent, and harmless before `start`."""
        if self._task is not None:
            self._task.cancel()

    def _told(self, write: Awaitable[None]) -> asyncio.Future[None]:
        """The write; those who look at the session hear of it from the commit itself."""
        self.agent.active_at = self._house.clock.now()
        durable = asyncio.ensure_future(write)
        durable.add_done_callback(self._committed)
        return durable

    def _committed(self, done: asyncio.Future[None]) -> None:
        if _worked(done):
            self._house.feeds.committed(self.session_id)
        elif not done.cancelled():
            # The buffer may hold what the log does not: the next turn reads the log again.
            self._house.cache.drop(self.session_id)

    def _owed(self, deliveries: Sequence[NewDelivery], done: asyncio.Future[None]) -> None:
        """What goes out with the beginning; one that failed is begun again by its lane."""
        if _worked(done) and deliveries:
            self._house.announcer.messages((), deliveries)

    def _called(self, call_id: CallId, done: asyncio.Future[None]) -> None:
        if not done.cancelled() and not _worked(done):
            self._started.add(call_id)  # as far as the log knows, it runs

    def _steered(self, row: InboxRow, done: asyncio.Future[None]) -> None:
        if not _worked(done):
            self.steers.appendleft(row)  # it is still queued, and runs next
            return
        self._unasked.append(row)
        self._house.watchers.merge(row.id, into=self.rows[-1].id)
        merged = MessageEnded(row.id, InboxState.MERGED, "", self.turn_id, self.session_id)
        self._house.feeds.ended(merged)

    def _must_be_open(self) -> None:
        if self.closed:
            raise TurnClosed(f"turn {self.turn_id} has ended")


def _worked(done: asyncio.Future[None]) -> bool:
    return not done.cancelled() and done.exception() is None


def opening_message(row: InboxRow) -> UserMessage | NoteMessage:
    """What a message is in the transcript: a person's word, or our own."""
    return NoteMessage(text=row.inbound.text) if row.inbound.note else user_message(row)


def user_message(row: InboxRow) -> UserMessage:
    inbound = row.inbound
    speaker = speaker_of(inbound.source)
    return UserMessage(text=inbound.text, images=inbound.images, speaker=speaker)


def cut_results(
    messages: Sequence[Message], started: Collection[CallId]
) -> tuple[ToolMessage, ...]:
    """A result for each call of the last reply that has none, by whether it had started."""
    return tuple(
        ToolMessage(
            call_id=call.id,
            name=call.name,
            text=CANCELLED if call.id in started else NOT_STARTED,
            outcome=Outcome.CANCELLED if call.id in started else Outcome.NOT_STARTED,
        )
        for call in open_calls(messages)
    )
