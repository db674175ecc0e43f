"""How a message that came in, and a call that was cut, stand in the transcript."""

from collections.abc import Collection, Sequence

from holdfast.core.ids import CallId
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.message import (
    Message,
    NoteMessage,
    ToolMessage,
    ToolOutcome,
    UserMessage,
)
from holdfast.core.messages.quote import format_quote
from holdfast.core.messages.source import speaker_name
from holdfast.core.turns.projection import open_calls

CANCELLED_TEXT = "Cancelled while it ran. It may have had an effect."
NOT_STARTED_TEXT = "Not started."


def transcript_message(row: InboxRow) -> UserMessage | NoteMessage:
    """What a message is in the transcript: a person's word, or our own."""
    return NoteMessage(text=row.inbound.text) if row.inbound.note else user_message(row)


def user_message(row: InboxRow) -> UserMessage:
    inbound = row.inbound
    return UserMessage(
        text=inbound.text,
        images=inbound.images,
        speaker=speaker_name(inbound.source),
        quoted=None if inbound.quoted is None else format_quote(inbound.quoted),
        documents=inbound.documents or None,
    )


def interrupted_call_results(
    messages: Sequence[Message], started: Collection[CallId]
) -> tuple[ToolMessage, ...]:
    """A result for each call of the last reply that has none, by whether it had started: what a
    provider needs, and all that is known of it."""
    return tuple(
        ToolMessage(
            call_id=call.id,
            name=call.name,
            text=CANCELLED_TEXT if call.id in started else NOT_STARTED_TEXT,
            outcome=ToolOutcome.CANCELLED if call.id in started else ToolOutcome.NOT_STARTED,
        )
        for call in open_calls(messages)
    )
