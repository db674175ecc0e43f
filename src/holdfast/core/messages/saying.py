"""What is said to a chat where nobody has asked for it, and what its conversation keeps of that."""

from enum import StrEnum

import msgspec

from holdfast.core.messages.message import NoteMessage
from holdfast.core.messages.outbox import NewDelivery


class SendInitiator(StrEnum):
    """On whose behalf a message comes out of the blue."""

    OWNER = "owner"  # whoever runs the gateway, from a shell or a program
    AGENT = "agent"  # an agent, in another conversation


class ProactiveDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """One commit: the delivery, and the note of it in the transcript of the session that the
    delivery names. The same delivery is said once, however often it is asked for."""

    delivery: NewDelivery
    note: NoteMessage | None = None
    initiator: SendInitiator = SendInitiator.AGENT
    at: float


_INITIATOR_TEXT = {
    SendInitiator.OWNER: "whoever runs this gateway has sent a message to this chat in your name",
    SendInitiator.AGENT: "you have sent a message to this chat from another conversation",
}


def proactive_note(initiator: SendInitiator, text: str, *, file: str = "") -> NoteMessage:
    """What the agent of a chat reads of a message that did not come out of its conversation.

    Each line of it is marked, so that nothing that was sent can look like a note of ours.
    """
    lines = [*text.splitlines(), *([f"[a file: {file}]"] if file else [])]
    quoted = "\n".join(f"> {line}".rstrip() for line in lines)
    return NoteMessage(
        text=f"[System note: {_INITIATOR_TEXT[initiator]}. Who answers may mean this:]\n{quoted}"
    )
