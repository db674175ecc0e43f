"""The writes of a turn while its agent runs: its beginning and each step, in this order."""

from collections.abc import Awaitable, Mapping, Sequence

from holdfast.agent.agent import Agent
from holdfast.core.crash_points import CrashPoint
from holdfast.core.errors import HoldfastError
from holdfast.core.ids import CallId, InboxId, SessionId
from holdfast.core.messages.transcript import (
    AssistantMessage,
    CompactionMessage,
    NoteMessage,
    ToolMessage,
    UserMessage,
)
from holdfast.core.ports.command import Command
from holdfast.core.ports.runtime import Runtime
from holdfast.core.ports.store import StoreWriter
from holdfast.core.ports.store_commands import (
    AddAuxiliaryUsage,
    RecordCallResult,
    RecordCallsStarted,
    RecordCompaction,
    RecordNote,
    RecordReply,
    RecordSteer,
)
from holdfast.core.turns.model import AuxiliaryTask
from holdfast.core.turns.turn import NO_USAGE, BeginTurn, OpenTurn, Usage
from holdfast.core.turns.turn_state import AGENT_STATES, TurnLifecycle


class TurnClosed(HoldfastError):
    """The turn has ended; it accepts no more writes."""


class TurnLog:
    """Owns how far a turn has come: its usage, its model replies and its running calls.

    Every method queues its write before it returns, so writes keep the order of the calls; the
    returned awaitable is done when the write is durable. The effect of a write on the counts is
    applied at once, because an end of the turn meanwhile needs them; `on_write_failed` reverts it.
    Only a turn that its agent runs writes here.
    """

    def __init__(
        self,
        record: OpenTurn,
        agent: Agent,
        *,
        lifecycle: TurnLifecycle,
        writes: StoreWriter,
        runtime: Runtime,
    ) -> None:
        self.turn_id = record.turn.id
        self.usage = record.usage
        self.replies = record.model_steps
        self.started_calls = set(record.started_calls)
        self.has_steps = record.model_steps > 0  # a turn that waited has steps of an earlier agent
        # The last write before the current reply, note or compaction; only one of these is under
        # way at a time.
        self._counted_before = self.usage, self.replies
        self._agent = agent
        self.crash_hook = runtime.crash
        self.lifecycle = lifecycle
        self._writes = writes
        self._clock = runtime.clock

    @property
    def session_id(self) -> SessionId:
        return self._agent.session_id

    def check_open(self) -> None:
        if self.lifecycle.state not in AGENT_STATES:
            raise TurnClosed("turn {turn_id} has ended", turn_id=self.turn_id)

    def begin(self, begin: BeginTurn) -> Awaitable[None]:
        """Open the turn without waiting, so that the model request starts while the disk works.

        Writes keep their order, so nothing of the turn is durable before its beginning is.
        """
        durable = self._write(begin)
        for message in begin.messages:
            self._agent.append(message)
        self.crash_hook(CrashPoint.TURN_BEGUN)
        return durable

    def record_reply(
        self,
        message: AssistantMessage,
        usage: Usage,
        *,
        started: Sequence[CallId],
        allowed_by: Mapping[CallId, str],
    ) -> Awaitable[None]:
        """Write the reply, and the start of the first calls that it contains."""
        self._count(usage, replies=1)
        self.started_calls.update(started)
        return self._write(
            RecordReply(
                turn_id=self.turn_id,
                session_id=self.session_id,
                message=message,
                usage=usage,
                started=started,
                allowed=allowed_by,
                at=self._clock.now(),
            )
        )

    def record_note(self, message: NoteMessage, usage: Usage) -> Awaitable[None]:
        self._count(usage)
        return self._write(
            RecordNote(
                turn_id=self.turn_id,
                session_id=self.session_id,
                message=message,
                usage=usage,
                at=self._clock.now(),
            )
        )

    def record_compaction(self, message: CompactionMessage, usage: Usage) -> Awaitable[None]:
        self._count(usage)
        return self._write(
            RecordCompaction(
                turn_id=self.turn_id,
                session_id=self.session_id,
                message=message,
                usage=usage,
                at=self._clock.now(),
            )
        )

    def record_steer(
        self, inbox_id: InboxId, message: UserMessage, *, into: InboxId
    ) -> Awaitable[None]:
        self.check_open()
        return self._write(
            RecordSteer(
                turn_id=self.turn_id,
                session_id=self.session_id,
                inbox_id=inbox_id,
                into=into,
                message=message,
                at=self._clock.now(),
            )
        )

    def record_calls_started(
        self, call_ids: Sequence[CallId], *, allowed_by: Mapping[CallId, str]
    ) -> Awaitable[None]:
        self.check_open()
        self.started_calls.update(call_ids)
        return self._write(
            RecordCallsStarted(
                turn_id=self.turn_id,
                session_id=self.session_id,
                call_ids=call_ids,
                allowed=allowed_by,
                at=self._clock.now(),
            )
        )

    def record_call_result(self, message: ToolMessage) -> Awaitable[None]:
        self.check_open()
        self.started_calls.discard(message.call_id)
        return self._write(
            RecordCallResult(
                turn_id=self.turn_id,
                session_id=self.session_id,
                message=message,
                at=self._clock.now(),
            )
        )

    def add_auxiliary_usage(self, task: AuxiliaryTask, usage: Usage) -> None:
        if usage != NO_USAGE:
            self._writes.write(
                AddAuxiliaryUsage(session_id=self.session_id, task=task, usage=usage)
            )

    def on_write_failed(self, command: Command[None]) -> None:
        """Revert what was counted: nothing of the command is stored, and it may be written
        again."""
        match command:
            case RecordReply(started=started):
                self.usage, self.replies = self._counted_before
                self.started_calls.difference_update(started)  # none of them runs
            case RecordNote() | RecordCompaction():
                self.usage, self.replies = self._counted_before
            case RecordCallsStarted(call_ids=call_ids):
                self.started_calls.difference_update(call_ids)  # none of them runs
            case RecordCallResult(message=message):
                self.started_calls.add(message.call_id)  # in the store, the call still runs

    def _count(self, usage: Usage, *, replies: int = 0) -> None:
        self.check_open()
        self._counted_before = self.usage, self.replies
        self.usage, self.replies = self.usage + usage, self.replies + replies

    def _write(self, command: Command[None]) -> Awaitable[None]:
        self._agent.active_at = self._clock.now()
        self.has_steps = self.has_steps or not isinstance(command, BeginTurn)
        return self._writes.write(command)
