"""A turn: its state, its agent while one runs it, and the one place where it ends."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import msgspec

from holdfast.agent.agent import Agent
from holdfast.agent.loop import run_turn
from holdfast.agent.turn_port import Parked, WaitingForApproval
from holdfast.core.config.settings import Settings
from holdfast.core.crash_points import CrashPoint
from holdfast.core.errors import HoldfastError, StoreError
from holdfast.core.ids import InboxId, SessionId, TurnId
from holdfast.core.messages.inbox import InboxEnd, InboxRow
from holdfast.core.messages.outbox import NewDelivery
from holdfast.core.messages.transcript import AssistantMessage, Message, StopReason, ToolMessage
from holdfast.core.ports.command import Command
from holdfast.core.ports.runtime import Runtime
from holdfast.core.ports.store import Store
from holdfast.core.ports.store_commands import ContinueTurn, ParkTurn, RecordSteer, ResumeTurn
from holdfast.core.ports.store_queries import GetTranscript
from holdfast.core.sessions.session import CommandEffect
from holdfast.core.text.translation import ENGLISH, N_, _, use_catalogue
from holdfast.core.turns.model import Completed, FallbackUsed
from holdfast.core.turns.turn import (
    BeginTurn,
    EndTurn,
    OpenTurn,
    TurnFigures,
    TurnRow,
    TurnRowState,
    Usage,
)
from holdfast.core.turns.turn_state import AGENT_STATES, TurnLifecycle, TurnState
from holdfast.gateway.agents.session_agents import SessionAgents
from holdfast.gateway.approvals.pending import PendingApprovals, wait_for_decision
from holdfast.gateway.durable_writes import RetriedWrite
from holdfast.gateway.live.counters import model_of
from holdfast.gateway.outbound.delivery import DeliveryFactory
from holdfast.gateway.outbound.stream_factory import with_stream_end
from holdfast.gateway.turns.endings import (
    STOPPED_BY_USER,
    answered_ends,
    failed_ends,
    merged_ends,
    superseded_ends,
    without_ended_messages,
)
from holdfast.gateway.turns.transcript_notes import (
    all_calls_detachable,
    interrupted_call_results,
    interruption_note,
    results_of_cancelled_calls,
)
from holdfast.gateway.turns.turn_context import TurnContext
from holdfast.gateway.turns.turn_log import TurnLog

log = logging.getLogger(__name__)

_INTERNAL_ERROR = N_("internal error ({kind}); see the log of the gateway")


def new_turn_record(
    turn_id: TurnId, rows: Sequence[InboxRow], *, session_id: SessionId, at: float
) -> OpenTurn:
    """The record of a turn that has done nothing yet."""
    row = TurnRow(
        id=turn_id,
        session_id=session_id,
        state=TurnRowState.OPEN,
        usage=Usage(),
        reason="",
        started_at=at,
        ended_at=None,
    )
    return OpenTurn(
        turn=row, rows=tuple(rows), started_calls=frozenset(), usage=Usage(), model_steps=0
    )


MarkTurn = Callable[[SessionId, TurnId], Awaitable[object]]
"""Queues the mark of a turn that is about to be cut (`SessionStore.mark_turn`)."""


class NewTurnContext(Protocol):
    """Makes the context of a turn that an agent runs (`TurnContext`)."""

    def __call__(
        self,
        record: OpenTurn,
        agent: Agent,
        *,
        log: TurnLog,
        settings: Settings,
        approvals: PendingApprovals,
        resumed: bool,
    ) -> TurnContext: ...


class Turn:
    """Owns one turn of a session: its state, its approvals, how it is left and how it ends, and the
    context of its agent while one runs it.

    `TURN_TRANSITIONS` lists its legal state changes. A turn that waits, or that an earlier process
    left open, has no agent and needs none to be ended. The methods that are not coroutines take
    effect at once: when they return, the decision is made and its write is queued.
    """

    def __init__(
        self,
        record: OpenTurn,
        *,
        store: Store,
        runtime: Runtime,
        agents: SessionAgents,
        deliveries: DeliveryFactory,
        new_context: NewTurnContext,
        is_new: bool,
        on_shown_change: Callable[[], None],
    ) -> None:
        self.record = record  # as of when no agent ran it
        self.turn_id: TurnId = record.turn.id
        self.session_id: SessionId = record.turn.session_id
        self.rows: Sequence[InboxRow] = record.rows  # the messages that it answers, oldest first
        self.approvals = PendingApprovals(record.approvals)
        self.ending: EndTurn | None = None  # how it was closed, durable or not
        self.interrupt_reason = ""  # why its agent was interrupted, if not by its user
        self._store = store
        self._runtime = runtime
        self._agents = agents
        self._deliveries = deliveries
        self._new_context = new_context
        self._lifecycle = TurnLifecycle(
            TurnState.WAITING if record.is_waiting else TurnState.STARTING,
            on_shown_change=on_shown_change,
        )
        self._is_new = is_new  # the store does not have it, unless its beginning is durable
        self._context: TurnContext | None = None
        self._fallback: FallbackUsed | None = None  # of the earlier runs of this turn
        self._task: asyncio.Task[Completed] | None = None
        # Ends and replies of the command that stopped it while it had no agent; committed with its
        # end.
        self._stop_ends: list[InboxEnd] = []
        self._stop_deliveries: list[NewDelivery] = []
        self._stopped_by = ""
        # It has failed too often: its session is suspended in the same commit.
        self._suspends_session = False
        # As it was when the turn was ended without an agent.
        self._transcript: Sequence[Message] = ()
        self._begin_write: Awaitable[None] | None = None
        self._resume_write: asyncio.Future[None] | None = None  # reverts how it was left
        self._exit_write: asyncio.Future[Any] | None = None  # how this process leaves it
        self._end_write: Awaitable[None] | None = None
        self.closing_write: RetriedWrite | None = None  # writes its end, until that is durable

    @property
    def state(self) -> TurnState:
        return self._lifecycle.state

    @property
    def is_running(self) -> bool:
        """Whether an agent runs it and may still write."""
        return self.state in AGENT_STATES

    @property
    def is_open(self) -> bool:
        """Whether it has neither ended nor been left to the next process."""
        return self.is_running or self.state in (TurnState.STARTING, TurnState.WAITING)

    @property
    def is_parked(self) -> bool:
        """Whether it is at a step boundary and its row is, or will be, marked as parked."""
        return self.state in (TurnState.PARKED, TurnState.WAITING)

    @property
    def started_at(self) -> float:
        return self.record.turn.started_at

    @property
    def answering(self) -> InboxId | None:
        """The message whose end will be the end of this turn; None if the end is decided already,
        or another process decides it."""
        undecided = self.is_open or self.state is TurnState.STOPPING
        return self.rows[-1].id if self.rows and undecided else None

    @property
    def has_agent(self) -> bool:
        """Whether it holds an agent: until the agent has returned and the end of the turn is
        durable."""
        return self._context is not None

    @property
    def context(self) -> TurnContext:
        """The context that its agent works with. Only a turn with an agent has one."""
        assert self._context is not None, "no agent runs this turn"
        return self._context

    @property
    def steers(self) -> Sequence[InboxRow]:
        """The messages that were added to the turn and that it has not taken."""
        return () if self._context is None else tuple(self._context.steers)

    def take_steers(self) -> list[InboxRow]:
        """Remove and return the steers."""
        steers = list(self.steers)
        if self._context is not None:
            self._context.steers.clear()
        return steers

    @property
    def task(self) -> asyncio.Task[Completed] | None:
        """The task that runs its agent; None before it is started."""
        return self._task

    @property
    def usage(self) -> Usage:
        return self.record.usage if self._context is None else self._context.log.usage

    @property
    def step(self) -> int:
        """The number of the current model reply, counted from the beginning of the turn."""
        context = self._context
        return 1 + (self.record.model_steps if context is None else context.log.replies)

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the running tools."""
        return () if self._context is None else self._context.output.live.tools

    @property
    def fallback(self) -> FallbackUsed | None:
        """The model that replaced the first one, and why."""
        latest = None if self._context is None else self._context.fallback
        if self._fallback is None or latest is None:
            return self._fallback or latest
        return self._fallback.followed_by(latest)

    @property
    def answer(self) -> str | None:
        """The text of its answer; None if it has not answered, or ended in another way."""
        return None if self.ending is None else self.ending.answer

    @property
    def compacting(self) -> bool:
        """Whether its agent is compacting the conversation now."""
        return self._context is not None and self._context.compacting

    # Starting: the turn gets an agent.

    def begin(self, agent: Agent, begin: BeginTurn, *, settings: Settings) -> None:
        """Begin a new turn. Its first commit is queued when this returns; see `has_begun`."""
        context = self._attach(agent, settings=settings, resumed=False)
        self._begin_write = context.log.begin(begin)

    async def has_begun(self) -> bool:
        """Whether the beginning is durable."""
        if self._begin_write is None:
            return not self._is_new
        try:
            await self._begin_write
        except StoreError:
            return False
        return True

    async def write_resumed(self, agent: Agent) -> None:
        """Revert in the store how an earlier process left it. A turn that was interrupted gets a
        note; a parked one continues as if nothing had happened. The write is queued before this
        waits.

        It must be durable before the turn continues. Otherwise its next interruption would be
        mistaken for the earlier parking, and would not be counted.
        """
        record, at = self.record, self._runtime.clock.now()
        try:
            if record.was_interrupted:
                note = interruption_note(record.exit_reason or "crash")
                self._resume_write = asyncio.ensure_future(
                    self._store.write(
                        ResumeTurn(
                            turn_id=self.turn_id, session_id=self.session_id, note=note, at=at
                        )
                    )
                )
                agent.append(note)
                await self._resume_write
                self._runtime.crash(CrashPoint.RESUME_COMMITTED)
            elif record.exit_reason is not None:
                self._resume_write = asyncio.ensure_future(
                    self._store.write(
                        ContinueTurn(turn_id=self.turn_id, session_id=self.session_id, at=at)
                    )
                )
                await self._resume_write
        except StoreError:
            self._resume_write = None  # its row is unchanged
            raise

    def resume(self, agent: Agent, *, settings: Settings) -> None:
        """Continue with an agent. Call `write_resumed` first."""
        self._attach(agent, settings=settings, resumed=True)
        self.approvals.mark_resumed()

    def _attach(self, agent: Agent, *, settings: Settings, resumed: bool) -> TurnContext:
        self._context = self._new_context(
            self.record,
            agent,
            log=TurnLog(
                self.record,
                agent,
                lifecycle=self._lifecycle,
                writes=self._store,
                runtime=self._runtime,
            ),
            settings=settings,
            approvals=self.approvals,
            resumed=resumed,
        )
        self._lifecycle.move(TurnState.RUNNING)
        return self._context

    def detach(self) -> list[InboxRow]:
        """Release its agent, which has returned. Returns the steers that the agent has not
        taken."""
        steers = self.take_steers()
        self._context = self._task = None
        return steers

    async def run(self) -> None:
        """Run the agent until the turn waits for a person, is left to the next process, or is
        closed. Raises only if the calling task is cancelled."""
        try:
            end = await self._run_agent()
        except WaitingForApproval:
            if self.is_running:
                self._wait_for_person()
        except Parked:
            if self.is_running:
                self._stop_at_boundary()
        else:
            # A command may have ended the turn at the moment when the agent was done.
            if self.is_running:
                self.end(end)

    async def _run_agent(self) -> EndTurn:
        try:
            return self._answered_end(await self._complete())
        except asyncio.CancelledError:
            if _is_being_cancelled() or (self.is_running and not self.interrupt_reason):
                raise
            why = shown = self.interrupt_reason
        except (WaitingForApproval, Parked):
            raise
        except HoldfastError as error:
            why, shown = str(error), error.for_person()
        # The boundary of a turn: its failure is its answer, and does not crash the gateway.
        except Exception as error:
            about = {"action": "turn_failed", "session": self.session_id, "turn": self.turn_id}
            log.exception(
                "Turn %s of session %s failed", self.turn_id, self.session_id, extra=about
            )
            why = _INTERNAL_ERROR.format(kind=type(error).__name__)
            shown = _(_INTERNAL_ERROR).format(kind=type(error).__name__)
        return self._failed_end(why, text=_("This could not be answered: {why}").format(why=shown))

    async def _complete(self) -> Completed:
        """Run the agent in a task of its own, which `cancel` can stop."""
        context = self.context
        agent, indicator = context.agent, context.output.typing_indicator()
        running = run_turn(agent, context)
        with use_catalogue(ENGLISH):  # the model reads English in every language of the chat
            self._task = asyncio.create_task(running, name=f"turn {self.turn_id}")
        agent.set_interrupt(self.interrupt)
        if indicator is not None:
            indicator.start()
        try:
            return await self._task
        finally:
            agent.set_interrupt(None)
            if indicator is not None:
                indicator.stop()

    def interrupt(self, reason: str) -> None:
        """Stop the agent: the turn ends as failed, and its user gets this reason."""
        self.interrupt_reason = reason
        self.cancel()

    def cancel(self) -> None:
        """Stop the agent at its next await. Idempotent, and harmless before it is started."""
        if self._task is not None:
            self._task.cancel()

    # Waiting: the turn waits for a person.

    def _wait_for_person(self) -> None:
        """Release the agent. The agent asked, so the beginning of the turn is durable, and its
        record has everything that it needs to continue."""
        context = self.context
        context.output.stop_showing()
        context.output.trace_left("waiting")
        self.record = OpenTurn(
            turn=msgspec.structs.replace(self.record.turn, usage=context.log.usage),
            rows=self.record.rows,
            started_calls=frozenset(context.log.started_calls),
            usage=context.log.usage,
            model_steps=context.log.replies,
            stream=context.output.started_stream,
            owned_by_this_process=True,
        )
        self._fallback = self.fallback
        self._resume_write = None
        self._lifecycle.move(TurnState.WAITING)

    async def wait_until_woken(self, interrupted: Callable[[], bool]) -> None:
        """Return when there is an answer, `interrupted` reports that a message interrupts the turn,
        or it no longer waits."""

        def wakes() -> bool:
            by_message = interrupted()
            if by_message:
                self.approvals.withdraw(at=self._runtime.clock.now())
            return by_message or self.state is not TurnState.WAITING

        await wait_for_decision(
            self.approvals, writes=self._store, clock=self._runtime.clock, interrupted=wakes
        )

    def wake(self) -> None:
        """Stop waiting: the turn needs an agent."""
        self._lifecycle.move(TurnState.STARTING)

    # Leaving: the turn is left to the next process.

    def park(self) -> None:
        """Leave the turn at its next step boundary, or at once if it is at one. A marked turn stays
        marked."""
        if self.state is TurnState.RUNNING:
            self._lifecycle.move(TurnState.PARKING)
            if all_calls_detachable(self.context.agent, self.context.log.started_calls):
                self._stop_at_boundary()
        elif self.state in (TurnState.STARTING, TurnState.WAITING):
            if self.record.is_waiting or self._resume_write is not None:
                self._write_parked()
                self._lifecycle.move(TurnState.PARKED)
            else:
                self._lifecycle.move(TurnState.UNRESUMED)

    def leave(self, mark: MarkTurn) -> asyncio.Future[Any] | None:
        """Leave the turn because the gateway stops: mark it if it runs (it may still end until it
        is cut), park it if it waits. When the returned future is done, it is stored how the turn is
        left, or that it has ended. None if there is nothing to write."""
        if self.state in (TurnState.RUNNING, TurnState.PARKING):
            self.context.output.stop_showing()
            self._exit_write = asyncio.ensure_future(mark(self.session_id, self.turn_id))
            self._lifecycle.move(TurnState.MARKED)
        elif self.closing_write is not None:
            return self.closing_write.try_now()
        else:
            self.park()
        return self._exit_write

    def _stop_at_boundary(self) -> None:
        """The first exit reason wins: a marked turn was cut, and is counted as cut."""
        self.context.output.stop_showing()
        if self.state is TurnState.MARKED:
            self._lifecycle.move(TurnState.CUT)
        else:
            self._write_parked()
            self._lifecycle.move(TurnState.PARKED)
        self.context.output.trace_left(self.state)

    def cut(self, reason: str, *, detached: bool) -> None:
        """Interrupt the agent, if it runs. Calls that are killed get a result, and the turn stays
        open. With `detached`, calls that a successor can attach to keep running."""
        if not self.is_running:
            return
        context = self.context
        for result in results_of_cancelled_calls(
            context.agent, context.log.started_calls, detached=detached
        ):
            context.log.record_call_result(result)
        self._lifecycle.move(TurnState.CUT)
        context.output.trace_left(self.state)
        context.agent.interrupt(reason)

    def _write_parked(self) -> None:
        """Store that the turn is parked. A failed write needs no retry: the next start treats the
        turn as cut by a crash."""
        park = ParkTurn(
            session_id=self.session_id, turn_id=self.turn_id, at=self._runtime.clock.now()
        )
        self._exit_write = asyncio.ensure_future(self._store.write(park))

    # Ending: the turn is closed.

    def stop(
        self, ends: Sequence[InboxEnd], deliveries: Sequence[NewDelivery], *, by: str = ""
    ) -> bool:
        """End the turn for good; False if it has ended already or is left to the next process.

        `ends` and `deliveries` are those of the command, and are committed with those of the turn.
        `by` is who requested it, if no command did.
        """
        if self.answering is None and self.state is not TurnState.STARTING:
            return False
        self._stop_ends.extend(ends)
        self._stop_deliveries.extend(deliveries)
        self._stopped_by = self._stopped_by or by
        if self.is_running:
            self.end(self._stopped_end())
            self.cancel()
        elif self.state is not TurnState.STOPPING:
            self._lifecycle.move(TurnState.STOPPING)  # `close` reads the transcript and ends it
            self.approvals.withdraw(at=self._runtime.clock.now())
            self.approvals.wake()
        return True

    def end_interrupted(self, by: InboxId) -> None:
        """End it in favour of the message `by`. Its request stays in the transcript and is answered
        with that message."""
        self.end(
            self._end_as(
                TurnRowState.INTERRUPTED,
                reason="interrupted by the next message",
                inbox_ends=merged_ends(self.rows, into=by),
            )
        )
        self.cancel()

    async def fail(self, why: str, *, text: str = "", suspend: bool = False) -> None:
        """End the turn without an agent, for this reason, unless it was stopped or left meanwhile.
        The sender gets `text`, the reason in their language. With `suspend`, its session is
        suspended in the same commit. Raises `StoreError`; then nothing is decided yet."""
        if not self._is_new:
            await self._read_transcript()
        if self.is_open:
            self._suspends_session = suspend
            self.end(self._failed_end(why, text=text or why))

    def end(self, end: EndTurn) -> None:
        """Close the turn with this end. Every end of a turn passes here, whatever its reason.

        The end of a turn with an agent is queued for the store when this returns, and what the
        agent writes after it is refused. The end of a turn without one is written by `close`.
        """
        self._lifecycle.move(TurnState.CLOSING)
        context = self._context
        if context is not None and context.output.stream is not None:
            end = context.output.with_stream_end(end)
        elif self.rows:
            end = with_stream_end(end, self.record.stream, self.rows[-1])
        end = msgspec.structs.replace(
            end,
            figures=self._figures(),
            suspend=self._suspends_session,
            has_steps=not self._is_new or context is None or context.log.has_steps,
        )
        self.ending = end = self._agents.memory.with_memory_sync(self.rows, end)
        self._runtime.crash(CrashPoint.END_SUBMITTED)
        if context is None:
            # The buffer of a cached agent has no results for the calls that were cut.
            self._agents.drop(self.session_id)
        else:
            for message in end.messages:
                context.agent.append(message)
            self._end_write = self._write_end(end)
            context.output.clear()
        self.approvals.withdraw(at=end.at)

    async def close(self) -> None:
        """Return once the end is durable (a store failure delays it but does not revert it), or
        once the turn is discarded because the store refused its beginning."""
        self.closing_write = closing = RetriedWrite(self.close_once)
        try:
            await closing.until_durable()
        finally:
            self.closing_write = None

    async def close_once(self) -> None:
        """As `close`, with one attempt. Raises `StoreError` if the store does not take the end; the
        next attempt writes it again."""
        if self.state is TurnState.STOPPING:
            await self._read_transcript()
            self.end(self._stopped_end())
        assert self.ending is not None, "`end` sets it"
        if await self.has_begun():
            writing, self._end_write = self._end_write, None
            if writing is None:
                end = await without_ended_messages(self.ending, self._store)
                writing = self._write_end(end)
            await writing
            self._lifecycle.move(TurnState.ENDED)
        elif self._begin_write is None or self.ending.state is TurnRowState.SUPERSEDED:
            await self._write_unbegun_end(self.ending)
        else:
            self._lifecycle.move(TurnState.DISCARDED)

    def _write_end(self, end: EndTurn) -> Awaitable[None]:
        if self._context is not None:
            self._context.agent.active_at = self._runtime.clock.now()
        return self._store.write(end)

    async def _write_unbegun_end(self, decided: EndTurn) -> None:
        """End the messages of a turn that the store does not have."""
        end = await without_ended_messages(decided, self._store)
        if end.inbox_ends:
            await self._store.write(
                CommandEffect(
                    inbox_ends=end.inbox_ends,
                    deliveries=end.deliveries,
                    session_id=self.session_id,
                    at=end.at,
                )
            )
        self._lifecycle.move(TurnState.ENDED)

    def _figures(self) -> TurnFigures:
        context = self._context
        messages = self._transcript if context is None else context.agent.messages
        # The first text of a resumed turn came earlier, and its time is not stored.
        first = context is not None and not context.resumed
        return TurnFigures(
            started_at=self.started_at,
            first_text_at=context.output.first_text_at if context and first else None,
            model=model_of(messages),
            user_text="\n\n".join(row.inbound.text for row in self.rows),
        )

    # Results of its writes, as reported by the store's events.

    def on_committed(self, command: Command[Any]) -> None:
        """A command of this turn is durable."""
        context = self._context
        if context is None:
            return
        if isinstance(command, RecordSteer):
            context.steers.on_committed(command.inbox_id)
        elif isinstance(command, EndTurn) and context.output.trace is not None:
            context.output.trace.turn_ended(command)

    def on_write_failed(self, command: Command[Any]) -> None:
        """A command of this turn failed, and nothing of it is stored. It is written again, or
        belongs to a turn that could not be begun."""
        context = self._context
        if context is None:
            return
        context.log.on_write_failed(command)
        if isinstance(command, RecordSteer):
            context.steers.on_write_failed(command.inbox_id)

    async def _read_transcript(self) -> None:
        records = await self._store.read(GetTranscript(session_id=self.session_id))
        self._transcript = [record.message for record in records]

    def _answered_end(self, completed: Completed) -> EndTurn:
        """The end of an answered turn: the final reply, its delivery, and the ends of its
        messages."""
        last = self.rows[-1]
        run = last.inbound.run
        silent = run is not None and run.is_silent_reply(completed.message.text)
        reply = self._deliveries.reply(
            last, None, session_id=self.session_id, turn_id=self.turn_id, silent=silent
        )
        return self._end_as(
            TurnRowState.ANSWERED,
            reason=self._fallback_text,
            messages=(completed.message,),
            usage=self.usage + completed.usage,
            deliveries=(*self._fallback_notice(), reply),
            inbox_ends=answered_ends(self.rows),
        )

    @property
    def _fallback_text(self) -> str:
        """The notice that another model than the first has answered; "" if the first did."""
        used = self.fallback
        return (
            ""
            if used is None
            else _("{model} answered this time: {why}").format(
                model=used.model, why=used.why.for_person()
            )
        )

    def _fallback_notice(self) -> Iterator[NewDelivery]:
        """The delivery of `_fallback_text`: one per turn, however many models failed. Where replies
        are fetched, the reason of the turn has that text."""
        last, text = self.rows[-1], self._fallback_text
        if text and last.inbound.subagent is None and not self._deliveries.is_fetched(last):
            yield self._deliveries.notice(
                last, text, session_id=self.session_id, turn_id=self.turn_id
            )

    def _failed_end(self, why: str, *, text: str) -> EndTurn:
        """The end of a failed turn. The reason is sent to the user and is not in the transcript:
        the model must not read it."""
        known = not self._is_new or self._begin_write is not None
        replies = tuple(
            self._deliveries.reply(
                row,
                text,
                session_id=self.session_id if known else None,
                turn_id=self.turn_id if known else None,
            )
            for row in self.rows[-1:]
        )
        return self._end_as(
            TurnRowState.FAILED,
            reason=why,
            deliveries=replies,
            inbox_ends=failed_ends(self.rows, why),
        )

    def _stopped_end(self) -> EndTurn:
        """The end of a turn that its user stopped. What was streamed of the reply stays in the
        transcript: the user has read it, and the next message may refer to it."""
        partial = "" if self._context is None else self._context.output.live.text
        reply = AssistantMessage(text=partial.rstrip(), stop=StopReason.STOPPED)
        return self._end_as(
            TurnRowState.SUPERSEDED,
            reason=STOPPED_BY_USER,
            messages=(*self._open_call_results(), reply) if reply.text else None,
            by=self._stopped_by,
            deliveries=self._stop_deliveries,
            inbox_ends=(*superseded_ends(self.rows), *self._stop_ends),
        )

    def _end_as(
        self,
        state: TurnRowState,
        *,
        reason: str,
        inbox_ends: Iterable[InboxEnd],
        deliveries: Iterable[NewDelivery] = (),
        messages: Sequence[Message] | None = None,
        usage: Usage | None = None,
        by: str = "",
    ) -> EndTurn:
        """The end of the turn in this state. Without `messages`, each open call gets a result that
        describes what happened to it."""
        if messages is None:
            messages = self._open_call_results()
        return EndTurn(
            turn_id=self.turn_id,
            session_id=self.session_id,
            state=state,
            messages=tuple(messages),
            usage=self.usage if usage is None else usage,
            deliveries=tuple(deliveries),
            inbox_ends=tuple(inbox_ends),
            reason=reason,
            by=by,
            at=self._runtime.clock.now(),
        )

    def _open_call_results(self) -> Sequence[ToolMessage]:
        context = self._context
        if context is None:
            return interrupted_call_results(self._transcript, self.record.started_calls)
        return interrupted_call_results(context.agent.messages, context.log.started_calls)


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
