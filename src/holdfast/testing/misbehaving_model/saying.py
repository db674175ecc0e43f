"""What a step, or no step, comes to: text, pieces and ids, in no mode's words."""

from base64 import b64encode
from hashlib import sha256

from holdfast.testing.misbehaving_model.conversation import Conversation
from holdfast.testing.misbehaving_model.script import Step

PIECE = 8  # characters of text an event


def spoken(conversation: Conversation) -> str:
    """What is said where no script says otherwise."""
    if conversation.result is not None:
        return f"Done: {conversation.result[:200]}"
    return f"You said: {conversation.asked}"


def text_of(conversation: Conversation, step: Step) -> str:
    if step.text is not None:
        return step.text
    return "" if step.calls else spoken(conversation)


def call_id_of(conversation: Conversation, step: Step, place: int) -> str:
    return step.calls[place].id or f"call_{conversation.answered}_{place}_{conversation.turn}"


def pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def fragments(step: Step) -> list[tuple[int, str]]:
    """The arguments of parallel calls, each with its call's place: one call's piece after the
    other's in turn, as no sane and every real provider may send them."""
    rows = [pieces(call.text, step.fragment or len(call.text) or 1) for call in step.calls]
    longest = max(map(len, rows), default=0)
    return [
        (place, row[at]) for at in range(longest) for place, row in enumerate(rows) if at < len(row)
    ]


def signature(text: str) -> str:
    """What only this server can make, and can tell from what was changed on its way."""
    return b64encode(sha256(b"misbehaving" + text.encode()).digest()).decode()
