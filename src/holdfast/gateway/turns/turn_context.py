"""A running turn as its agent sees it: the implementation of the agent's turn context port."""

import asyncio
from collections.abc import Awaitable, Sequence

from holdfast.agent.agent import Agent
from holdfast.agent.auxiliary import AuxiliaryClient
from holdfast.agent.turn_port import Parked, PendingCall
from holdfast.core.config.settings import Settings
from holdfast.core.crash_points import CrashHook
from holdfast.core.ids import CallId, PrincipalId, SessionId, TurnId
from holdfast.core.jobs.job import JobPort
from holdfast.core.messages.events import TurnEvent
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.outbox import MessageSender
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
from holdfast.core.turns.subagent import Delegation
from holdfast.core.turns.tool import ToolOutput
from holdfast.core.turns.turn import NO_USAGE, Usage
from holdfast.gateway.approvals.gate import ApprovalGate
from holdfast.gateway.approvals.pending import PendingApprovals
from holdfast.gateway.jobs.turn_jobs import TurnJobs
from holdfast.gateway.live.live_step import TurnBroadcast
from holdfast.gateway.notify.turn_sender import TurnSender
from holdfast.gateway.services import Services
from holdfast.gateway.subagents import DelegateService, delegation_requester
from holdfast.gateway.tracing import TurnTrace
from holdfast.gateway.turns.steering import SteerQueue
from holdfast.gateway.turns.turn_log import TurnLog


class TurnContext:
    """Owns what the agent says of its own work: that it sums up, that another model has taken
    over. All else it hands on to the log, the steers and the screen of the turn."""

    def __init__(
        self,
        agent: Agent,
        rows: Sequence[InboxRow],
        *,
        services: Services,
        log: TurnLog,
        steers: SteerQueue,
        broadcast: TurnBroadcast,
        settings: Settings,
        approvals: PendingApprovals,
        fallback: FallbackUsed | None,
        trace: TurnTrace | None = None,
    ) -> None:
        self._trace = trace
        self.parking = False
        self.compacting = False
        self.fallback = fallback  # why, and to whom, the first model gave the turn
        self.unresolved_calls = frozenset(log.started_calls)
        self.earlier_replies = log.replies
        self._agent = agent
        self._rows = rows
        self._services = services
        self._settings = settings  # those that held when the turn began
        self._log = log
        self._steers = steers
        self._broadcast = broadcast
        self._approvals = approvals
        self._allowed_by: dict[CallId, str] = {}  # by what those may run that were judged

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
        tools = self._agent.toolbox.by_name.values()
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
            replies=self._log.replies,
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
        if self._trace is not None:
            self._trace.on_event(event)
        self._broadcast.publish(event)

    def model_call_started(self) -> None:
        if self._trace is not None:
            self._trace.model_call_started()
        self._steers.notify_senders()

    def model_call_completed(self, completed: Completed) -> None:
        if self._trace is not None:
            self._trace.model_call_completed(completed)

    def next_steer(self) -> tuple[UserMessage, Awaitable[None]] | None:
        return self._steers.take_next()

    def record_reply(self, message: AssistantMessage, usage: Usage) -> Awaitable[None]:
        durable = self._log.record_reply(message, usage)
        self._broadcast.live.clear_reply()
        return durable

    def record_note(self, message: NoteMessage, usage: Usage) -> Awaitable[None]:
        return self._log.record_note(message, usage)

    def record_compaction(self, message: CompactionMessage, usage: Usage) -> Awaitable[None]:
        return self._log.record_compaction(message, usage)

    def record_calls_started(self, call_ids: Sequence[CallId]) -> Awaitable[None]:
        allowed = {call: self._allowed_by[call] for call in call_ids if call in self._allowed_by}
        return self._log.record_calls_started(call_ids, allowed_by=allowed)

    def record_call_result(self, message: ToolMessage) -> Awaitable[None]:
        durable = self._log.record_call_result(message)
        self._broadcast.live.remove_call(message.call_id)
        return durable

    def add_auxiliary_usage(self, task: AuxiliaryTask, usage: Usage) -> None:
        if usage != NO_USAGE:
            counting = self._services.store.write(
                AddAuxiliaryUsage(session_id=self.session_id, task=task, usage=usage)
            )
            done = asyncio.ensure_future(counting)
            done.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def before_compaction(self, messages: Sequence[Message]) -> None:
        await self._services.memory.pre_compact(self.session_id, messages)

    def model_fell_back(self, fallback: FallbackUsed) -> None:
        """A5: this agent answers to the end of the turn; the next is built anew, and asks the
        first model again."""
        self.fallback = (
            fallback if self.fallback is None else FallbackUsed(self.fallback.why, fallback.model)
        )
        self._services.cache.drop(self.session_id)

    async def permit(self, call: PendingCall, later: Sequence[PendingCall]) -> ToolOutput | None:
        self._log.check_open()
        permission = ApprovalGate(
            self._services,
            self._approvals,
            session_id=self.session_id,
            turn_id=self.turn_id,
            row=self._rows[-1],
            settings=self._settings.approvals,
            check_may_ask=self._check_may_ask,
        )
        refusal = await permission.check(call, later)
        if permission.allowed_by:
            self._allowed_by[call.call_id] = permission.allowed_by
        return refusal

    def _check_may_ask(self) -> None:
        """Raises where the gateway has marked the turn: it is about to be cut, and counted so. A
        question behind that mark would make it one that waits, and was not cut at all."""
        self._log.check_open()
        if self._log.exit_reason is not None:
            raise Parked
