"""The payload types of the simulated chat service: updates, requests, replies, faults and the
ledger."""

from enum import StrEnum
from typing import Annotated

import msgspec

from holdfast.core.messages.outbox import Button
from holdfast.core.messages.source import Author, ChatType
from holdfast.core.ports.capabilities import Backlog

Count = Annotated[int, msgspec.Meta(ge=0)]
ALWAYS = 1 << 30  # as a count: until it is switched off


class UpdateKind(StrEnum):
    MESSAGE = "message"
    EDITED = "edited"  # a further event about the same message, with its new text
    DELETED = "deleted"


class RepliedMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The message that another one replies to, with its text at that time."""

    message_id: str
    text: str
    user_id: str = ""  # "": a bot of this account
    user_name: str | None = None
    language: str = ""  # that the person reads, as "pt-BR"


class SimulatedUpdate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event of an account's stream; `id` rises in the order in which updates are given."""

    id: int
    message_id: str
    account: str
    chat_id: str
    chat_type: ChatType
    thread_id: str | None = None
    user_id: str
    user_name: str | None = None
    language: str = ""  # that the person reads, as "pt-BR"
    text: str
    group: str | None = None
    kind: UpdateKind = UpdateKind.MESSAGE
    mentions: bool = True
    reply_to: RepliedMessage | None = None
    author: Author = Author.PERSON


class SayRequest(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A person writes to a bot's account."""

    chat: str
    user: str
    text: str
    account: str = "default"
    chat_type: ChatType = ChatType.DM
    thread: str | None = None
    user_name: str | None = None
    language: str = ""  # that the person reads, as "pt-BR"
    group: str | None = None  # parts of one album share it
    mentions: bool = True  # False: the bot is not mentioned; not used in a direct chat
    reply_to: str | None = None  # the id of the message that it replies to
    author: Author = Author.PERSON


class ReviseRequest(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A person edits or deletes a message."""

    message_id: str
    text: str | None = None  # None: it is deleted


class SendRequest(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A bot writes to a chat. `delivery_id` is its idempotency key, where those are honoured."""

    delivery_id: str
    account: str = "default"
    chat_id: str
    thread_id: str | None = None
    reply_to: str | None = None
    text: str
    maybe_repeated: bool = False
    choices: tuple[Button, ...] = ()  # the buttons below it; a press sends its value as a message


class EditRequest(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A bot edits its message. The same edit twice counts once."""

    message_id: str
    text: str
    account: str = "default"
    delivery_id: str = ""


class FindRequest(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A bot asks what became of a delivery."""

    delivery_id: str
    account: str = "default"


class TypingRequest(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A bot shows a typing indicator."""

    chat_id: str
    account: str = "default"
    thread_id: str | None = None


class ReactRequest(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A bot reacts to a person's message, or replaces its reaction."""

    message_id: str
    emoji: str | None = None  # None: it removes its reaction
    account: str = "default"


class VendorVerdict(StrEnum):
    """What the vendor did with an outgoing message, or with an edit of one."""

    TAKEN = "taken"
    REPEATED = "repeated"  # its delivery id was known: not sent again, and answered as before
    FLOOD = "flood"
    REFUSED = "refused"
    GONE = "gone"  # of an edit: there is no such message, or it was deleted
    UNREACHABLE = "unreachable"
    RECEIPT_LOST = "receipt_lost"  # accepted, but the sender gets no answer
    MESSAGE_LOST = "message_lost"  # not accepted, and the sender gets no answer
    NOT_FOUND = "not_found"  # of a delivery that was looked up: it was never accepted


class VendorReply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to the sender, unless the verdict is that it gets none."""

    verdict: VendorVerdict
    message_id: str | None = None
    retry_after: float | None = None
    whole_account: bool = False  # the limit is for all messages of the bot
    error: str = ""


class CutStyle(StrEnum):
    """How a lost receipt looks to the sender."""

    RESET = "reset"
    SILENCE = "silence"


class Faults(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """What goes wrong from now on. A number is how many of the next occasions fail."""

    duplicates: Count = 0  # updates given once more after they were acknowledged
    delay: Annotated[float, msgspec.Meta(ge=0)] = 0.0  # seconds until a message is given
    reorders: Count = 0  # messages that the next one of another chat overtakes
    floods: Count = 0
    account_floods: Count = 0  # the same for all messages of a bot, in any chat
    retry_after: Annotated[float, msgspec.Meta(ge=0)] = 0.1
    refusals: Count = 0
    lost_receipts: Count = 0
    lost_messages: Count = 0
    rejected_edits: Count = 0
    lost_edits: Count = 0  # made, but the bot gets no answer
    rejected_reactions: Count = 0
    cut: CutStyle = CutStyle.RESET
    disconnected: bool = False
    half_open: bool = False  # the connection looks intact, but nothing comes through
    connect_refused: str = ""  # why bots are refused, permanently
    in_use_by: str = ""  # who else uses the same token


class VendorInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What this vendor can do."""

    idempotent_send: bool
    max_length: int | None
    lookup: bool = False  # a bot may ask for the outcome of a delivery
    backlog: Backlog = Backlog.UNTIL_ACKED  # what it keeps for a disconnected bot
    edit: bool = False
    edit_interval: float = 1.0  # minimum seconds between two edits
    typing: bool = False
    reactions: bool = False
    settle: float = 0.0  # seconds within which the parts of one message come
    buttons: bool = False
    relay: bool = False  # messages of bots are given to all bots, also to the sender
    busy_notices: bool = False  # False: only answers are sent, which are easy to count
    restart_notices: bool = False  # likewise
    alive_within: float = 0.0  # seconds of silence after which a bot reconnects


class ConnectRefusal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a bot is refused."""

    error: str
    remedy: str = ""
    holder: str = ""


class PersonMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a person: how often it was given, and whether it was acknowledged."""

    message_id: str
    update_id: int | None  # None: still delayed
    account: str
    chat_id: str
    user_id: str
    text: str
    times_given: int
    acked: bool
    thread_id: str | None = None
    edits: tuple[str, ...] = ()  # its text after each edit
    deleted: bool = False
    reactions: dict[str, str] = {}  # of bots, by account


class BotMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a bot in its chat; `duplicate`: its delivery id came before."""

    message_id: str
    outgoing: SendRequest
    duplicate: bool
    edits: tuple[str, ...] = ()  # its text after each edit
    deleted: bool = False

    @property
    def text(self) -> str:
        """The text that people see now."""
        return self.edits[-1] if self.edits else self.outgoing.text


class SendAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One call to send, with its outcome."""

    delivery_id: str
    verdict: VendorVerdict


class EditAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One call to edit, with its outcome; `at` is the vendor's clock, in seconds."""

    message_id: str
    text: str
    verdict: VendorVerdict
    at: float


class ReactAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One call to set or remove a reaction, with its outcome."""

    message_id: str
    emoji: str | None
    verdict: VendorVerdict


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was given, acknowledged and accepted; each list in order."""

    said: tuple[PersonMessage, ...]
    sent: tuple[BotMessage, ...]
    attempts: tuple[SendAttempt, ...]
    edits: tuple[EditAttempt, ...] = ()
    typing: tuple[TypingRequest, ...] = ()
    reactions: tuple[ReactAttempt, ...] = ()
