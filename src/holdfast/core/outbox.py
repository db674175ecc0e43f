"""The outbox: what is owed to a platform, and what is known of each delivery."""

from enum import StrEnum

import msgspec

from holdfast.core.ids import DeliveryId, InboxId, SessionId, TurnId


class DeliveryState(StrEnum):
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
    FAREWELL = "farewell"  # that the gateway goes: only who goes says it, no successor does


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """A button under a message: what it says, and what a click hands in as the text."""

    label: str
    says: str  # at most 64 bytes: what platforms carry in a button


class Address(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a delivery goes."""

    platform: str
    account: str
    chat_id: str
    thread_id: str | None = None
    reply_to: str | None = None


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
    choices: tuple[Choice, ...] = ()


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
    doubtful: bool = False  # an attempt may have arrived though no receipt came
    resends: int = 0  # attempts made after that
    platform_message_id: str | None
    error: str
    expires_at: float | None
    created_at: float
    choices: tuple[Choice, ...] = ()


class Outbound(msgspec.Struct, frozen=True, kw_only=True):
    """What a platform is asked to send. `delivery_id` is the same in every attempt."""

    delivery_id: DeliveryId
    address: Address
    text: str
    maybe_repeated: bool = False  # an earlier attempt may have arrived
    choices: tuple[Choice, ...] = ()  # only where the platform has buttons


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    platform_message_id: str
