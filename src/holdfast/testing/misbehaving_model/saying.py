"""What a step, or no step, comes to: text, pieces and ids, in no mode's words."""

from base64 import b64encode
from hashlib import sha256

from holdfast.testing.misbehaving_model.conversation import RequestSummary
from holdfast.testing.misbehaving_model.script import ScriptedReply

PIECE_CHARS = 8  # characters of text an event


def default_text(conversation: RequestSummary) -> str:
    """What is said where no script says otherwise."""
    if conversation.result is not None:
        return f"Done: {conversation.result[:200]}"
    return f"You said: {conversation.user_text}"


def reply_text(conversation: RequestSummary, reply: ScriptedReply) -> str:
    if reply.text is not None:
        return reply.text
    return "" if reply.calls else default_text(conversation)


def reply_call_id(conversation: RequestSummary, reply: ScriptedReply, index: int) -> str:
    return reply.calls[index].id or f"call_{conversation.replies_since}_{index}_{conversation.turn}"


def split_text(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def argument_fragments(reply: ScriptedReply) -> list[tuple[int, str]]:
    """The arguments of parallel calls, each with its call's place: one call's piece after the
    other's in turn, as no sane and every real provider may send them."""
    rows = [split_text(call.text, reply.fragment or len(call.text) or 1) for call in reply.calls]
    longest = max(map(len, rows), default=0)
    return [
        (place, row[at]) for at in range(longest) for place, row in enumerate(rows) if at < len(row)
    ]


def sign(text: str) -> str:
    """What only this server can make, and can tell from what was changed on its way."""
    return b64encode(sha256(b"misbehaving" + text.encode()).digest()).decode()
