"""The transcript of a session, independent of any model provider's format."""

import base64
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from holdfast.core.ids import CallId, TurnId


class Image(msgspec.Struct, frozen=True, kw_only=True, tag="image"):
    """An image shown to the model: base64 data with its media type, or a URL."""

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
    CANCELLED = "cancelled"  # started and interrupted: it may have had an effect
    NOT_STARTED = "not_started"
    UNKNOWN = "unknown"  # started; its outcome is unknown
    REFUSED = "refused"  # never started: denied by a rule or a person


class CallRecovery(StrEnum):
    """How a call that an earlier process had started got its result."""

    ATTACHED = "attached"  # it had kept running meanwhile
    REPLAYED = "replayed"  # it was run again


class Reasoning(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model's reasoning; `opaque` is the provider's own part, returned to it unchanged."""

    text: str = ""
    opaque: str | None = None


class StopReason(StrEnum):
    END = "end"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    FILTERED = "filtered"
    STOPPED = "stopped"  # by its user, while it was streamed: the text is its beginning


class UserMessage(msgspec.Struct, frozen=True, kw_only=True, tag="user", omit_defaults=True):
    """A message of a user. `note` is a system note, put in front of the user's unchanged text when
    projected. `quoted` is what the text replies to, each line marked as a quote. `documents` is the
    text of its files; it follows the message and is shown to the model only. `sources` names the
    external content that came with it (`core/turns/external.py`), and `external` tells that the
    text itself is such content; `author` is the person who wrote it, in a conversation of several
    people."""

    text: str
    images: tuple[Image, ...] = ()
    speaker: str | None = None
    note: str | None = None
    quoted: str | None = None
    documents: str | None = None
    sources: tuple[str, ...] = ()
    external: bool = False
    author: str | None = None


class AssistantMessage(
    msgspec.Struct, frozen=True, kw_only=True, tag="assistant", omit_defaults=True
):
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    reasoning: tuple[Reasoning, ...] = ()
    model: str = ""
    stop: StopReason = StopReason.END


class ToolMessage(msgspec.Struct, frozen=True, kw_only=True, tag="tool", omit_defaults=True):
    """The result of one call. Its images are shown to the model after all results. `recovery` is
    set only if another process finished the call than the one that started it (stored as
    `taken_up`). `sources` names the external content in its text: the model is shown it in a
    fence."""

    call_id: CallId
    name: str
    text: str
    outcome: ToolOutcome = ToolOutcome.OK
    images: tuple[Image, ...] = ()
    recovery: CallRecovery | None = msgspec.field(name="taken_up", default=None)
    exit_code: int | None = None  # of a command that ran to its end
    sources: tuple[str, ...] = ()


class NoteMessage(msgspec.Struct, frozen=True, kw_only=True, tag="note", omit_defaults=True):
    """A system note of its own, not attached to a user's message. `sources` names the external
    content in it."""

    text: str
    sources: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """Its first sentence, for people: the rest is written for the model."""
        inside = self.text.removeprefix("[System note: ").partition("]\n")[0]
        return inside.partition(". ")[0].rstrip(".]") + "."


class CompactionMessage(msgspec.Struct, frozen=True, kw_only=True, tag="compaction"):
    """A summary that replaces the first `covers` messages of the transcript when projected.

    The count starts at the beginning, so it is independent of the summary's own position:
    messages that arrived while it was made are neither in it nor hidden by it. The covered
    messages stay in the transcript. The last summary counts.
    """

    text: str
    covers: int


Message = UserMessage | AssistantMessage | ToolMessage | NoteMessage | CompactionMessage


class TranscriptRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A stored message, with its position in the session and the turn that wrote it."""

    seq: int
    turn_id: TurnId | None
    message: Message
    created_at: float
    undone: bool = False  # removed with /undo: stored, but no longer part of the conversation


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """A question with everything that it led to: the records from `from_seq` up to the next
    exchange."""

    from_seq: int
    user_messages: tuple[UserMessage, ...]


def split_exchanges(records: Sequence[TranscriptRecord]) -> list[Exchange]:
    """The exchanges, oldest first. Records that no user started (a note, a summary) belong to the
    exchange before them."""
    return [
        Exchange(from_seq=group[0].seq, user_messages=messages)
        for group in _group_by_turn(records)
        if (messages := _opening_messages(group))
    ]


def _group_by_turn(records: Sequence[TranscriptRecord]) -> Iterator[list[TranscriptRecord]]:
    """The records of each turn. Records without a turn, as after an import, are grouped from one
    question to the next."""
    group: list[TranscriptRecord] = []
    for record in records:
        if group and _starts_group(record, group[-1]):
            yield group
            group = []
        group.append(record)
    if group:
        yield group


def _starts_group(record: TranscriptRecord, before: TranscriptRecord) -> bool:
    if record.turn_id is not None or before.turn_id is not None:
        return record.turn_id != before.turn_id
    is_question = isinstance(record.message, UserMessage)
    return is_question and not isinstance(before.message, UserMessage)


def _opening_messages(group: Sequence[TranscriptRecord]) -> tuple[UserMessage, ...]:
    """The user messages before the first reply; later ones were steered into the turn."""
    messages: list[UserMessage] = []
    for record in group:
        if isinstance(record.message, AssistantMessage):
            break
        if isinstance(record.message, UserMessage):
            messages.append(record.message)
    return tuple(messages)


_KEY_ARGUMENTS = ("command", "path", "url", "pattern", "query", "id", "text")
_MAX_LINE_LENGTH = 200


def summarise_arguments(arguments: str) -> str:
    """The arguments of a tool call on one line: the most telling one; "" if there are none."""
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


MAX_IMAGE_BYTES = 8 * 1024 * 1024  # a larger image is treated as an ordinary file
_FILE_SIGNATURES = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/webp": (b"RIFF",),
}


def detect_image(data: bytes) -> Image | None:
    """The data as an image, detected by its bytes: a provider refuses files that only have the name
    of an image."""
    if len(data) > MAX_IMAGE_BYTES:
        return None
    for media_type, signatures in _FILE_SIGNATURES.items():
        if data.startswith(signatures) and (media_type != "image/webp" or data[8:12] == b"WEBP"):
            return Image(media_type=media_type, data=base64.b64encode(data).decode())
    return None
