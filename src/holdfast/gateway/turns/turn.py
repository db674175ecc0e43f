"""A running turn: everything that exists only while it runs, in one object."""

import asyncio
from collections.abc import Sequence

from holdfast.agent.agent import Agent
from holdfast.agent.loop import run_turn
from holdfast.core.config.settings import Settings
from holdfast.core.ids import SessionId, TurnId
from holdfast.core.messages.admission import RunningTurn
from holdfast.core.messages.events import TurnEvent
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.transcript import ToolMessage
from holdfast.core.turns.model import Completed, FallbackUsed
from holdfast.core.turns.projection import open_calls
from holdfast.core.turns.stop import TurnExitReason
from holdfast.core.turns.turn import BeginTurn, EndTurn, OpenTurn, TurnRow, TurnRowState, Usage
from holdfast.gateway.approvals.pending import PendingApprovals
from holdfast.gateway.live.live_step import LiveStep, TurnBroadcast
from holdfast.gateway.outbound.stream_factory import with_stream_end
from holdfast.gateway.services import Services
from holdfast.gateway.tracing import TurnTrace
from holdfast.gateway.turns.steering import SteerQueue
from holdfast.gateway.turns.transcript_notes import (
    all_calls_detachable,
    interrupted_call_results,
    results_of_cancelled_calls,
)
from holdfast.gateway.turns.turn_context import TurnContext
from holdfast.gateway.turns.turn_log import TurnLog


