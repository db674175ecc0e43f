"""A running turn: everything that exists only while it runs, in one object."""

import asyncio
from collections.abc import Sequence

from holdfast.agent.agent import Agent
from holdfast.agent.loop import run_turn
from holdfast.core.config.settings import Settings
from holdfast.core.ids import SessionId, TurnId
from holdfast.core.messages.admission import Running
from holdfast.core.messages.events import Event
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.message import ToolMessage
from holdfast.core.turns.model import Completed, FellBack
from holdfast.core.turns.projection import open_calls
from holdfast.core.turns.stop import LeftAs
from holdfast.core.turns.turn import BeginTurn, EndTurn, OpenTurn, TurnRow, TurnState, Usage
from holdfast.gateway.approvals.pending import TurnApprovals
from holdfast.gateway.live.live import LiveStep
from holdfast.gateway.live.screen import Screen
from holdfast.gateway.outbound.stream_factory import ended
from holdfast.gateway.services import House
from holdfast.gateway.turn_trace import TurnTrace
from holdfast.gateway.turns.outliving import die_with_us, runs_without_us
from holdfast.gateway.turns.steering import Steers
from holdfast.gateway.turns.transcribing import cut_results
from holdfast.gateway.turns.turn_context import TurnWork
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
        house: House,
        settings: Settings,
        approvals: TurnApprovals,
        resumed: OpenTurn | None = None,
        fallen: FellBack | None = None,
    ) -> None:
        self.agent = agent
        self.rows = tuple(rows)
        self.inbox_ids = tuple(row.id for row in rows)
        self.resumed = resumed
        self.interrupted = ""  # why somebody else than its user stopped it
        last = self.inbox_ids[-1]
        self._house = house
        self._approvals = approvals
        self._log = log = TurnLog(turn_id, agent, house=house, resumed=resumed)
        self.steers = Steers(log, agent, house=house, into=last)
        self._stream = house.streaming.of(
            self.rows[-1],
            session_id=agent.session_id,
            turn_id=turn_id,
            begun=resumed.stream if resumed else None,
        )
        self._screen = Screen(agent.session_id, last, house=house, stream=self._stream)
        self._trace = self._traced()
        self.work = TurnWork(
            agent,
            self.rows,
            house=house,
            log=log,
            steers=self.steers,
            screen=self._screen,
            settings=settings,
            approvals=approvals,
            fallen=fallen,
            trace=self._trace,
        )
        self._task: asyncio.Task[Completed] | None = None

    def _traced(self) -> TurnTrace | None:
        """One for this process's part of it, behind what people took their time for."""
        traces, resumed = self._house.traces, self.resumed
        if traces is None:
            return None
        if resumed is not None:
            unsettled = {call.id for call in open_calls(self.agent.messages)}
            asked = (each for each in self._approvals.all if each.call_id in unsettled)
            answered = [each for each in asked if not each.pending]
            traces.waited_for_people(self.inbox_ids[-1], answered)
        return TurnTrace(
            traces,
            self.rows,
            session_id=self.session_id,
            turn_id=self.turn_id,
            resumed=resumed is not None and not resumed.set_aside,
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
        return self._screen.live

    @property
    def fallen(self) -> FellBack | None:
        return self.work.fallen

    @property
    def running(self) -> Running:
        """The turn as admission sees it."""
        last = self.rows[-1]
        return Running(
            route=last.route,
            principal=last.principal,
            children=self._house.children.running(self.session_id),
            compacting=self.work.compacting,
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
        if self._house.traces is not None:
            self._house.traces.waited(self.rows, until=begin.at)

    async def has_begun(self) -> bool:
        """Whether the beginning is in the log."""
        return await self._log.has_begun()

    def start(self) -> asyncio.Task[Completed]:
        """Run the agent; whoever calls this awaits the task to its end."""
        running = run_turn(self.agent, self.work)
        self._task = asyncio.create_task(running, name=f"turn {self.turn_id}")
        if typist := self._house.streaming.typist(self.rows[-1]):
            typist.begin()
            self._task.add_done_callback(lambda _: typist.end())
        self.agent.lend(self.interrupt)
        self._task.add_done_callback(lambda _: self.agent.lend(None))
        return self._task

    def interrupt(self, reason: str) -> None:
        """Stop the agent: the turn ends as failed, and its user is told this reason."""
        self.interrupted = reason
        self.cancel()

    def cancel(self) -> None:
        """Stop the agent at its next await. Idempotent, and harmless before `start`."""
        if self._task is not None:
            self._task.cancel()

    def emit(self, event: Event) -> None:
        self._screen.show(event)

    def cut_calls(self) -> tuple[ToolMessage, ...]:
        return cut_results(self.agent.messages, self._log.started_calls)

    @property
    def left(self) -> LeftAs | None:
        """How it is left to a successor; None: it is not."""
        return self._log.left

    @property
    def leaving(self) -> asyncio.Future[None] | None:
        """Done when it is durable how it is left."""
        return self._log.leaving

    def park(self) -> None:
        """Stand at the next step boundary; one that stands at one already is left at once."""
        self.work.parking = True
        if runs_without_us(self.agent, self._log.started_calls):
            self.leave(LeftAs.PARKED)

    def leave(self, how: LeftAs) -> None:
        """See `TurnLog.leave`. What was said first holds: one that was marked is not parked. What
        its chat sees of it stands still: it goes on elsewhere."""
        if self._stream is not None:
            self._stream.close()
        if self.left is None:
            self._log.leave(how)
        else:
            self._log.cut()
        if self._trace is not None and self.closed:
            self._trace.left(how)

    def end(self, end: EndTurn) -> None:
        """Close the turn: `end` is on its way to the log, with the end of what it began to show."""
        if self._stream is not None:
            self._stream.close()
            end = ended(end, self._stream.as_begun, self.rows[-1])
        self._log.end(self._house.memory.owed(self.rows, end), then=self._when_ended)
        self._approvals.withdraw(at=end.at)
        self._screen.clear()

    def _when_ended(self, end: EndTurn) -> None:
        """That it has ended is durable."""
        if self._trace is not None:
            self._trace.ended(end)
        self._house.memory.turn_ended(self.rows, end)
        # Of one that goes on from before, the first word was said then, and nobody noted when.
        first_at = self._screen.first_at if self.resumed is None else None
        said = self.agent.messages
        self._house.tally.ended(end, started_at=self._log.started_at, first_at=first_at, said=said)

    async def ended(self) -> None:
        """Returns once what closed the turn is durable. After a failure, asking writes again."""
        await self._log.ended()

    def cut(self, reason: str, *, detached: bool) -> None:
        """The gateway interrupts it: the calls that die with it get their result, and the turn
        stays open. `detached`: what a successor can attach to lives on."""
        for result in die_with_us(self.agent, self._log.started_calls, detached=detached):
            writing = self._log.called(result)
            writing.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._log.cut()
        if self._trace is not None:
            self._trace.left("cut")
        self.agent.interrupt(reason)

    def set_aside(self) -> OpenTurn:
        """All that is needed to go on with a turn that stands at a step boundary and waits."""
        log, stream = self._log, self._stream
        if stream is not None:
            stream.close()
        if self._trace is not None:
            self._trace.left("waiting")
        row = TurnRow(
            id=self.turn_id,
            session_id=self.session_id,
            state=TurnState.OPEN,
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
            stream=None if stream is None else stream.as_begun,
            set_aside=True,
        )
