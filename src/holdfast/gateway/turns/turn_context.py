"""A turn while an agent runs it: the agent's port to the gateway (`TurnPort`), its steers and its
live view."""

from collections import deque
from collections.abc import Awaitable, Sequence
from typing import Protocol

from holdfast.agent.agent import Agent
from holdfast.agent.auxiliary import AuxiliaryClient
from holdfast.agent.turn_port import Parked, PendingCall
from holdfast.core.config.settings import Settings
from holdfast.core.errors import RunnerError
from holdfast.core.ids import CallId, InboxId, PrincipalId, SessionId, TurnId
from holdfast.core.jobs.job import JobPort
from holdfast.core.messages.admission import STEERED_NOTICE
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
from holdfast.core.people.memory import OwnerId, assigned_memory_owner
from holdfast.core.ports.sandbox import Sandbox
from holdfast.core.turns.external import Taint, TaintPolicy, foreign_taints
from holdfast.core.turns.model import AuxiliaryTask, Completed, FallbackUsed
from holdfast.core.turns.projection import open_calls
from holdfast.core.turns.subagent import INTERNAL_PLATFORM, Delegation
from holdfast.core.turns.tool import ToolOutput
from holdfast.core.turns.turn import OpenTurn, Usage
from holdfast.core.turns.turn_state import TurnState
from holdfast.gateway.agents.session_agents import SessionAgents
from holdfast.gateway.approvals.gate import ApprovalGate, AskingTurn
from holdfast.gateway.approvals.pending import PendingApprovals
from holdfast.gateway.turns.busy_notices import SendBusyNotice
from holdfast.gateway.turns.transcript_notes import session_owner, user_message
from holdfast.gateway.turns.turn_log import TurnLog
from holdfast.gateway.turns.turn_output import TurnOutput
from holdfast.gateway.turns.turn_tools import TurnTools


class NewTurnOutput(Protocol):
    """Makes the output of a turn (`TurnOutput`)."""

    def __call__(self, record: OpenTurn, *, resumed: bool) -> TurnOutput: ...


class SteerQueue(deque[InboxRow]):
    """The messages that people added to a running turn, oldest first, until it takes them. Also
    owns those that it has taken and that no model request contains yet."""

    def __init__(
        self,
        log: TurnLog,
        agent: Agent,
        *,
        send_busy_notice: SendBusyNotice,
        into: InboxId,
        shared: bool,
    ) -> None:
        super().__init__()
        self._log = log
        self._agent = agent
        self._send_busy_notice = send_busy_notice
        self._shared = shared  # several people speak in the session
        self._into = into  # the message whose answer also answers the steers
        self._written: dict[InboxId, InboxRow] = {}  # their writes are queued
        self._unconfirmed: list[InboxRow] = []

    def take_next(self) -> tuple[UserMessage, Awaitable[None]] | None:
        """Take the next message and queue its write. If the store refuses it, the message is the
        first in the queue again."""
        self._log.check_open()
        if not self:
            return None
        row = self.popleft()
        message = user_message(row, shared=self._shared)
        self._written[row.id] = row
        return message, self._log.record_steer(row.id, message, into=self._into)

    def notify_senders(self) -> None:
        """Tell the senders of steers that the model has their messages: a request contains them
        now."""
        rows, self._unconfirmed = self._unconfirmed, []
        for row in rows:
            self._send_busy_notice(
                row, STEERED_NOTICE, agent=self._agent, turn_id=self._log.turn_id
            )

    def on_committed(self, inbox_id: InboxId) -> None:
        self._unconfirmed.append(self._written.pop(inbox_id))

    def on_write_failed(self, inbox_id: InboxId) -> None:
        self.appendleft(self._written.pop(inbox_id))  # it is still queued, and runs next


_MAX_SCRIPT_LINES = 2000
_MAX_SCRIPT = 64_000  # characters