class Turn:
    """Owns one turn from its first write to its last: the task of its agent, its log, its steers
    and its screen.

    `end` may be called by anyone at any instant: it closes the turn in one commit with
    whatever calls are open, and from then on the agent's own writes are refused.
    """

    def __init__(
        self,
        turn_id: TurnId,
        agent: Agent,
        rows: Sequence[InboxRow],
        *,
        services: Services,
        settings: Settings,
        approvals: PendingApprovals,
        resumed: OpenTurn | None = None,
        fallback: FallbackUsed | None = None,
    ) -> None:
        self.agent = agent
        self.rows = tuple(rows)
        self.inbox_ids = tuple(row.id for row in rows)
        self.resumed = resumed
        self.interrupt_reason = ""  # why somebody else than its user stopped it
        last = self.inbox_ids[-1]
        self._services = services
        self._approvals = approvals
        self._log = log = TurnLog(turn_id, agent, services=services, resumed=resumed)
        self.steers = SteerQueue(log, agent, services=services, into=last)
        self._stream = services.stream_factory.stream_for(
            self.rows[-1],
            session_id=agent.session_id,
            turn_id=turn_id,
            started=resumed.stream if resumed else None,
        )
        self._broadcast = TurnBroadcast(
            agent.session_id, last, services=services, stream=self._stream
        )
        self._trace = self._start_trace()
        self.context = TurnContext(
            agent,
            self.rows,
            services=services,
            log=log,
            steers=self.steers,
            broadcast=self._broadcast,
            settings=settings,
            approvals=approvals,
            fallback=fallback,
            trace=self._trace,
        )
        self._task: asyncio.Task[Completed] | None = None

    def _start_trace(self) -> TurnTrace | None:
        """One for this process's part of it, behind what people took their time for."""
        traces, resumed = self._services.tracer, self.resumed
        if traces is None:
            return None
        if resumed is not None:
            unsettled = {call.id for call in open_calls(self.agent.messages)}
            asked = (each for each in self._approvals.all if each.call_id in unsettled)
            answered = [each for each in asked if not each.pending]
            traces.record_approval_waits(self.inbox_ids[-1], answered)
        return TurnTrace(
            traces,
            self.rows,
            session_id=self.session_id,
            turn_id=self.turn_id,
            resumed=resumed is not None and not resumed.owned_by_this_process,
        )

    @property
    def task(self) -> asyncio.Task[Completed] | None:
        """What runs its agent, once it is started."""
        return self._task

    @property
    def turn_id(self) -> TurnId:
        return self._log.turn_id

    @property
    def session_id(self) -> SessionId:
        return self.agent.session_id

    @property
    def usage(self) -> Usage:
        return self._log.usage

    @property
    def step(self) -> int:
        """Which model reply it is at, counted from its beginning."""
        return self._log.replies + 1

    @property
    def started_at(self) -> float:
        return self._log.started_at

    @property
    def live(self) -> LiveStep:
        return self._broadcast.live

    @property
    def fallback(self) -> FallbackUsed | None:
        return self.context.fallback

    @property
    def admission_view(self) -> RunningTurn:
        """The turn as admission sees it."""
        last = self.rows[-1]
        return RunningTurn(
            route=last.route,
            principal=last.principal,
            subagents=self._services.subagents.awaited_count(self.session_id),
            compacting=self.context.compacting,
        )

    @property
    def closed(self) -> bool:
        """Ended, or cut by a gateway that stops: either way nothing more is written."""
        return self._log.closed

    @property
    def ending(self) -> EndTurn | None:
        """How it was closed, whether or not that is durable already."""
        return self._log.ending

    @property
    def answer(self) -> str | None:
        """What it answered; None: it has not, or ended in another way."""
        return None if self.ending is None else self.ending.answer

    def begin(self, begin: BeginTurn) -> None:
        """Open the turn, and do not wait for that; see `has_begun`."""
        self._log.begin(begin)
        if self._services.tracer is not None:
            self._services.tracer.record_wait(self.rows, until=begin.at)

    async def has_begun(self) -> bool:
        """Whether the beginning is in the log."""
        return await self._log.has_begun()

    def start(self) -> asyncio.Task[Completed]:
        """Run the agent; whoever calls this awaits the task to its end."""
        running = run_turn(self.agent, self.context)
        self._task = asyncio.create_task(running, name=f"turn {self.turn_id}")
        if indicator := self._services.stream_factory.typing_indicator_for(self.rows[-1]):
            indicator.start()
            self._task.add_done_callback(lambda _: indicator.stop())
        self.agent.set_interrupt(self.interrupt)
        self._task.add_done_callback(lambda _: self.agent.set_interrupt(None))
        return self._task

    def interrupt(self, reason: str) -> None:
        """Stop the agent: the turn ends as failed, and its user is told this reason."""
        self.interrupt_reason = reason
        self.cancel()

    def cancel(self) -> None:
        """Stop the agent at its next await. Idempotent, and harmless before `start`."""
        if self._task is not None:
            self._task.cancel()

    def emit(self, event: TurnEvent) -> None:
        self._broadcast.publish(event)

    def interrupted_call_results(self) -> tuple[ToolMessage, ...]:
        return interrupted_call_results(self.agent.messages, self._log.started_calls)

    @property
    def exit_reason(self) -> TurnExitReason | None:
        """How it is left to a successor; None: it is not."""
        return self._log.exit_reason

    @property
    def exit_write(self) -> asyncio.Future[None] | None:
        """Done when it is durable how it is left."""
        return self._log.exit_write

    def park(self) -> None:
        """Stand at the next step boundary; one that stands at one already is left at once."""
        self.context.parking = True
        if all_calls_detachable(self.agent, self._log.started_calls):
            self.leave(TurnExitReason.PARKED)

    def leave(self, reason: TurnExitReason) -> None:
        """See `TurnLog.leave`. What was said first holds: one that was marked is not parked. What
        its chat sees of it stands still: it goes on elsewhere."""
        if self._stream is not None:
            self._stream.close()
        if self.exit_reason is None:
            self._log.leave(reason)
        else:
            self._log.cut()
        if self._trace is not None and self.closed:
            self._trace.turn_left(reason)

    def end(self, end: EndTurn) -> None:
        """Close the turn: `end` is on its way to the log, with the end of what it began to show."""
        if self._stream is not None:
            self._stream.close()
            end = with_stream_end(end, self._stream.as_started, self.rows[-1])
        self._log.end(
            self._services.memory.with_memory_sync(self.rows, end), on_ended=self._on_ended
        )
        self._approvals.withdraw(at=end.at)
        self._broadcast.clear()

    def _on_ended(self, end: EndTurn) -> None:
        """That it has ended is durable."""
        if self._trace is not None:
            self._trace.turn_ended(end)
        self._services.memory.turn_ended(self.rows, end)
        # Of one that goes on from before, the first word was said then, and nobody noted when.
        first_at = self._broadcast.first_text_at if self.resumed is None else None
        messages = self.agent.messages
        self._services.counters.turn_ended(
            end, started_at=self._log.started_at, first_text_at=first_at, messages=messages
        )

    async def wait_ended(self) -> None:
        """Returns once what closed the turn is durable. After a failure, asking writes again."""
        await self._log.wait_ended()

    def cut(self, reason: str, *, detached: bool) -> None:
        """The gateway interrupts it: the calls that die with it get their result, and the turn
        stays open. `detached`: what a successor can attach to lives on."""
        for result in results_of_cancelled_calls(
            self.agent, self._log.started_calls, detached=detached
        ):
            writing = self._log.record_call_result(result)
            writing.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._log.cut()
        if self._trace is not None:
            self._trace.turn_left("cut")
        self.agent.interrupt(reason)

    def to_open_turn(self) -> OpenTurn:
        """All that is needed to go on with a turn that stands at a step boundary and waits."""
        log, stream = self._log, self._stream
        if stream is not None:
            stream.close()
        if self._trace is not None:
            self._trace.turn_left("waiting")
        row = TurnRow(
            id=self.turn_id,
            session_id=self.session_id,
            state=TurnRowState.OPEN,
            usage=log.usage,
            reason="",
            started_at=log.started_at,
            ended_at=None,
        )
        return OpenTurn(
            turn=row,
            rows=self.rows,
            started_calls=frozenset(log.started_calls),
            usage=log.usage,
            model_steps=log.replies,
            stream=None if stream is None else stream.as_started,
            owned_by_this_process=True,
        )
