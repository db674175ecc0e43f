"""A running turn as its agent sees it: what `agent.work.Work` promises, kept."""

import asyncio
from collections.abc import Awaitable, Sequence

from holdfast.agent.agent import Agent
from holdfast.agent.auxiliary import Auxiliary
from holdfast.agent.work import Parked, Wish
from holdfast.core.config.settings import Settings
from holdfast.core.crash_points import Crash
from holdfast.core.ids import CallId, PrincipalId, SessionId, TurnId
from holdfast.core.jobs.job import Scheduling
from holdfast.core.messages.events import Event
from holdfast.core.messages.handing import Handing
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.message import (
    AssistantMessage,
    CompactionMessage,
    Message,
    NoteMessage,
    ToolMessage,
    UserMessage,
)
from holdfast.core.ports.sandbox import Bench
from holdfast.core.turns.auxiliary import Errand
from holdfast.core.turns.model import Completed, FellBack
from holdfast.core.turns.subagent import Delegation
from holdfast.core.turns.tool import ToolOutput
from holdfast.core.turns.turn import NO_USAGE, Usage
from holdfast.gateway.approvals.gate import Permission
from holdfast.gateway.approvals.pending import TurnApprovals
from holdfast.gateway.delegating import Delegating, asker_of
from holdfast.gateway.jobs.scheduling import TurnJobs
from holdfast.gateway.live.screen import Screen
from holdfast.gateway.notify.turn_sender import TurnHanding
from holdfast.gateway.services import House
from holdfast.gateway.turn_trace import TurnTrace
from holdfast.gateway.turns.steering import Steers
from holdfast.gateway.turns.turn_log import TurnLog


class TurnWork:
    """Owns what the agent says of its own work: that it sums up, that another model has taken
    over. All else it hands on to the log, the steers and the screen of the turn."""

    def __init__(
        self,
        agent: Agent,
        rows: Sequence[InboxRow],
        *,
        house: House,
        log: TurnLog,
        steers: Steers,
        screen: Screen,
        settings: Settings,
        approvals: TurnApprovals,
        fallen: FellBack | None,
        trace: TurnTrace | None = None,
    ) -> None:
        self._trace = trace
        self.parking = False
        self.compacting = False
        self.fallen = fallen  # why, and to whom, the first model gave the turn
        self.unsettled = frozenset(log.started_calls)
        self.replies_before = log.replies
        self._agent = agent
        self._rows = rows
        self._house = house
        self._settings = settings  # those that held when the turn began
        self._log = log
        self._steers = steers
        self._screen = screen
        self._approvals = approvals
        self._allowed: dict[CallId, str] = {}  # by what those may run that were judged

    @property
    def session_id(self) -> SessionId:
        return self._agent.session_id

    @property
    def turn_id(self) -> TurnId:
        return self._log.turn_id

    @property
    def principal(self) -> PrincipalId:
        return self._rows[-1].principal

    @property
    def bench(self) -> Bench:
        child = self._rows[0].inbound.child
        if child is None:
            return self._house.bench(self.session_id)
        return self._house.bench(child.bench, shell=child.session_id)

    @property
    def workspace(self) -> SessionId:
        child = self._rows[0].inbound.child
        return self.session_id if child is None else child.bench

    @property
    def delegation(self) -> Delegation:
        tools = self._agent.toolbox.by_name.values()
        asker = asker_of(
            self._rows[-1],
            session_id=self.session_id,
            turn_id=self.turn_id,
            toolsets=list(dict.fromkeys(tool.toolset for tool in tools)),
        )
        return Delegating(self._house.children, asker, limits=self._settings.delegate)

    @property
    def scheduling(self) -> Scheduling:
        house = self._house
        row, clock = self._rows[-1], house.clock
        return TurnJobs(house.jobs, row, self.session_id, store=house.store, clock=clock)

    @property
    def handing(self) -> Handing:
        return TurnHanding(
            self._house,
            self._rows[-1],
            session_id=self.session_id,
            workspace=self.workspace,
            turn_id=self.turn_id,
            replies=self._log.replies,
        )

    @property
    def crash(self) -> Crash:
        return self._house.crash

    @property
    def auxiliary(self) -> Auxiliary:
        return self._house.auxiliary

    @property
    def reasoning(self) -> str | None:
        """By the message, else by the config; of several that are one turn, the last says."""
        return self._rows[-1].inbound.effort or self._settings.agent.reasoning

    def redact(self, text: str) -> str:
        return self._house.redact(text)

    def emit(self, event: Event) -> None:
        if self._trace is not None:
            self._trace.saw(event)
        self._screen.show(event)

    def asking(self) -> None:
        if self._trace is not None:
            self._trace.asking()
        self._steers.told()

    def heard(self, completed: Completed) -> None:
        if self._trace is not None:
            self._trace.heard(completed)

    def next_steer(self) -> tuple[UserMessage, Awaitable[None]] | None:
        return self._steers.take()

    def replied(self, message: AssistantMessage, usage: Usage) -> Awaitable[None]:
        durable = self._log.replied(message, usage)
        self._screen.live.replied()
        return durable

    def noted(self, message: NoteMessage, usage: Usage) -> Awaitable[None]:
        return self._log.noted(message, usage)

    def compacted(self, message: CompactionMessage, usage: Usage) -> Awaitable[None]:
        return self._log.compacted(message, usage)

    def calling(self, call_ids: Sequence[CallId]) -> Awaitable[None]:
        allowed = {call: self._allowed[call] for call in call_ids if call in self._allowed}
        return self._log.calling(call_ids, allowed=allowed)

    def called(self, message: ToolMessage) -> Awaitable[None]:
        durable = self._log.called(message)
        self._screen.live.called(message.call_id)
        return durable

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
        self._log.must_be_open()
        permission = Permission(
            self._house,
            self._approvals,
            session_id=self.session_id,
            turn_id=self.turn_id,
            row=self._rows[-1],
            settings=self._settings.approvals,
            may_ask=self._may_ask,
        )
        refusal = await permission.of(wish, later)
        if permission.allowed:
            self._allowed[wish.call_id] = permission.allowed
        return refusal

    def _may_ask(self) -> None:
        """Raises where the gateway has marked the turn: it is about to be cut, and counted so. A
        question behind that mark would make it one that waits, and was not cut at all."""
        self._log.must_be_open()
        if self._log.left is not None:
            raise Parked
