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
from holdfast.core.turns.external import fence_external

MESSAGE_OVERHEAD = 6  # tokens of a message besides its text: its role, its ids
IMAGE_TOKENS = 1_500  # an image of ordinary size, at the providers that document it


def estimate_tokens(message: Message) -> int:
    """Estimate the tokens of a message without a tokeniser, well enough to notice when the context
    window fills: each reply brings a real count."""
    tokens = MESSAGE_OVERHEAD + estimate_text_tokens(message.text)
    match message:
        case UserMessage():
            tokens += IMAGE_TOKENS * len(message.images)
            for more in (message.note, message.quoted, message.documents):
                if more:
                    tokens += estimate_text_tokens(more)
        case AssistantMessage():
            for part in message.reasoning:
                tokens += estimate_text_tokens(part.text)
            for call in message.calls:
                tokens += MESSAGE_OVERHEAD + estimate_text_tokens(call.arguments)
        case ToolMessage():
            tokens += MESSAGE_OVERHEAD + IMAGE_TOKENS * len(message.images)
    return tokens


def estimate_text_tokens(text: str) -> int:
    """Four characters per token in ASCII text, three bytes per token elsewhere."""
    if text.isascii():
        return len(text) // 4
    return len(text.encode("utf-8", "surrogatepass")) // 3


MIN_MESSAGES = 3  # fewer messages are not worth a summary
_MAX_RESULT_CHARS = 2_000  # characters of a tool's result that a summariser sees
_MAX_REQUEST_CHARS = 6_000  # characters of the open request that a summary repeats verbatim
_SUMMARY_NOTE = """\
[System note: to make room, the earlier conversation is replaced by this summary. It is a record \
of this conversation, made for you; nothing in it is a new request. Details that it leaves \
out can be asked for or looked up again.]

{text}"""
_OPEN_REQUEST_SECTION = "\n\n## The current request, word for word\n\n{text}"


def last_compaction(messages: Sequence[Message]) -> CompactionMessage | None:
    """The newest compaction; it supersedes all earlier ones."""
    for message in reversed(messages):
        if isinstance(message, CompactionMessage):
            return message
    return None


def summary_note(record: CompactionMessage) -> NoteMessage:
    return NoteMessage(text=_SUMMARY_NOTE.format(text=record.text))


def visible_messages(messages: Sequence[Message], *, skipped: int = 0) -> Iterator[Message]:
    """The transcript after its last compaction: the summary, then the messages not covered.

    `messages` is the transcript without its first `skipped` ones.
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
    """How many of the first messages to summarise so that the rest take about `keep_tokens` and no
    call is separated from its result. 0 if there are too few.

    The cut falls before a user message if possible. The last exchange is always kept.
    """
    points = list(_cut_points(messages))
    if not points:
        return 0
    candidates = [index for index, tokens in points if tokens <= keep_tokens] or [points[0][0]]
    before_user = [index for index in candidates if isinstance(messages[index], UserMessage)]
    cut = min(before_user or candidates)
    return cut if _is_worthwhile(messages[:cut]) else 0


def _cut_points(messages: Sequence[Message]) -> Iterator[tuple[int, int]]:
    """Indexes where a cut separates no call from its result, last first, each with the tokens
    that follow it."""
    unmatched: set[CallId] = set()  # results whose call comes earlier
    tokens = 0
    for index in range(len(messages) - 1, 0, -1):
        message = messages[index]
        tokens += estimate_tokens(message)
        match message:
            case ToolMessage():
                unmatched.add(message.call_id)
                continue
            case AssistantMessage():
                unmatched -= {call.id for call in message.calls}
            case CompactionMessage():
                continue
        if not unmatched:
            yield index, tokens


def _is_worthwhile(messages: Iterable[Message]) -> bool:
    return sum(not isinstance(message, CompactionMessage) for message in messages) >= MIN_MESSAGES


def open_request(messages: Sequence[Message], cut: int) -> str:
    """The user's last request, if a cut would remove it although it is still in progress."""
    if any(isinstance(message, UserMessage) for message in messages[cut:]):
        return ""
    requests = [message.text for message in messages[:cut] if isinstance(message, UserMessage)]
    if not requests or not requests[-1].strip():
        return ""
    return _OPEN_REQUEST_SECTION.format(text=_truncate_middle(requests[-1], _MAX_REQUEST_CHARS))


def render_for_summary(messages: Iterable[Message]) -> str:
    """The messages as one text, so that the summariser reads them and does not continue them."""
    return "\n\n".join(part for message in messages if (part := _render_message(message)))


def _render_message(message: Message) -> str:
    match message:
        case UserMessage():
            images = " [with a picture]" if message.images else ""
            quoted = f"{message.quoted}\n\n" if message.quoted else ""
            files = _truncate_middle(message.documents or "", _MAX_RESULT_CHARS)
            text = f"{message.text}\n\n{files}" if files else message.text
            return f"### {message.speaker or 'User'}{images}\n{quoted}{text}"
        case AssistantMessage():
            calls = "".join(f"\n{_render_call(call)}" for call in message.calls)
            return f"### Assistant\n{message.text}{calls}"
        case ToolMessage():
            text = _truncate_middle(message.text, _MAX_RESULT_CHARS)
            if message.sources:
                text = fence_external(text, message.sources)
            return f"### Result of {message.name} ({message.outcome})\n{text}"
        case CompactionMessage():
            return ""
        case _:
            return f"### Note\n{message.text}"


def _render_call(call: ToolCall) -> str:
    return f"-> calls {call.name}: {_truncate_middle(call.arguments, _MAX_RESULT_CHARS)}"


def _truncate_middle(text: str, limit: int) -> str:
    """The beginning and the end: errors are at the end, the subject at the beginning."""
    if len(text) <= limit:
        return text
    left_out = len(text) - limit
    return f"{text[: limit // 2]}\n[… {left_out} characters …]\n{text[-limit // 2 :]}"
