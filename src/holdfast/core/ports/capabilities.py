"""What a platform can do: declared by the platform, read by delivery, status and recovery."""

from enum import StrEnum

import msgspec

from holdfast.core.messages.source import ChatType
from holdfast.core.text.translatable import Translatable

WAITING_REACTION = "👀"
"""The reaction on a person's message while it waits in the queue. There is only one, because some
platforms must name the reaction that they remove."""


class Backlog(StrEnum):
    """What a platform stores for us while we are not connected."""

    UNTIL_ACKED = "until_acked"
    HISTORY = "history_since"
    NONE = "none"


class LengthUnit(StrEnum):
    """What the length of a message is counted in."""

    CHARACTERS = "characters"
    UTF16 = "utf16"  # code units: most emoji take two
    BYTES = "bytes"  # of UTF-8


class Formatting(StrEnum):
    """The markup that a platform reads; its adapter renders Markdown into it."""

    PLAIN = "plain"
    MARKDOWN = "markdown"
    HTML = "html"
    MRKDWN = "mrkdwn"  # Slack's own


class ChatIdFormat(msgspec.Struct, frozen=True, kw_only=True):
    """What the chat ids of a platform look like, so that a typing error is reported at once."""

    pattern: str  # a regular expression that the whole id matches
    example: str


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    backlog: Backlog = Backlog.NONE
    fetchable: bool = False  # its replies are fetched from us: committed means sent
    idempotent_send: bool = False  # the same delivery id is accepted once
    lookup: bool = False  # it can be asked whether a delivery has arrived
    max_length: int | None = None  # of one message, in its unit
    length_unit: LengthUnit = LengthUnit.CHARACTERS
    formatting: Formatting = Formatting.PLAIN
    # Seconds to wait for the rest of an album or of a pasted text that was split; 0: none come.
    merge_window: float = 0.0
    busy_notices: bool = True  # a message tells people what happens to theirs during a turn
    restart_notices: bool = True  # a message tells people that the gateway stops or is back
    edit: bool = False  # sent messages can be changed: replies are shown as they grow
    edit_interval: float = 1.0  # minimum seconds between two edits of one message
    group_edit_interval: float | None = None  # the same in groups; None: as `edit_interval`
    typing: bool = False  # it has a typing indicator
    buttons: bool = False  # it shows buttons under a message; a click arrives as a message
    reactions: bool = False  # we can react to a person's message with an emoji
    threads: bool = False  # its chats have threads, and a reply can go into one
    attachments_in: bool = False  # it receives files that people send
    attachments_out: bool = False  # it can send files
    max_file: int | None = None  # maximum bytes of a sent file; None: the gateway's own limit
    # What the vendor has not granted, each as a phrase that follows "it lacks": what does not work
    # without it, and what to do. Known once the vendor has answered.
    missing_grants: tuple[Translatable, ...] = ()
    chat_id_format: ChatIdFormat | None = None  # None: any text may be a chat id
    # Seconds within which a working connection calls `Intake.report_alive`, even if no one writes.
    # One that is silent for longer counts as half-open and is replaced. 0: no such limit.
    heartbeat_interval: float = 0.0

    @property
    def can_resolve_unknown(self) -> bool:
        """Whether a delivery with an unknown outcome can still be delivered exactly once."""
        return self.idempotent_send or self.lookup

    def edit_interval_in(self, chat_type: ChatType) -> float:
        """Seconds between two edits of one message in such a chat."""
        if chat_type is ChatType.DM or self.group_edit_interval is None:
            return self.edit_interval
        return self.group_edit_interval
