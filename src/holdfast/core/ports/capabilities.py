"""What a platform can do: declared by the platform, read by delivery, status and recovery."""

from enum import StrEnum

import msgspec

from holdfast.core.messages.source import ChatType


class Backlog(StrEnum):
    """What a platform keeps for us while we are away."""

    UNTIL_ACKED = "until_acked"
    HISTORY = "history_since"
    NONE = "none"


class LengthUnit(StrEnum):
    """What the length of a message is counted in."""

    CHARACTERS = "characters"
    UTF16 = "utf16"  # units of it: most emoji are two
    BYTES = "bytes"  # of UTF-8


class Formatting(StrEnum):
    """What a platform reads as more than its letters; a door renders Markdown into it."""

    PLAIN = "plain"
    MARKDOWN = "markdown"
    HTML = "html"
    MRKDWN = "mrkdwn"  # Slack's own


class ChatIdFormat(msgspec.Struct, frozen=True, kw_only=True):
    """What the ids of a platform's chats look like, so that a slip of the pen is told at once."""

    pattern: str  # a regular expression that the whole id fits
    example: str


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    backlog: Backlog = Backlog.NONE
    fetchable: bool = False  # its replies are fetched from us: committed means sent
    idempotent_send: bool = False  # the same delivery id is taken once
    lookup: bool = False  # it can be asked whether a delivery has arrived
    max_length: int | None = None  # of one message, in its unit
    length_unit: LengthUnit = LengthUnit.CHARACTERS
    formatting: Formatting = Formatting.PLAIN
    merge_window: float = (
        0.0  # seconds to wait for the rest of an album or a split paste; 0: none come
    )
    busy_notices: bool = True  # people are told by message what happens to theirs in a turn
    restart_notices: bool = True  # people are told by message that the gateway goes or is back
    edit: bool = False  # what was sent can be changed: replies are shown there as they grow
    edit_interval: float = 1.0  # seconds between two edits of one message, at the least
    group_edit_interval: float | None = None  # the same where many read; None: no longer there
    typing: bool = False  # it shows that somebody writes, for a few seconds
    buttons: bool = False  # it shows the choices of a message, and hands a click in as a message
    reactions: bool = False  # a person's message can bear a sign of ours
    threads: bool = False  # its chats have threads, and a reply can go into one
    attachments_in: bool = False  # it hands in files that people send
    attachments_out: bool = False  # it takes files from us
    max_file: int | None = None  # bytes of one of those; None: what the gateway sends at the most
    # What its vendor has not granted, each in words that go behind "it lacks": what is missing
    # without it, and what to do. Known once there was an answer.
    missing_grants: tuple[str, ...] = ()
    chat_id_format: ChatIdFormat | None = None  # None: anything may be the id of a chat
    # Seconds within which a line that lives has told `Intake.proven`, whatever people do. One that
    # is silent for longer is taken for half-open and replaced. 0: silence means nothing here.
    heartbeat_interval: float = 0.0

    @property
    def can_resolve_unknown(self) -> bool:
        """Whether a delivery that may have arrived can be brought there exactly once."""
        return self.idempotent_send or self.lookup

    def edit_interval_in(self, chat_type: ChatType) -> float:
        """Seconds between two edits of one message in such a chat."""
        if chat_type is ChatType.DM or self.group_edit_interval is None:
            return self.edit_interval
        return self.group_edit_interval


# it takes back can.
WAITING_REACTION = "👀"
