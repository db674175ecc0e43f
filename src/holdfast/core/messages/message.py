"""The transcript: what was said and done in a session, in no provider's words."""

from enum import StrEnum

import msgspec

from holdfast.core.ids import CallId, TurnId


class Image(msgspec.Struct, frozen=True, kw_only=True, tag="image"):
    """A picture shown to the model: base64 data with its media type, or an address."""

    media_type: str = "image/png"
    data: str | None = None
    url: str | None = None


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    id: CallId
    name: str
    arguments: str  # JSON as the model wrote it; it may be malformed


class ToolOutcome(StrEnum):
    """What is known of a tool call."""

    OK = "ok"
    ERROR = "error"
    CANCELLED = "cancelled"  # started and cut: it may have had an effect
    NOT_STARTED = "not_started"
    UNKNOWN = "unknown"  # started; nobody knows how it ended
    REFUSED = "refused"  # never started: a rule or a person said no


class CallRecovery(StrEnum):
    """How a call that an earlier process had started came to its result."""

    ATTACHED = "attached"  # it had run on meanwhile
    REPLAYED = "replayed"  # it was run again


class Reasoning(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a model thought; `opaque` is the provider's own part, returned to it unchanged."""

    text: str = ""
    opaque: str | None = None


class StopReason(StrEnum):
    END = "end"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    FILTERED = "filtered"


class UserMessage(msgspec.Struct, frozen=True, kw_only=True, tag="user", omit_defaults=True):
    """`note` is ours and stands in front of the user's unchanged text when projected; `quoted` is
    what the text answers, each line of it marked as such; `documents`, what its files say, comes
    behind it, and no person reads it there."""

    text: str
    images: tuple[Image, ...] = ()
    speaker: str | None = None
    note: str | None = None
    quoted: str | None = None
    documents: str | None = None


class AssistantMessage(
    msgspec.Struct, frozen=True, kw_only=True, tag="assistant", omit_defaults=True
):
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    reasoning: tuple[Reasoning, ...] = ()
    model: str = ""
    stop: StopReason = StopReason.END


class ToolMessage(msgspec.Struct, frozen=True, kw_only=True, tag="tool", omit_defaults=True):
    """The result of one call. Its pictures are shown to the model behind all results. `taken_up`
    stands only where another process than the one that began it has brought it."""

    call_id: CallId
    name: str
    text: str
    outcome: ToolOutcome = ToolOutcome.OK
    images: tuple[Image, ...] = ()
    recovery: CallRecovery | None = None
    exit_code: int | None = None  # of a command that came to its end


class NoteMessage(msgspec.Struct, frozen=True, kw_only=True, tag="note"):
    """A system note that stands alone: no user's message carries it."""

    text: str

    @property
    def summary(self) -> str:
        """Its first sentence, for people: notes are written to the model."""
        inside = self.text.removeprefix("[System note: ").partition("]\n")[0]
        return inside.partition(". ")[0].rstrip(".]") + "."


class CompactionMessage(msgspec.Struct, frozen=True, kw_only=True, tag="compaction"):
    """A summary that stands for the first `covers` messages of the log when it is projected.

    Counted from the beginning, so that it means the same wherever in the log it stands: what
    was said while the summary was being made is neither in it nor hidden by it. The messages
    themselves stay in the log. The last of these counts.
    """

    text: str
    covers: int


Message = UserMessage | AssistantMessage | ToolMessage | NoteMessage | CompactionMessage


class TranscriptRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A message as the store keeps it: its place in the session and the turn that wrote it."""

    seq: int
    turn_id: TurnId | None
    message: Message
    created_at: float
    undone: bool = False  # its user took it back: it is kept, and no part of the conversation
