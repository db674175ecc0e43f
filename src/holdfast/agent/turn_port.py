"""A turn as the agent sees it: what it may read, and what it must write before it continues."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec

from holdfast.agent.auxiliary import AuxiliaryClient
from holdfast.core.crash_points import CrashHook
from holdfast.core.errors import TransientStoreError
from holdfast.core.ids import CallId, PrincipalId, SessionId, TurnId
from holdfast.core.jobs.job import JobPort
from holdfast.core.messages.events import TurnEvent
from holdfast.core.messages.outbox import MessageSender
from holdfast.core.messages.transcript import (
    AssistantMessage,
    CompactionMessage,
    Message,
    NoteMessage,
    ToolMessage,
    UserMessage,
)
from holdfast.core.people.memory import OwnerId
from holdfast.core.ports.sandbox import Sandbox
from holdfast.core.retry import STEP_RETRY
from holdfast.core.turns.external import Effect
from holdfast.core.turns.model import AuxiliaryTask, Completed, FallbackUsed
from holdfast.core.turns.subagent import Delegation
from holdfast.core.turns.tool import FileAccess, ToolOutput
from holdfast.core.turns.turn import Usage

log = logging.getLogger(__name__)


class PendingCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that has not started, with the command that it would run, the text that it would send
    to `chat` or write to `process`, what it would do with `file`, or the text of its `effect` in a
    tainted conversation."""

    call_id: CallId
    tool: str
    command: str
    chat: str | None = None
    process: str | None = None
    file: FileAccess | None = None
    effect: Effect | None = None
    runs_command: bool = True


class WaitingForApproval(Exception):
    """The turn continues when a person has decided. Everything it needs then is stored: the caller
    releases the agent, and later runs the turn again from there."""


class Parked(Exception):
    """The turn stopped at a step boundary, and continues in a successor process. Everything it
    needs then is stored."""


class TurnPort(Protocol):
    """The agent's access to its turn. Each method that writes queues its write when it is called
    and resumes once it is durable.

    The caller appends the message to the agent's buffer before it awaits: a cancel may then delay
    the write but cannot separate the buffer from the transcript.
    """

    @property
    def session_id(self) -> SessionId: ...
    @property
    def turn_id(self) -> TurnId: ...
    @property
    def principal(self) -> PrincipalId: ...
    @property
    def memory_owner(self) -> OwnerId | None:
        """The owner of the notes, if it is not that of the session."""
        ...

    @property
    def sandbox(self) -> Sandbox: ...
    @property
    def workspace(self) -> SessionId:
        """The session whose workspace the sandbox uses: a subagent uses its parent's."""
        ...

    @property
    def delegation(self) -> Delegation: ...
    @property
    def jobs(self) -> JobPort: ...
    @property
    def sender(self) -> MessageSender: ...
    @property
    def crash_hook(self) -> CrashHook: ...
    @property
    def unresolved_calls(self) -> frozenset[CallId]:
        """Calls that an earlier process started without recording a result."""
        ...

    @property
    def earlier_replies(self) -> int:
        """Model replies of this turn that an earlier process committed."""
        ...

    @property
    def tainted(self) -> bool:
        """Whether the conversation contains external content, and its policy is not `off`."""
        ...

    async def may_contact(self, host: str) -> bool:
        """Whether a running call may contact this host without asking a person."""
        ...

    @property
    def reasoning(self) -> str | None: ...
    @property
    def auxiliary(self) -> AuxiliaryClient: ...

    @property
    def parking(self) -> bool:
        """Whether to stop at the next step boundary: a successor continues."""
        ...

    compacting: bool  # a message that arrives meanwhile must not interrupt it

    def redact(self, text: str) -> str:
        """The text without the value of any secret."""
        ...

    def emit(self, event: TurnEvent) -> None: ...
    def model_call_started(self) -> None:
        """The model call begins; everything before it is stored."""
        ...

    def model_call_completed(self, completed: Completed) -> None:
        """The model has answered, and nothing of the answer is stored yet."""
        ...

    def record_reply(
        self, message: AssistantMessage, usage: Usage, *, started: Sequence[CallId]
    ) -> Awaitable[None]:
        """Write the reply and the start of these calls of it, in one commit."""
        ...

    def may_run(self, call: PendingCall) -> bool:
        """Whether `permit` would allow the call without asking a person; False if `permit` must be
        called."""
        ...

    async def permit(self, call: PendingCall, later: Sequence[PendingCall]) -> ToolOutput | None:
        """Check the permission of a call. None if it may run, otherwise the output that the model
        gets as its result.

        Raises `WaitingForApproval` if a person must decide and has been asked: about this call, and
        in the same message about those of the `later` calls that need approval, too.
        """
        ...

    def record_note(self, message: NoteMessage, usage: Usage) -> Awaitable[None]: ...
    def record_compaction(self, message: CompactionMessage, usage: Usage) -> Awaitable[None]: ...
    def add_auxiliary_usage(self, task: AuxiliaryTask, usage: Usage) -> None:
        """Count usage that belongs to no step of the turn. Returns before it is stored."""
        ...

    async def before_compaction(self, messages: Sequence[Message]) -> None:
        """Tell the memory providers which messages are about to be summarised."""
        ...

    def model_fell_back(self, event: FallbackUsed) -> None:
        """Record that another model has taken over the rest of the turn."""
        ...

    def record_calls_started(self, call_ids: Sequence[CallId]) -> Awaitable[None]: ...
    def record_call_result(self, message: ToolMessage) -> Awaitable[None]: ...
    @property
    def has_steers(self) -> bool:
        """Whether the user has sent steering messages that the turn has not taken."""
        ...

    def next_steer(self) -> tuple[UserMessage, Awaitable[None]] | None:
        """The oldest steering message of the user; its write is already queued."""
        ...


async def write_with_retry(write: Callable[[], Awaitable[None]], session_id: SessionId) -> None:
    """Return once what `write` writes is durable; `write` is called again for each attempt.

    Everything so far is stored, and the pending write is in memory, so a turn that waits here loses
    nothing, while a failed one would have to be requested again. Raises `StoreError` if waiting
    does not help, and whatever `write` raises for a turn that was ended meanwhile.
    """
    failures = 0
    while True:
        try:
            await write()
        except TransientStoreError as error:
            wait = STEP_RETRY.wait(failures)
            log.error(
                "Could not store a step of session %s: %s; retrying in %s s",
                session_id,
                error,
                wait,
                extra={"action": "step_waiting_for_store", "session": session_id},
            )
        else:
            return
        await asyncio.sleep(wait)
        failures += 1
