"""A turn while an agent runs it: what the agent sees (`TurnPort`), its steers and its live view."""

from collections import deque
from collections.abc import Awaitable, Sequence

from holdfast.agent.agent import Agent
from holdfast.agent.auxiliary import AuxiliaryClient
from holdfast.agent.turn_port import Parked, PendingCall
from holdfast.core.config.settings import Settings
from holdfast.core.crash_points import CrashHook
from holdfast.core.ids import CallId, InboxId, PrincipalId, SessionId, TurnId
from holdfast.core.jobs.job import JobPort
from holdfast.core.messages.admission import STEERED_NOTICE
from holdfast.core.messages.events import TurnEvent
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.outbox import MessageSender, StartedDelivery
from holdfast.core.messages.transcript import (
    AssistantMessage,
    CompactionMessage,
    Message,
    NoteMessage,
    ToolMessage,
    UserMessage,
)
from holdfast.core.ports.sandbox import Sandbox
from holdfast.core.ports.store_commands import AddAuxiliaryUsage
from holdfast.core.turns.model import AuxiliaryTask, Completed, FallbackUsed
from holdfast.core.turns.projection import open_calls
from holdfast.core.turns.subagent import Delegation
from holdfast.core.turns.tool import ToolOutput
from holdfast.core.turns.turn import NO_USAGE, OpenTurn, Usage
from holdfast.core.turns.turn_state import TurnLifecycle, TurnState
from holdfast.gateway.approvals.gate import ApprovalGate
from holdfast.gateway.approvals.pending import PendingApprovals
from holdfast.gateway.jobs.turn_jobs import TurnJobs
from holdfast.gateway.live.live_step import LiveStep, TurnBroadcast
from holdfast.gateway.notify.turn_sender import TurnSender
from holdfast.gateway.services import Services
from holdfast.gateway.subagents import DelegateService, delegation_requester
from holdfast.gateway.tracing import TurnTrace
from holdfast.gateway.turns.transcript_notes import user_message
from holdfast.gateway.turns.turn_log import TurnLog


class SteerQueue(deque[InboxRow]):
    """The messages that a person adds to a running turn, oldest first, until it takes them. Also
    owns those that it has taken and no model request has contained yet."""

    def __init__(self, log: TurnLog, agent: Agent, *, services: Services, into: InboxId) -> None:
        super().__init__()
        self._log = log
        self._agent = agent
        self._services = services
        self._into = into  # the message whose answer is theirs too
        self._written: dict[InboxId, InboxRow] = {}  # on their way to the store
        self._unconfirmed: list[InboxRow] = []

    def take_next(self) -> tuple[UserMessage, Awaitable[None]] | None:
        """The next message; its write is queued. One that the store refuses is the first again."""
        self._log.check_open()
        if not self:
            return None
        row = self.popleft()
        message = user_message(row)
        self._written[row.id] = row
        return message, self._log.record_steer(row.id, message, into=self._into)

    def notify_senders(self) -> None:
        """Tell the senders of steers that the model has them: a request contains them now."""
        rows, self._unconfirmed = self._unconfirmed, []
        for row in rows:
            self._services.busy_notices.send(
                row, STEERED_NOTICE, agent=self._agent, turn_id=self._log.turn_id
            )

    def on_committed(self, inbox_id: InboxId) -> None:
        self._unconfirmed.append(self._written.pop(inbox_id))

    def on_write_failed(self, inbox_id: InboxId) -> None:
        self.appendleft(self._written.pop(inbox_id))  # it is still queued, and runs next