class TurnContext:
    """Owns everything of a turn that exists only while an agent runs it: its log, its steers, its
    live view, its trace, and what the agent reports about its work."""

    def __init__(
        self,
        record: OpenTurn,
        agent: Agent,
        *,
        log: TurnLog,
        settings: Settings,
        approvals: PendingApprovals,
        resumed: bool,
        agents: SessionAgents,
        tools: TurnTools,
        gate: ApprovalGate,
        send_busy_notice: SendBusyNotice,
        new_output: NewTurnOutput,
    ) -> None:
        self.agent = agent
        self.resumed = resumed  # an agent has run the turn before
        self.compacting = False
        self.fallback: FallbackUsed | None = None  # the model that has taken over, and why
        self.log = log
        self.crash_hook = log.crash_hook
        self.unresolved_calls = record.started_calls
        self.earlier_replies = record.model_steps
        self._rows = record.rows
        self._settings = settings  # as of the beginning of the turn
        self._agents = agents
        self._tools = tools
        self._gate = gate
        last = self._rows[-1]
        self.steers = SteerQueue(
            log,
            agent,
            send_busy_notice=send_busy_notice,
            into=last.id,
            shared=session_owner(last, settings.sessions) is None,
        )
        self.output = new_output(record, resumed=resumed)
        self.redact = self.output.redact
        if resumed:
            self._trace_approvals(approvals)
        self._approvals = approvals
        self._allowed_by: dict[CallId, str] = {}  # why each checked call may run

    def _trace_approvals(self, approvals: PendingApprovals) -> None:
        """Trace the approvals that the turn waited for and that have ended."""
        if self.output.trace is not None:
            open_ids = {call.id for call in open_calls(self.agent.messages)}
            self.output.trace.record_approval_waits(
                [each for each in approvals.all if each.call_id in open_ids and not each.pending]
            )

    @property
    def parking(self) -> bool:
        """Whether the agent stops at the next step boundary. In a marked turn it does, too: a step
        that began now would be cut."""
        return self.log.lifecycle.state in (TurnState.PARKING, TurnState.MARKED)

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
    def memory_owner(self) -> OwnerId | None:
        return assigned_memory_owner(self._rows[-1])

    @property
    def sandbox(self) -> Sandbox:
        return self._tools.sandbox(self.session_id, self._rows)

    @property
    def workspace(self) -> SessionId:
        subagent = self._rows[0].inbound.subagent
        return self.session_id if subagent is None else subagent.sandbox_session

    @property
    def delegation(self) -> Delegation:
        return self._tools.delegation(
            self.agent, self._rows[-1], self.turn_id, limits=self._settings.delegate
        )

    @property
    def jobs(self) -> JobPort:
        return self._tools.jobs(self.session_id, self._rows[-1])

    @property
    def sender(self) -> MessageSender:
        return self._tools.sender(
            self.session_id,
            self._rows[-1],
            self.turn_id,
            workspace=self.workspace,
            replies=self.log.replies,
        )

    @property
    def auxiliary(self) -> AuxiliaryClient:
        return self._tools.auxiliary

    @property
    def reasoning(self) -> str | None:
        """The reasoning effort: that of the last message that sets one, otherwise that of the
        config."""
        return self._rows[-1].inbound.effort or self._settings.agent.reasoning

    def emit(self, event: TurnEvent) -> None:
        if self.output.trace is not None:
            self.output.trace.on_event(event)
        self.output.publish(event)

    def model_call_started(self) -> None:
        if self.output.trace is not None:
            self.output.trace.model_call_started()
        self.steers.notify_senders()

    def model_call_completed(self, completed: Completed) -> None:
        if self.output.trace is not None:
            self.output.trace.model_call_completed(completed)

    @property
    def has_steers(self) -> bool:
        return bool(self.steers)

    def next_steer(self) -> tuple[UserMessage, Awaitable[None]] | None:
        return self.steers.take_next()

    def record_reply(
        self, message: AssistantMessage, usage: Usage, *, started: Sequence[CallId]
    ) -> Awaitable[None]:
        durable = self.log.record_reply(
            message, usage, started=started, allowed_by=self._permissions(started)
        )
        self.output.live.clear_reply()
        return durable

    def record_note(self, message: NoteMessage, usage: Usage) -> Awaitable[None]:
        return self.log.record_note(message, usage)

    def record_compaction(self, message: CompactionMessage, usage: Usage) -> Awaitable[None]:
        return self.log.record_compaction(message, usage)

    def record_calls_started(self, call_ids: Sequence[CallId]) -> Awaitable[None]:
        return self.log.record_calls_started(call_ids, allowed_by=self._permissions(call_ids))

    def _permissions(self, call_ids: Sequence[CallId]) -> dict[CallId, str]:
        """Why each of the calls that needed a decision may run."""
        return {call: self._allowed_by[call] for call in call_ids if call in self._allowed_by}

    def record_call_result(self, message: ToolMessage) -> Awaitable[None]:
        durable = self.log.record_call_result(message)
        self.output.live.remove_call(message.call_id)
        return durable

    def add_auxiliary_usage(self, task: AuxiliaryTask, usage: Usage) -> None:
        self.log.add_auxiliary_usage(task, usage)

    async def before_compaction(self, messages: Sequence[Message]) -> None:
        await self._agents.memory.pre_compact(self.session_id, messages)

    def model_fell_back(self, fallback: FallbackUsed) -> None:
        """A5: this agent answers until the end of the turn. The next agent is built anew, and asks
        the first model again."""
        self.fallback = fallback if self.fallback is None else self.fallback.followed_by(fallback)
        self._agents.drop(self.session_id)

    def may_run(self, call: PendingCall) -> bool:
        allowed_by = self._gate.allowed_without_asking(self._asking_turn(), call)
        if allowed_by is not None:
            self._allowed_by[call.call_id] = allowed_by
        return allowed_by is not None

    async def permit(self, call: PendingCall, later: Sequence[PendingCall]) -> ToolOutput | None:
        self.log.check_open()
        decision = await self._gate.check(self._asking_turn(), call, later)
        if isinstance(decision, ToolOutput):
            return decision
        if decision:
            self._allowed_by[call.call_id] = decision
        return None

    @property
    def tainted(self) -> bool:
        return bool(self.agent.taints) and bool(self._foreign_taints())

    async def may_contact(self, host: str) -> bool:
        return await self._gate.may_contact(self._asking_turn(), host)

    def _foreign_taints(self) -> tuple[Taint, ...]:
        """The external content that the turn must ask about."""
        if not self.agent.taints or self._taint_policy is TaintPolicy.OFF:
            return ()
        subagent = self._rows[-1].inbound.subagent
        person = self._rows[-1].principal if subagent is None else subagent.principal
        return foreign_taints(self.agent.taints, person)

    @property
    def _taint_policy(self) -> TaintPolicy:
        row = self._rows[-1]
        subagent = row.inbound.subagent
        chat = row.inbound.source if subagent is None else subagent.chat
        person = row.principal if subagent is None else subagent.principal
        platform, account = chat.platform, chat.account
        if platform == INTERNAL_PLATFORM:  # a run of a job: the account of its owner
            platform, account, *_ = (*person.split(":"), "", "")
        return self._settings.taint_policy(platform, account, person)

    def _asking_turn(self) -> AskingTurn:
        """Created for each call and not stored: it refers to this object, and such a cycle would
        keep all objects of the turn until the garbage collector runs."""
        return AskingTurn(
            session_id=self.session_id,
            turn_id=self.turn_id,
            row=self._rows[-1],
            approvals=self._approvals,
            settings=self._settings.approvals,
            find_process=self._find_process,
            read_script=self._read_script,
            taints=self._foreign_taints(),
            taint_policy=self._taint_policy,
            messages=self.agent.messages,
            check_may_ask=self._check_may_ask,
        )

    async def _find_process(self, process_id: str) -> str:
        """The command of a process of the sandbox; "" if it does not know it: writing to it then
        fails with the reason."""
        try:
            known = await self.sandbox.list_processes()
        except RunnerError:
            return ""
        return next((each.command for each in known if each.id == process_id), "")

    async def _read_script(self, path: str) -> str:
        """A file that a command would run, to be judged; "" if it is no text, or a long one."""
        try:
            found = await self.sandbox.read_file(path, limit=_MAX_SCRIPT_LINES)
        except RunnerError:
            return ""
        short = found.shown == found.total and len(found.text) <= _MAX_SCRIPT
        return found.text if short else ""

    def _check_may_ask(self) -> None:
        """Raise `Parked` if the gateway has marked the turn. A marked turn is about to be cut, and
        is counted as interrupted; a question after the mark would turn it into a waiting turn that
        was not cut."""
        self.log.check_open()
        if self.log.lifecycle.state is TurnState.MARKED:
            raise Parked
