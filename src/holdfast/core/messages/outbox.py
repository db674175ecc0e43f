"""The outbox: deliveries to platforms, what is known of each, and proactive messages."""

from enum import StrEnum
from typing import Protocol

import msgspec

from holdfast.core.errors import HoldfastError
from holdfast.core.ids import CallId, DeliveryId, InboxId, PrincipalId, SessionId, TurnId
from holdfast.core.messages.transcript import NoteMessage


class DeliveryState(StrEnum):
    STREAMING = "streaming"  # it is shown as it grows: its text is not there yet
    PENDING = "pending"
    SENDING = "sending"  # an attempt is committed and has no outcome yet
    SENT = "sent"
    FAILED = "failed"
    UNKNOWN = "unknown"


class DeliveryKind(StrEnum):
    REPLY = "reply"  # the end of a turn
    COMMAND = "command"  # what a command answers
    NOTICE = "notice"  # the gateway speaking for itself; may expire
    QUESTION = "question"  # asks for a person's word; expires with its deadline
    CODE = "code"  # a pairing code: once it is sent, its words are forgotten
    FILE = "file"  # of the workspace, which the agent hands to people
    MESSAGE = "message"  # to a chat where nobody has asked for it
    SHUTDOWN_NOTICE = "farewell"  # that the gateway goes: only who goes says it, no successor does


class Button(msgspec.Struct, frozen=True, kw_only=True):
    """A button under a message: what it says, and what a click hands in as the text."""

    label: str
    # At most 64 bytes, which platforms can carry in a button. Stored as `says`.
    value: str = msgspec.field(name="says")


class Address(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a delivery goes."""

    platform: str
    account: str
    chat_id: str
    thread_id: str | None = None
    reply_to: str | None = None


class PendingFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that is owed to people, read when it is sent: one of a workspace, or, where none is
    named, one that the owner has handed in for this."""

    workspace: SessionId | None
    path: str


class OutboundFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file as a platform is given it."""

    name: str
    data: bytes


class DeliveryPart(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a delivery that has several, or that is shown before it is whole."""

    number: int  # from 1 on
    state: DeliveryState = DeliveryState.PENDING
    final: bool = False  # the platform shows the words that it is to end with
    outcome_unknown: bool = False
    resends: int = 0
    platform_message_id: str | None = None


class StartedDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery whose row was there before its text, and what is known of its parts."""

    id: DeliveryId
    parts: tuple[DeliveryPart, ...] = ()
    shown_text: str = ""  # by this very process, the last
    reply_text: str = ""  # of that, what the turn has said: the rest is what it was doing


class NewDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """A row to be. `text` None: the last assistant message of `turn_id` is the text."""

    id: DeliveryId
    address: Address
    kind: DeliveryKind
    text: str | None
    session_id: SessionId | None = None
    turn_id: TurnId | None = None
    inbox_id: InboxId | None = None  # the message this answers
    state: DeliveryState = DeliveryState.PENDING  # SENT where committed means fetchable
    expires_at: float | None = None
    buttons: tuple[Button, ...] = ()
    file: PendingFile | None = None  # its text is then what stands under it
    started: StartedDelivery | None = (
        None  # its row is there: this is the text that it was begun for
    )
    error: str = ""


class DeliveryRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row as the store keeps it; `seq` is the order in which rows were committed."""

    seq: int
    id: DeliveryId
    address: Address
    kind: DeliveryKind
    text: str
    session_id: SessionId | None
    turn_id: TurnId | None
    inbox_id: InboxId | None
    state: DeliveryState
    attempts: int
    outcome_unknown: bool = False  # an attempt may have arrived though no receipt came
    resends: int = 0  # attempts made after that
    platform_message_id: str | None
    error: str
    expires_at: float | None
    created_at: float
    buttons: tuple[Button, ...] = ()
    file: PendingFile | None = None
    parts: tuple[DeliveryPart, ...] = ()  # of one that has several, or was begun before its text
    updated_at: float = 0.0  # when what is known of it last changed: of one that is sent, then


class DeliveryBlocker(StrEnum):
    """What stands between a delivery that is owed and its next attempt."""

    NOTHING = "nothing"  # it is under way
    ACCOUNT = "account"  # which is not connected
    CHAT = "chat"  # to which something else is owed before it
    RATE_LIMIT = "rate_limit"  # the platform is to be left in peace for a while


class DeliveryStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What is to come of a delivery that is owed; `until`: when a pace ends, as far as is known."""

    blocked_by: DeliveryBlocker
    until: float | None = None


class Outbound(msgspec.Struct, frozen=True, kw_only=True):
    """What a platform is asked to send. `delivery_id` is the same in every attempt at it, and
    another for each part."""

    delivery_id: DeliveryId
    address: Address
    text: str
    may_be_duplicate: bool = False  # an earlier attempt may have arrived
    buttons: tuple[Button, ...] = ()  # only where the platform has buttons
    file: OutboundFile | None = None  # only where it takes files; the text stands under it
    part: int = 1  # which of the messages of its delivery


class MessageEdit(msgspec.Struct, frozen=True, kw_only=True):
    """What a platform is asked to show in the place of what it was sent before."""

    delivery_id: DeliveryId
    address: Address
    platform_message_id: str
    text: str


def part_delivery_id(delivery_id: DeliveryId, number: int) -> DeliveryId:
    """What a platform knows that part by; the first goes by the name of the whole."""
    return delivery_id if number < 2 else DeliveryId(f"{delivery_id}.{number}")


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    platform_message_id: str


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


HERE = "here"  # the chat that the turn works for


class SendNotPossible(HoldfastError):
    """Nothing will reach anybody; the text says why, to the agent."""


class OutgoingMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message to be brought to a chat; `path` names a file of the workspace to go with it."""

    to: str  # `here`, `home`, or platform:chat
    text: str
    path: str = ""


class MessageSender(Protocol):
    """Each call of a turn hands over once: asked again, by whatever process, it is the same
    delivery."""

    async def send_file(self, call_id: CallId, path: str, *, caption: str) -> None:
        """Returns once the file is owed to the chat of the turn, durably. It is read again when it
        is sent: until then it had better stay. Raises `SendNotPossible`."""
        ...

    async def send_message(self, call_id: CallId, message: OutgoingMessage) -> str:
        """Returns once it is owed, durably, and says to which chat. Raises `SendNotPossible`."""
        ...

    async def was_queued(self, call_id: CallId) -> bool:
        """Whether this call, started by an earlier process, has handed over what it was to."""
        ...


class QuietChat(msgspec.Struct, frozen=True, kw_only=True):
    """`quiet` None: it is again as the configuration says."""

    platform: str
    account: str
    chat_id: str
    quiet: bool | None
    set_by: PrincipalId
    at: float
