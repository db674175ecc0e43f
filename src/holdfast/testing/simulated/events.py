"""The payload types of the simulated chat service: updates, requests, replies, faults and the ledger."""

from enum import StrEnum
from typing import Annotated

import msgspec

from holdfast.core.messages.outbox import Button
from holdfast.core.messages.source import Author, ChatType
from holdfast.core.ports.capabilities import Backlog

Count = Annotated[int, msgspec.Meta(ge=0)]
ALWAYS = 1 << 30  # as a number of times: until it is switched off


class UpdateKind(StrEnum):
    MESSAGE = "message"
    EDITED = "edited"  # another event about the same message, with the words it has now
    DELETED = "deleted"


class RepliedMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The message that another one answers, as it stood then."""

    message_id: str
    text: str
    user_id: str = ""  # "": a bot of this account
    user_name: str | None = None


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
    group: str | None = None  # parts of one album share it
    mentions: bool = True  # False: the bot's name is not in it; in a chat of two nobody looks
    reply_to: str | None = None  # the id of the message that it answers
    author: Author = Author.PERSON


class ReviseRequest(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A person changes what they have said, or takes it back."""

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
    choices: tuple[Button, ...] = ()  # the buttons under it; a click is said as a text


class EditRequest(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A bot changes what it has sent. The same edit twice is one."""

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
    """A bot shows that it writes."""

    chat_id: str
    account: str = "default"
    thread_id: str | None = None


class ReactRequest(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A bot puts a sign on a person's message, in the place of the one it had there."""

    message_id: str
    emoji: str | None = None  # None: it takes its sign back
    account: str = "default"


class VendorVerdict(StrEnum):
    """What the vendor did with an outgoing message, or with an edit of one."""

    TAKEN = "taken"
    REPEATED = "repeated"  # its delivery id was known: not taken again, and answered as before
    FLOOD = "flood"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    RECEIPT_LOST = "receipt_lost"  # taken, and the sender is not told
    MESSAGE_LOST = "message_lost"  # not taken, and the sender is not told
    NOT_FOUND = "not_found"  # of a delivery that was looked up: it was never taken


class VendorReply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the sender hears, unless the verdict is that it hears nothing."""

    verdict: VendorVerdict
    message_id: str | None = None
    retry_after: float | None = None
    whole_account: bool = False  # it is all that the bot sends that has to wait
    error: str = ""


class CutStyle(StrEnum):
    """How a lost receipt looks to the sender."""

    RESET = "reset"
    SILENCE = "silence"


class Faults(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """What goes wrong from now on. A number is for so many of the next occasions."""

    duplicates: Count = 0  # updates given once more after they were acknowledged
    delay: Annotated[float, msgspec.Meta(ge=0)] = 0.0  # seconds from said to given
    reorders: Count = 0  # messages that the next one of another chat overtakes
    floods: Count = 0
    account_floods: Count = 0  # the same for all that a bot sends, whatever the chat
    retry_after: Annotated[float, msgspec.Meta(ge=0)] = 0.1
    refusals: Count = 0
    lost_receipts: Count = 0
    lost_messages: Count = 0
    rejected_edits: Count = 0
    lost_edits: Count = 0  # made, and the bot is not told
    rejected_reactions: Count = 0
    cut: CutStyle = CutStyle.RESET
    disconnected: bool = False
    half_open: bool = False  # the line looks whole: nothing comes through, and nobody is told
    connect_refused: str = ""  # why no bot is let in, for good
    held_by: str = ""  # who has come in with the same token


class VendorInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What this vendor can do."""

    idempotent_send: bool
    max_length: int | None
    lookup: bool = False  # a bot may ask what became of a delivery
    backlog: Backlog = Backlog.UNTIL_ACKED  # what it keeps for a bot that is away
    edit: bool = False
    edit_interval: float = 1.0  # seconds that a bot is asked to leave between two edits
    typing: bool = False
    reactions: bool = False
    settle: float = 0.0  # seconds within which the parts of one message come
    buttons: bool = False
    relay: bool = False  # what a bot sends is given to all bots, to itself as its own
    busy_notices: bool = False  # False: what is sent is what answers, easy to count
    restart_notices: bool = False  # likewise
    alive_within: float = 0.0  # seconds after which a bot that hears nothing may doubt its line


class ConnectRefusal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a bot is not let in."""

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
    edits: tuple[str, ...] = ()  # what it said after each change
    deleted: bool = False
    reactions: dict[str, str] = {}  # what bots have put on it, by their accounts


class BotMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a bot as it stands in its chat; `duplicate`: its delivery id came before."""

    message_id: str
    outgoing: SendRequest
    duplicate: bool
    edits: tuple[str, ...] = ()  # what it said after each change, the last being what it says

    @property
    def text(self) -> str:
        """What people read there now."""
        return self.edits[-1] if self.edits else self.outgoing.text


class SendAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One call to send, whatever became of it."""

    delivery_id: str
    verdict: VendorVerdict


class EditAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One call to edit, whatever became of it; `at` is the vendor's clock, in seconds."""

    message_id: str
    text: str
    verdict: VendorVerdict
    at: float


class ReactAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One call to put a sign on a message or to take it back, whatever became of it."""

    message_id: str
    emoji: str | None
    verdict: VendorVerdict


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """All that was given, acknowledged and taken, each list in the order it happened."""

    said: tuple[PersonMessage, ...]
    sent: tuple[BotMessage, ...]
    attempts: tuple[SendAttempt, ...]
    edits: tuple[EditAttempt, ...] = ()
    typing: tuple[TypingRequest, ...] = ()
    reactions: tuple[ReactAttempt, ...] = ()
