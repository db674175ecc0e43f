"""What happens in a turn, as one tagged union that log, page, API and tests read."""

import msgspec

from holdfast.core.ids import CallId, InboxId, SessionId, TurnId
from holdfast.core.messages.inbox import InboxState
from holdfast.core.messages.transcript import ToolOutcome
from holdfast.core.turns.turn import Usage


class TurnStarted(msgspec.Struct, frozen=True, tag="turn_started", gc=False):
    session_id: SessionId
    turn_id: TurnId
    resumed: bool


class TextStreamed(msgspec.Struct, frozen=True, tag="text", gc=False):
    """A piece of the text that the model writes in the current step."""

    text: str


class ReasoningStreamed(msgspec.Struct, frozen=True, tag="reasoning", gc=False):
    text: str


class StreamVoided(msgspec.Struct, frozen=True, tag="voided", gc=False):
    """The text streamed in this step is void: the call is repeated, or was cut by a restart."""

    why: str


class StepEnded(msgspec.Struct, frozen=True, tag="step", gc=False):
    """A model reply that contains tool calls is committed, so the streamed text was not the final
    one."""

    text: str


class ToolStarted(msgspec.Struct, frozen=True, tag="tool_began", gc=False):
    call_id: CallId
    name: str
    arguments: str


class ToolProgressed(msgspec.Struct, frozen=True, tag="tool_progress", gc=False):
    call_id: CallId
    text: str


class ToolEnded(msgspec.Struct, frozen=True, tag="tool_ended", gc=False):
    call_id: CallId
    name: str
    outcome: ToolOutcome
    text: str


class MessageEnded(msgspec.Struct, frozen=True, tag="ended"):
    """The visible end of an inbox row and the text for its sender; always the last event."""

    inbox_id: InboxId
    state: InboxState
    text: str
    turn_id: TurnId | None = None
    session_id: SessionId | None = None
    usage: Usage = Usage()
    reason: str = ""


TurnEvent = (
    TurnStarted
    | TextStreamed
    | ReasoningStreamed
    | StreamVoided
    | StepEnded
    | ToolStarted
    | ToolProgressed
    | ToolEnded
    | MessageEnded
)