class TurnContext:
    """Owns everything of a turn that exists only while an agent runs it: its log, its steers, its
    live view, its trace, and what the agent reports about its own work."""

    def __init__(
        self,
        record: OpenTurn,
        agent: Agent,
        *,
        lifecycle: TurnLifecycle,
        services: Services,
        settings: Settings,
        approvals: PendingApprovals,
        resumed: bool,
        fallback: FallbackUsed | None,
    ) -> None:
        self.agent = agent
        self.resumed = resumed  # an agent has run it before
        self.compacting = False
        self.fallback = fallback  # the model that has taken over, and why
        self.log = TurnLog(record, agent, lifecycle=lifecycle, services=services)
        self.unresolved_calls = record.started_calls
        self.earlier_replies = record.model_steps
        self._rows = record.rows
        self._services = services
        self._lifecycle = lifecycle
        self._settings = settings  # those that held when the turn began
        self._approvals = approvals
        last = self._rows[-1]
        self.steers = SteerQueue(self.log, agent, services=services, into=last.id)
        self.stream = services.stream_factory.stream_for(
            last, session_id=agent.session_id, turn_id=record.turn.id, started=record.stream
        )
        self.broadcast = TurnBroadcast(
            agent.session_id, last.id, services=services, stream=self.stream
        )
        self.trace = self._start_trace(record)
        self._allowed_by: dict[CallId, str] = {}  # why each call that was checked may run

    def _start_trace(self, record: OpenTurn) -> TurnTrace | None:
        """The trace of this run, after the spans of the approvals that it waited for."""
        tracer = self._services.tracer
        if tracer is None:
            return None
        if self.resumed:
            unsettled = {call.id for call in open_calls(self.agent.messages)}
            asked = (each for each in self._approvals.all if each.call_id in unsettled)
            answered = [each for each in asked if not each.pending]
            tracer.record_approval_waits(self._rows[-1].id, answered)
        return TurnTrace(
            tracer,
            self._rows,
            session_id=self.session_id,
            turn_id=self.turn_id,
            resumed=self.resumed and not record.owned_by_this_process,
        )

    @property
    def live(self) -> LiveStep:
        return self.broadcast.live

    @property
    def parking(self) -> bool:
        """The agent stops at the next step boundary. A marked turn does too: a step that began
        now would be cut."""
        return self._lifecycle.state in (TurnState.PARKING, TurnState.MARKED)

    def stop_showing(self) -> None:
        """The chat sees nothing more of it from this process, but the end of what it saw."""
        if self.stream is not None:
            self.stream.close()

    @property
    def started_stream(self) -> StartedDelivery | None:
        """What the chat has seen of the reply."""
        return None if self.stream is None else self.stream.as_started

    def trace_left(self, how: str) -> None:
        """Close the trace of a turn that does not end here."""
        if self.trace is not None:
            self.trace.turn_left(how)

    @property
    def session_id(self) -> SessionId:
        return self.agent.session_id

    @property
    def turn_id(self) -> TurnId:
        return self.log.turn_id

    @property
    def principal(self) -> PrincipalId:
        return self._rows[-1].principal

    @property
    def sandbox(self) -> Sandbox:
        subagent = self._rows[0].inbound.subagent
        if subagent is None:
            return self._services.sandbox(self.session_id)
        return self._services.sandbox(subagent.sandbox_session, shell=subagent.session_id)

    @property
    def workspace(self) -> SessionId:
        child = self._rows[0].inbound.subagent
        return self.session_id if child is None else child.sandbox_session

    @property
    def delegation(self) -> Delegation:
        tools = self.agent.toolbox.by_name.values()
        asker = delegation_requester(
            self._rows[-1],
            session_id=self.session_id,
            turn_id=self.turn_id,
            toolsets=list(dict.fromkeys(tool.toolset for tool in tools)),
        )
        return DelegateService(self._services.subagents, asker, limits=self._settings.delegate)

    @property
    def jobs(self) -> JobPort:
        services = self._services
        row, clock = self._rows[-1], services.clock
        return TurnJobs(services.jobs, row, self.session_id, store=services.store, clock=clock)

    @property
    def sender(self) -> MessageSender:
        return TurnSender(
            self._services,
            self._rows[-1],
            session_id=self.session_id,
            workspace=self.workspace,
            turn_id=self.turn_id,
            replies=self.log.replies,
        )

    @property
    def crash_hook(self) -> CrashHook:
        return self._services.crash

    @property
    def auxiliary(self) -> AuxiliaryClient:
        return self._services.auxiliary

    @property
    def reasoning(self) -> str | None:
        """By the message, else by the config; of several that are one turn, the last says."""
        return self._rows[-1].inbound.effort or self._settings.agent.reasoning

    def redact(self, text: str) -> str:
        return self._services.redact(text)

    def emit(self, event: TurnEvent) -> None:
        if self.trace is not None:
            self.trace.on_event(event)
        self.broadcast.publish(event)

    def model_call_started(self) -> None:
        if self.trace is not None:
            self.trace.model_call_started()
        self.steers.notify_senders()

    def model_call_completed(self, completed: Completed) -> None:
        if self.trace is not None:
            self.trace.model_call_completed(completed)

    def next_steer(self) -> tuple[UserMessage, Awaitable[None]] | None:
        return self.steers.take_next()

    def record_reply(
        self, message: AssistantMessage, usage: Usage, *, started: Sequence[CallId]
    ) -> Awaitable[None]:
        durable = self.log.record_reply(
            message, usage, started=started, allowed_by=self._permissions(started)
        )
        self.broadcast.live.clear_reply()
        return durable

    def record_note(self, message: NoteMessage, usage: Usage) -> Awaitable[None]:
        return self.log.record_note(message, usage)

    def record_compaction(self, message: CompactionMessage, usage: Usage) -> Awaitable[None]:
        return self.log.record_compaction(message, usage)

    def record_calls_started(self, call_ids: Sequence[CallId]) -> Awaitable[None]:
        return self.log.record_calls_started(call_ids, allowed_by=self._permissions(call_ids))

    def _permissions(self, call_ids: Sequence[CallId]) -> dict[CallId, str]:
        """By what those of the calls may run that needed a decision."""
        return {call: self._allowed_by[call] for call in call_ids if call in self._allowed_by}

    def record_call_result(self, message: ToolMessage) -> Awaitable[None]:
        durable = self.log.record_call_result(message)
        self.broadcast.live.remove_call(message.call_id)
        return durable

    def add_auxiliary_usage(self, task: AuxiliaryTask, usage: Usage) -> None:
        if usage != NO_USAGE:
            self._services.store.write(
                AddAuxiliaryUsage(session_id=self.session_id, task=task, usage=usage)
            )

    async def before_compaction(self, messages: Sequence[Message]) -> None:
        await self._services.memory.pre_compact(self.session_id, messages)

    def model_fell_back(self, fallback: FallbackUsed) -> None:
        """A5: this agent answers to the end of the turn; the next is built anew, and asks the
        first model again."""
        self.fallback = (
            fallback if self.fallback is None else FallbackUsed(self.fallback.why, fallback.model)
        )
        self._services.cache.drop(self.session_id)

    def may_run(self, call: PendingCall) -> bool:
        allowed_by = self._approval_gate().allowed_without_asking(call)
        if allowed_by is not None:
            self._allowed_by[call.call_id] = allowed_by
        return allowed_by is not None

    async def permit(self, call: PendingCall, later: Sequence[PendingCall]) -> ToolOutput | None:
        self.log.check_open()
        gate = self._approval_gate()
        refusal = await gate.check(call, later)
        if gate.allowed_by:
            self._allowed_by[call.call_id] = gate.allowed_by
        return refusal

    def _approval_gate(self) -> ApprovalGate:
        return ApprovalGate(
            self._services,
            self._approvals,
            session_id=self.session_id,
            turn_id=self.turn_id,
            row=self._rows[-1],
            settings=self._settings.approvals,
            check_may_ask=self._check_may_ask,
        )

    def _check_may_ask(self) -> None:
        """Raises where the gateway has marked the turn: it is about to be cut, and is counted as
        interrupted. A question after that mark would make it a waiting turn that was not cut."""
        self.log.check_open()
        if self._lifecycle.state is TurnState.MARKED:
            raise Parked
