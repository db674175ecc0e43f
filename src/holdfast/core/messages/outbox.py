"""The outbox: deliveries to platforms, what is known of each, and proactive messages."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Protocol

import msgspec

from holdfast.core.errors import HoldfastError
from holdfast.core.ids import CallId, DeliveryId, InboxId, PrincipalId, SessionId, TurnId
from holdfast.core.messages.transcript import NoteMessage
from holdfast.core.ports.command import (
    Command,
    Scope,
    account_scope,
    joint_scope,
    session_scope,
)


class DeliveryState(StrEnum):
    STREAMING = "streaming"  # shown as it grows: its text is not complete yet
    PENDING = "pending"
    SENDING = "sending"  # an attempt is committed and has no outcome yet
    SENT = "sent"
    FAILED = "failed"
    UNKNOWN = "unknown"


class DeliveryKind(StrEnum):
    REPLY = "reply"  # the end of a turn
    COMMAND = "command"  # the answer to a command
    NOTICE = "notice"  # from the gateway itself; may expire
    QUESTION = "question"  # an approval request; expires with its deadline
    CODE = "code"  # a pairing code: its text is deleted once it is sent
    FILE = "file"  # of the workspace, sent by the agent
    MESSAGE = "message"  # proactive, not a reply
    SHUTDOWN_NOTICE = "farewell"  # the stored value; sent only by the process that stops


class Button(msgspec.Struct, frozen=True, kw_only=True):
    """A button under a message: its label, and the text that a click sends."""

    label: str
    # At most 64 bytes, the limit of platforms. Stored as `says`.
    value: str = msgspec.field(name="says")


class Address(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a delivery goes."""

    platform: str
    account: str
    chat_id: str
    thread_id: str | None = None
    reply_to: str | None = None


class PendingFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file to be sent, read when it is sent: a file of a workspace, or, without a workspace, one
    that the owner has uploaded for this delivery."""

    workspace: SessionId | None
    path: str


class OutboundFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file as it is passed to a platform."""

    name: str
    data: bytes


