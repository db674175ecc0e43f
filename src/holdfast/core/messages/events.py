"""What happens in a turn, as one tagged union that log, page, API and tests read."""

from math import ceil

import msgspec

from holdfast.core.ids import CallId, InboxId, SessionId, TurnId
from holdfast.core.messages.inbox import InboxState
from holdfast.core.messages.transcript import ToolOutcome
from holdfast.core.text.translation import N_, _
from holdfast.core.turns.model import ModelFault
from holdfast.core.turns.turn import Usage

_FAULT_TEXTS = {
    ModelFault.RATE_LIMIT: N_("The rate limit of the model is reached"),
    ModelFault.OVERLOADED: N_("The model is overloaded"),
    ModelFault.NETWORK: N_("The model cannot be reached"),
    ModelFault.TIMEOUT: N_("The model did not answer in time"),
    ModelFault.MALFORMED: N_("The model sent an incomplete or invalid answer"),
}
_OTHER_CAUSE = N_("The model's server reported an error")


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


class RetryScheduled(msgspec.Struct, frozen=True, tag="retry", gc=False):
    """A model call failed, and the next attempt begins after `delay` seconds. Follows
    `StreamVoided`; valid until the model sends something."""

    fault: ModelFault
    attempt: int  # the next one
    attempts: int  # at most
    delay: float

    def describe(self) -> str:
        """For a person, in the language of the context."""
        return _("{cause}; retrying in {seconds} s (attempt {attempt} of {attempts})").format(
            cause=_(_FAULT_TEXTS.get(self.fault, _OTHER_CAUSE)),
            seconds=ceil(self.delay),
            attempt=self.attempt,
            attempts=self.attempts,
        )


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
    | RetryScheduled
    | StepEnded
    | ToolStarted
    | ToolProgressed
    | ToolEnded
    | MessageEnded
)
