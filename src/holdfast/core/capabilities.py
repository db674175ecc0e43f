"""What a platform can do, declared by it and read by delivery, status and recovery."""

from enum import StrEnum

import msgspec


class Backlog(StrEnum):
    """What a platform keeps for us while we are away."""

    UNTIL_ACKED = "until_acked"
    HISTORY = "history_since"
    NONE = "none"


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    backlog: Backlog = Backlog.NONE
    fetchable: bool = False  # its replies are fetched from us: committed means sent
    idempotent_send: bool = False  # the same delivery id is taken once
    max_length: int | None = None  # characters of one message
    settle: float = 0.0  # seconds to wait for the rest of an album or a split paste; 0: none come
    busy_notices: bool = True  # people are told by message what happens to theirs in a turn
    restart_notices: bool = True  # people are told by message that the gateway goes or is back
    edit: bool = False  # what was sent can be changed: replies are shown there as they grow
    edit_interval: float = 1.0  # seconds between two edits of one message, at the least
    typing: bool = False  # it shows that somebody writes, for a few seconds
    buttons: bool = False  # it shows the choices of a message, and hands a click in as a message
