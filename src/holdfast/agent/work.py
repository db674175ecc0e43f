"""A turn as the agent sees it: what it may read, and what it must write before it goes on."""

from collections.abc import Awaitable, Sequence
from typing import Protocol

from holdfast.core.bench import Bench
from holdfast.core.crash import Crash
from holdfast.core.events import Event
from holdfast.core.ids import CallId, PrincipalId, SessionId, TurnId
from holdfast.core.message import AssistantMessage, ToolMessage, UserMessage
from holdfast.core.turn import Usage


class Work(Protocol):
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
    def bench(self) -> Bench: ...
    @property
    def crash(self) -> Crash: ...
    @property
    def unsettled(self) -> frozenset[CallId]:
        """Calls that an earlier process started and recorded no result of."""
        ...

    @property
    def replies_before(self) -> int:
        """Model replies of this turn that an earlier process committed."""
        ...

    @property
    def reasoning(self) -> str | None: ...
    def redact(self, text: str) -> str:
        """The text without the value of any secret."""
        ...

    def emit(self, event: Event) -> None: ...
    def replied(self, message: AssistantMessage, usage: Usage) -> Awaitable[None]: ...
    def calling(self, call_ids: Sequence[CallId]) -> Awaitable[None]: ...
    def called(self, message: ToolMessage) -> Awaitable[None]: ...
    def next_steer(self) -> tuple[UserMessage, Awaitable[None]] | None:
        """What the user added meanwhile, oldest first, already on its way to the log."""
        ...