class DeliveryPart(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a delivery. It is stored as a row of its own if the delivery has several, or
    is shown before it is complete; otherwise the row of the delivery holds its state."""

    number: int  # starts at 1
    state: DeliveryState = DeliveryState.PENDING
    final: bool = False  # the platform shows its final text
    outcome_unknown: bool = False
    resends: int = 0
    platform_message_id: str | None = None
    # Why its first message could not be edited any more, so that the final text is sent as a new
    # message; "" as long as there is one message.
    replaced: str = ""


class StartedDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery whose row was written before its text, and what is known of its parts."""

    id: DeliveryId
    parts: tuple[DeliveryPart, ...] = ()
    shown_text: str = ""  # as last shown, by this process
    reply_text: str = ""  # the part of it that is reply text; the rest is progress


def delivery_scope(session_id: SessionId | None, address: Address) -> Scope:
    """The scope of a delivery: its session, or its account if it has none."""
    if session_id is not None:
        return session_scope(session_id)
    return account_scope(address.platform, address.account)


class NewDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """A row to write. `text` None: the last assistant message of `turn_id` is the text."""

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
    file: PendingFile | None = None  # the text is then its caption
    started: StartedDelivery | None = None  # its row exists already: this is its final text
    error: str = ""

    @property
    def scope(self) -> Scope:
        return delivery_scope(self.session_id, self.address)

    @property
    def shown_part(self) -> DeliveryPart | None:
        """The only message of a stream that is complete at the end of its turn, because it already
        shows the whole text."""
        if self.started is None or self.state is not DeliveryState.SENT:
            return None
        (part,) = self.started.parts
        return part


def scope_with_deliveries(session_id: SessionId, deliveries: Iterable[NewDelivery]) -> Scope:
    """Of a command of a session that adds deliveries, nearly all of which are of that session."""
    others = [each.scope for each in deliveries if each.session_id != session_id]
    own = session_scope(session_id)
    return joint_scope(own, *others) if others else own


class DeliveryRow(msgspec.Struct, frozen=True, kw_only=True):
    """A stored row; `seq` is the commit order."""

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
    outcome_unknown: bool = False  # an attempt may have arrived although there is no receipt
    resends: int = 0  # attempts made after that
    platform_message_id: str | None
    error: str
    expires_at: float | None
    created_at: float
    buttons: tuple[Button, ...] = ()
    file: PendingFile | None = None
    parts: tuple[DeliveryPart, ...] = ()  # set where it has several, or was started before its text
    updated_at: float = 0.0  # when its state last changed; for a sent one, when it was sent

    @property
    def scope(self) -> Scope:
        return delivery_scope(self.session_id, self.address)


class DeliveryBlocker(StrEnum):
    """What a pending delivery waits for before its next attempt."""

    NOTHING = "nothing"  # an attempt is in progress
    ACCOUNT = "account"  # the account is not connected
    CHAT = "chat"  # an earlier delivery to the same chat
    RATE_LIMIT = "rate_limit"  # the platform asked to wait


class DeliveryStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What a pending delivery waits for; `until` is the end of a rate limit, if known."""

    blocked_by: DeliveryBlocker
    until: float | None = None


class Outbound(msgspec.Struct, frozen=True, kw_only=True):
    """A message for a platform to send. `delivery_id` is the same in every attempt, and differs for
    each part."""

    delivery_id: DeliveryId
    address: Address
    text: str
    may_be_duplicate: bool = False  # an earlier attempt may have arrived
    buttons: tuple[Button, ...] = ()  # only where the platform has buttons
    file: OutboundFile | None = None  # only where it takes files; the text is its caption
    part: int = 1  # which of the messages of its delivery


class MessageEdit(msgspec.Struct, frozen=True, kw_only=True):
    """A new text for a message that was sent before."""

    delivery_id: DeliveryId
    address: Address
    platform_message_id: str
    text: str


def part_delivery_id(delivery_id: DeliveryId, number: int, *, replaced: bool = False) -> DeliveryId:
    """The id of a part at the platform; the first part has the id of the delivery. The message that
    replaces one has an id of its own, because a platform that accepts an id only once would return
    the message that is to be replaced."""
    if replaced:
        return DeliveryId(f"{delivery_id}.{number}r")
    return delivery_id if number < 2 else DeliveryId(f"{delivery_id}.{number}")


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    platform_message_id: str


class SendInitiator(StrEnum):
    """Who starts a proactive message."""

    OWNER = "owner"  # the operator of the gateway, from a shell or a program
    AGENT = "agent"  # an agent, in another conversation


class ProactiveDelivery(Command[bool], frozen=True, kw_only=True):
    """One commit: the delivery, and the note of it in the transcript of the session that the
    delivery names. A delivery is sent once, however often it is requested: if a delivery with that
    id exists, nothing is written and the result is False."""

    delivery: NewDelivery
    note: NoteMessage | None = None
    initiator: SendInitiator = SendInitiator.AGENT
    at: float

    @property
    def scope(self) -> Scope:
        return self.delivery.scope


class FailureReport(msgspec.Struct, frozen=True, kw_only=True):
    """What is said about a delivery that failed: to the agents of these sessions in their next
    prompts, and to the chat."""

    note: NoteMessage
    session_ids: tuple[SessionId, ...]
    notice: NewDelivery | None = None


def failure_note(what: str, reason: str, *, chat_knows: bool) -> NoteMessage:
    """The note about a delivery that failed. The reason may be the platform's own text, so its line
    is marked, and cannot pass for a system note."""
    known = "The chat was told so." if chat_knows else "The chat was not told."
    return NoteMessage(
        text=f"[System note: {what} was not delivered. {known} The reason:]\n"
        f"> {' '.join(reason.split())}"
    )


_INITIATOR_TEXT = {
    SendInitiator.OWNER: "the operator of this gateway sent a message to this chat in your name",
    SendInitiator.AGENT: "you sent a message to this chat from another conversation",
}


def proactive_note(initiator: SendInitiator, text: str, *, file: str = "") -> NoteMessage:
    """The note about a proactive message for the agent of the receiving chat.

    Each line is marked, so that nothing in the message can pass for a system note.
    """
    lines = [*text.splitlines(), *([f"[a file: {file}]"] if file else [])]
    quoted = "\n".join(f"> {line}".rstrip() for line in lines)
    return NoteMessage(
        text=f"[System note: {_INITIATOR_TEXT[initiator]}. Replies may refer to it:]\n{quoted}"
    )


HERE = "here"  # the chat that the turn works for


class SendNotPossible(HoldfastError):
    """The message cannot be sent; the text tells the agent why."""


class OutgoingMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message to a chat; `path` names a file of the workspace to attach."""

    to: str  # `here`, `home`, or platform:chat
    text: str
    path: str = ""


class MessageSender(Protocol):
    """Sends text and files on behalf of a turn's tool calls. A call is one delivery: repeating it,
    in any process, has no further effect."""

    async def send_file(self, call_id: CallId, path: str, *, caption: str) -> None:
        """Return once the file is durably queued for the chat of the turn. The file is read when it
        is sent, so it must not be removed before. Raises `SendNotPossible`."""
        ...

    async def send_message(self, call_id: CallId, message: OutgoingMessage) -> str:
        """Return the chat once the message is durably queued. Raises `SendNotPossible`."""
        ...

    async def was_queued(self, call_id: CallId) -> bool:
        """Whether this call, started by an earlier process, has queued its message or file."""
        ...


class QuietChat(msgspec.Struct, frozen=True, kw_only=True):
    """A person's choice whether a chat gets answers only and no proactive messages. `quiet` None:
    as configured."""

    platform: str
    account: str
    chat_id: str
    quiet: bool | None
    set_by: PrincipalId
    at: float
