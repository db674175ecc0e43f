"""The transcript of a session, independent of any model provider's format."""

import base64
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from holdfast.core.ids import CallId, TurnId


# MERGED holdfast.core.messages.message: The transcript: what was said and done in a session, in no provider's words.
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
    """The result of one call. Its pictures are shown to the model behind all results. `recovery`
    is set only where another process than the one that began it has brought it; stored as `taken_up`."""

    call_id: CallId
    name: str
    text: str
    outcome: ToolOutcome = ToolOutcome.OK
    images: tuple[Image, ...] = ()
    recovery: CallRecovery | None = msgspec.field(name="taken_up", default=None)
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


# MERGED holdfast.core.messages.exchanges: Exchanges: a transcript by what was asked in it, each with all that it led to.
class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """What was said, from the seq at which it begins to where the next one does."""

    from_seq: int
    user_messages: tuple[UserMessage, ...]


def split_exchanges(records: Sequence[TranscriptRecord]) -> list[Exchange]:
    """Oldest first. What no person began (a note, a summary) belongs to what went before it."""
    return [
        Exchange(from_seq=part[0].seq, user_messages=said)
        for part in _group_by_turn(records)
        if (said := _opening_messages(part))
    ]


def _group_by_turn(records: Sequence[TranscriptRecord]) -> Iterator[list[TranscriptRecord]]:
    """The records of each turn; where they name none, as after an import, from one question to
    the next."""
    part: list[TranscriptRecord] = []
    for record in records:
        if part and _starts_group(record, part[-1]):
            yield part
            part = []
        part.append(record)
    if part:
        yield part


def _starts_group(record: TranscriptRecord, before: TranscriptRecord) -> bool:
    if record.turn_id is not None or before.turn_id is not None:
        return record.turn_id != before.turn_id
    asked = isinstance(record.message, UserMessage)
    return asked and not isinstance(before.message, UserMessage)


def _opening_messages(part: Sequence[TranscriptRecord]) -> tuple[UserMessage, ...]:
    """What a part begins with; what came later was said into it."""
    said: list[UserMessage] = []
    for record in part:
        if isinstance(record.message, AssistantMessage):
            break
        if isinstance(record.message, UserMessage):
            said.append(record.message)
    return tuple(said)


# MERGED holdfast.core.messages.call_line: A tool call on one line: what was called, with the argument that tells most.
_KEY_ARGUMENTS = ("command", "path", "url", "pattern", "query", "id", "text")
_MAX_LINE_LENGTH = 200


def summarise_arguments(arguments: str) -> str:
    """What a call is about; "" where its arguments tell nothing."""
    try:
        given = msgspec.json.decode(arguments or "{}")
    except msgspec.DecodeError:
        return _first_line(arguments)
    if not isinstance(given, dict):
        return _first_line(arguments)
    if isinstance(given.get("tasks"), list):
        return _first_line(" · ".join(_task_text(each) for each in given["tasks"]))
    telling = [str(given[name]) for name in _KEY_ARGUMENTS if given.get(name)]
    action = [str(given.pop("action"))] if given.get("action") else []
    return _first_line(" ".join([*action, *(telling[:1] or _scalar_values(given))]))


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    first = lines[0][:_MAX_LINE_LENGTH] if lines else ""
    return f"{first} …" if len(lines) > 1 else first


def _scalar_values(given: dict[str, Any]) -> list[str]:
    return [str(value) for value in given.values() if isinstance(value, str | int | float)][:2]


def _task_text(task: object) -> str:
    return str(task.get("task", "")) if isinstance(task, dict) else str(task)


# MERGED holdfast.core.messages.pictures: Pictures: which files a model can be shown, told by their bytes.
MAX_IMAGE_BYTES = 8 * 1024 * 1024  # bytes; a larger one is a file like any other
_FILE_SIGNATURES = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/webp": (b"RIFF",),
}


def detect_image(data: bytes) -> Image | None:
    """A picture, if it is one by its bytes: a provider refuses what only calls itself so."""
    if len(data) > MAX_IMAGE_BYTES:
        return None
    for media_type, beginnings in _FILE_SIGNATURES.items():
        if data.startswith(beginnings) and (media_type != "image/webp" or data[8:12] == b"WEBP"):
            return Image(media_type=media_type, data=base64.b64encode(data).decode())
    return None
