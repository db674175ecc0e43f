"""Compaction: token estimates, where a history may be cut, and how its summary is shown."""

from collections.abc import Iterable, Iterator, Sequence

from holdfast.core.ids import CallId
from holdfast.core.messages.transcript import (
    AssistantMessage,
    CompactionMessage,
    Message,
    NoteMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)

MESSAGE_OVERHEAD = 6  # what a message costs besides its text: its role, its ids
IMAGE_TOKENS = 1_500  # a picture of ordinary size, at the providers that say what they count


def estimate_tokens(message: Message) -> int:
    """Near enough to know when the window fills: a real count replaces it with every reply."""
    tokens = MESSAGE_OVERHEAD + estimate_text_tokens(message.text)
    match message:
        case UserMessage():
            tokens += IMAGE_TOKENS * len(message.images)
            tokens += estimate_text_tokens(message.note or "") + estimate_text_tokens(
                message.quoted or ""
            )
            tokens += estimate_text_tokens(message.documents or "")
        case AssistantMessage():
            tokens += sum(estimate_text_tokens(part.text) for part in message.reasoning)
            tokens += sum(
                MESSAGE_OVERHEAD + estimate_text_tokens(call.arguments) for call in message.calls
            )
        case ToolMessage():
            tokens += MESSAGE_OVERHEAD + IMAGE_TOKENS * len(message.images)
    return tokens


def estimate_text_tokens(text: str) -> int:
    """Four characters a token where letters are Latin, three bytes elsewhere."""
    if text.isascii():
        return len(text) // 4
    return len(text.encode("utf-8", "surrogatepass")) // 3


# is shown to a model ever after.
MIN_MESSAGES = 3  # messages that are worth a summary
_MAX_RESULT_CHARS = 2_000  # characters of a tool's result that a summariser sees
_MAX_REQUEST_CHARS = 6_000  # characters of the open request that a summary repeats word for word
_SUMMARY_NOTE = """\
[System note: to make room, what was said before this is given as a summary. It is the record \
of this very conversation, made for you; nothing in it is a new request. Details that it leaves \
out can be asked for or looked up again.]

{text}"""
_OPEN_REQUEST_SECTION = "\n\n## The request that is being worked on, word for word\n\n{text}"


def last_compaction(messages: Sequence[Message]) -> CompactionMessage | None:
    """The record that counts."""
    for message in reversed(messages):
        if isinstance(message, CompactionMessage):
            return message
    return None


def summary_note(record: CompactionMessage) -> NoteMessage:
    return NoteMessage(text=_SUMMARY_NOTE.format(text=record.text))


def visible_messages(messages: Sequence[Message], *, skipped: int = 0) -> Iterator[Message]:
    """What is left of a log by its last compaction: the summary, then what it does not cover.

    `messages` is the log without its first `skipped` ones.
    """
    record = last_compaction(messages)
    if record is None:
        yield from messages
        return
    yield summary_note(record)
    for message in messages[max(0, record.covers - skipped) :]:
        if not isinstance(message, CompactionMessage):
            yield message


def compaction_point(messages: Sequence[Message], *, keep_tokens: int) -> int:
    """How many of the first messages to summarise so that those after them take about `keep`
    tokens and no call is parted from its result. 0: too few to be worth it.

    The cut falls before something a user said where that is possible, and the last exchange is
    kept whatever it takes.
    """
    places = list(_cut_points(messages))
    if not places:
        return 0
    fitting = [place for place, taken in places if taken <= keep_tokens] or [places[0][0]]
    turns = [place for place in fitting if isinstance(messages[place], UserMessage)]
    cut = min(turns or fitting)
    return cut if _is_worthwhile(messages[:cut]) else 0


def _cut_points(messages: Sequence[Message]) -> Iterator[tuple[int, int]]:
    """Where a cut parts no call from its result, the last first, and the tokens behind it."""
    owed: set[CallId] = set()
    taken = 0
    for place in range(len(messages) - 1, 0, -1):
        message = messages[place]
        taken += estimate_tokens(message)
        match message:
            case ToolMessage():
                owed.add(message.call_id)
                continue
            case AssistantMessage():
                owed -= {call.id for call in message.calls}
            case CompactionMessage():
                continue
        if not owed:
            yield place, taken


def _is_worthwhile(messages: Iterable[Message]) -> bool:
    return sum(not isinstance(message, CompactionMessage) for message in messages) >= MIN_MESSAGES


def open_request(messages: Sequence[Message], cut: int) -> str:
    """What the user asked last, where a cut takes it away though it is still being worked on."""
    if any(isinstance(message, UserMessage) for message in messages[cut:]):
        return ""
    asked = [message.text for message in messages[:cut] if isinstance(message, UserMessage)]
    if not asked or not asked[-1].strip():
        return ""
    return _OPEN_REQUEST_SECTION.format(text=_truncate_middle(asked[-1], _MAX_REQUEST_CHARS))


def render_for_summary(messages: Iterable[Message]) -> str:
    """The messages as a text for the summariser: it is to read them, not to go on with them."""
    return "\n\n".join(part for message in messages if (part := _render_message(message)))


def _render_message(message: Message) -> str:
    match message:
        case UserMessage():
            pictures = " [with a picture]" if message.images else ""
            quoted = f"{message.quoted}\n\n" if message.quoted else ""
            files = _truncate_middle(message.documents or "", _MAX_RESULT_CHARS)
            said = f"{message.text}\n\n{files}" if files else message.text
            return f"### {message.speaker or 'User'}{pictures}\n{quoted}{said}"
        case AssistantMessage():
            calls = "".join(f"\n{_render_call(call)}" for call in message.calls)
            return f"### Assistant\n{message.text}{calls}"
        case ToolMessage():
            text = _truncate_middle(message.text, _MAX_RESULT_CHARS)
            return f"### Result of {message.name} ({message.outcome})\n{text}"
        case CompactionMessage():
            return ""
        case _:
            return f"### Note\n{message.text}"


def _render_call(call: ToolCall) -> str:
    return f"-> calls {call.name}: {_truncate_middle(call.arguments, _MAX_RESULT_CHARS)}"


def _truncate_middle(text: str, limit: int) -> str:
    """The beginning and the end: errors stand at the end, what it was at the beginning."""
    if len(text) <= limit:
        return text
    left_out = len(text) - limit
    return f"{text[: limit // 2]}\n[… {left_out} characters …]\n{text[-limit // 2 :]}"
