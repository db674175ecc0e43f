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
from holdfast.core.ports.sandbox import Sandbox
from holdfast.core.turns.model import AuxiliaryTask, Completed, FallbackUsed
from holdfast.core.turns.subagent import Delegation
from holdfast.core.turns.tool import ToolOutput
from holdfast.core.turns.turn import Usage

log = logging.getLogger(__name__)


class PendingCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that is not started yet, and the command it would run; or the words that it would
    bring `to` a chat."""

    call_id: CallId
    tool: str
    command: str
    chat: str | None = None


class WaitingForApproval(Exception):
    """The turn goes on when a person has spoken. All that it needs then is in the log: whoever
    runs it lets the agent go, and runs the turn again from there."""


class Parked(Exception):
    """The turn stands at a step boundary, and goes on in a successor. All that it needs then is
    in the log."""


class TurnPort(Protocol):
    """Each method that writes queues its write when it is called and resumes once it is durable.

    The caller appends the message to the agent's buffer in the same breath, before it awaits:
    a cancel may then delay the write but not part the buffer from the log.
    """

    @property
    def session_id(self) -> SessionId: ...
    @property
    def turn_id(self) -> TurnId: ...
    @property
    def principal(self) -> PrincipalId: ...
    @property
    def sandbox(self) -> Sandbox: ...
    @property
    def workspace(self) -> SessionId:
        """Whose workspace the bench has: a child's is its conversation's."""
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
        """Calls that an earlier process started and recorded no result of."""
        ...

    @property
    def earlier_replies(self) -> int:
        """Model replies of this turn that an earlier process committed."""
        ...

    @property
    def reasoning(self) -> str | None: ...
    @property
    def auxiliary(self) -> AuxiliaryClient: ...

    parking: bool  # the next step is a successor's: stand at the next boundary
    compacting: bool  # a message that comes meanwhile must not cut it short

    def redact(self, text: str) -> str:
        """The text without the value of any secret."""
        ...

    def emit(self, event: TurnEvent) -> None: ...
    def model_call_started(self) -> None:
        """The model is asked now, with everything that was kept so far."""
        ...

    def model_call_completed(self, completed: Completed) -> None:
        """It has answered; nothing of that is kept yet."""
        ...

    def record_reply(self, message: AssistantMessage, usage: Usage) -> Awaitable[None]: ...
    async def permit(self, call: PendingCall, later: Sequence[PendingCall]) -> ToolOutput | None:
        """None: it may run. Else what the model is told instead of a result.

        Raises `Waiting` where a person is to say so, and has been asked: about this one, and in
        the same message about those of the `later` wishes that need it too.
        """
        ...

    def record_note(self, message: NoteMessage, usage: Usage) -> Awaitable[None]: ...
    def record_compaction(self, message: CompactionMessage, usage: Usage) -> Awaitable[None]: ...
    def add_auxiliary_usage(self, task: AuxiliaryTask, usage: Usage) -> None:
        """Used for nothing: no step of the turn tells of it, so it is counted beside. Nobody
        waits for that."""
        ...

    async def before_compaction(self, messages: Sequence[Message]) -> None:
        """Whoever keeps a memory of its own hears what is about to be summarised."""
        ...

    def model_fell_back(self, event: FallbackUsed) -> None:
        """Another model has taken the rest of the turn over."""
        ...

    def record_calls_started(self, call_ids: Sequence[CallId]) -> Awaitable[None]: ...
    def record_call_result(self, message: ToolMessage) -> Awaitable[None]: ...
    def next_steer(self) -> tuple[UserMessage, Awaitable[None]] | None:
        """What the user added meanwhile, oldest first, already on its way to the log."""
        ...


FIRST_RETRY_DELAY, MAX_RETRY_DELAY = 0.5, 10.0  # seconds before a store that failed is asked again


async def write_with_retry(write: Callable[[], Awaitable[None]], session_id: SessionId) -> None:
    """Returns once what `write` writes is durable; it is called anew for each try.

    What was said and done so far is in the log, and what is being written is in memory: a turn
    that waits here has lost nothing, and one that failed would have to be asked for again. Raises
    `StoreError` where waiting does not help, and whatever `write` raises of a turn that somebody
    has ended meanwhile.
    """
    wait = FIRST_RETRY_DELAY
    while True:
        try:
            await write()
        except TransientStoreError as error:
            log.error(
                "A step of session %s waits for the store: %s",
                session_id,
                error,
                extra={"action": "step_waiting_for_store", "session": session_id},
            )
        else:
            return
        await asyncio.sleep(wait)
        wait = min(wait * 2, MAX_RETRY_DELAY)
