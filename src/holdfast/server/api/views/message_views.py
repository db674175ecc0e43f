"""The views of messages: what is said to a session, and what became of it."""

import msgspec

from holdfast.core.messages.inbox import BusyMode, InboxState
from holdfast.core.turns.turn import Usage
from holdfast.server.api.views.names import Name


class AttachmentUpload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Images reach the model; every file is put into the session's workspace, under uploads/."""

    name: Name
    media_type: str = "application/octet-stream"
    data: str  # base64


class NewMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`message_id` is the client's own: sent again, it is the same message."""

    text: str
    message_id: Name
    mode: BusyMode | None = None  # what to do to a running turn; None: as configured
    attachments: list[AttachmentUpload] = []


class NewSteer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`message_id` is the client's own: sent again, it is the same message."""

    text: str
    message_id: Name


class AcceptedView(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    message_id: str
    session_id: str
    duplicate: bool
    state: InboxState


class MessageView(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a message: its end with the text its sender gets, or that it has none yet."""

    id: int
    session_id: str | None
    state: InboxState
    text: str
    reason: str
    usage: Usage


class StopResult(msgspec.Struct, frozen=True, kw_only=True):
    stopped: bool
