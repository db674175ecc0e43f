"""Matrix's objects, as far as this door reads them: https://spec.matrix.org/latest."""

from typing import Any

import msgspec

Json = dict[str, Any]

REACTION = "m.reaction"
MESSAGE, STICKER, ENCRYPTED, MEMBER, TOMBSTONE, CREATE = (
    "m.room.message",
    "m.sticker",
    "m.room.encrypted",
    "m.room.member",
    "m.room.tombstone",
    "m.room.create",
)


class MatrixError(msgspec.Struct, frozen=True):
    errcode: str = ""
    error: str = ""
    retry_after_ms: float | None = None


class MatrixIdentity(msgspec.Struct, frozen=True):
    user_id: str
    device_id: str = ""


class MatrixLoginResponse(msgspec.Struct, frozen=True):
    user_id: str
    device_id: str
    access_token: str


class MatrixSendResponse(msgspec.Struct, frozen=True):
    event_id: str


class ReactionRelation(msgspec.Struct, frozen=True):
    key: str = ""


class MatrixReactionContent(msgspec.Struct, frozen=True):
    relates_to: ReactionRelation = msgspec.field(default=ReactionRelation(), name="m.relates_to")


class MatrixReaction(msgspec.Struct, frozen=True):
    """A sign that somebody has put on a message; one that was taken back says nothing."""

    event_id: str
    sender: str
    content: MatrixReactionContent = MatrixReactionContent()


class MatrixReactionPage(msgspec.Struct, frozen=True):
    chunk: tuple[MatrixReaction, ...] = ()


class MatrixUploadResponse(msgspec.Struct, frozen=True):
    content_uri: str


class MatrixEmptyResponse(msgspec.Struct, frozen=True):
    """An answer that says nothing but that it was done."""


class MatrixReplyTarget(msgspec.Struct, frozen=True):
    event_id: str = ""


class MatrixRelation(msgspec.Struct, frozen=True):
    rel_type: str = ""
    event_id: str = ""
    is_falling_back: bool = False
    in_reply_to: MatrixReplyTarget | None = msgspec.field(default=None, name="m.in_reply_to")


class MatrixMentions(msgspec.Struct, frozen=True):
    user_ids: tuple[str, ...] = ()


class JsonWebKey(msgspec.Struct, frozen=True):
    k: str


class MatrixFileHashes(msgspec.Struct, frozen=True):
    sha256: str


class EncryptedFile(msgspec.Struct, frozen=True):
    """A file whose server cannot read it."""

    url: str
    key: JsonWebKey
    iv: str
    hashes: MatrixFileHashes


class MatrixFileInfo(msgspec.Struct, frozen=True):
    size: int | None = None


class MatrixContent(msgspec.Struct, frozen=True):
    msgtype: str = ""
    body: str = ""
    format: str = ""
    formatted_body: str = ""
    filename: str = ""
    url: str = ""
    file: EncryptedFile | None = None
    info: MatrixFileInfo = MatrixFileInfo()
    geo_uri: str = ""
    relation: MatrixRelation | None = msgspec.field(default=None, name="m.relates_to")
    new_content: "MatrixContent | None" = msgspec.field(default=None, name="m.new_content")
    mentions: MatrixMentions | None = msgspec.field(default=None, name="m.mentions")

    @property
    def replaces(self) -> str | None:
        """The message that this is an edit of."""
        if self.relation is None or self.relation.rel_type != "m.replace":
            return None
        return self.relation.event_id or None

    @property
    def thread_root(self) -> str | None:
        """The message that the thread began with."""
        if self.relation is None or self.relation.rel_type != "m.thread":
            return None
        return self.relation.event_id or None

    @property
    def reply_to(self) -> str | None:
        """What this is a reply to. In a thread each message names the one before it, for clients
        that know no threads: nobody has answered that."""
        if self.relation is None or self.relation.in_reply_to is None:
            return None
        return None if self.relation.is_falling_back else self.relation.in_reply_to.event_id


class MatrixMessage(msgspec.Struct, frozen=True):
    """An event that somebody has said something with."""

    event_id: str
    sender: str
    type: str
    content: MatrixContent = MatrixContent()


class MatrixTimeline(msgspec.Struct, frozen=True):
    events: tuple[Json, ...] = ()
    limited: bool = False
    prev_batch: str | None = None


class MatrixEvents(msgspec.Struct, frozen=True):
    events: tuple[Json, ...] = ()


class JoinedRoom(msgspec.Struct, frozen=True):
    timeline: MatrixTimeline = MatrixTimeline()
    state: MatrixEvents = MatrixEvents()  # before the timeline


class InvitedRoom(msgspec.Struct, frozen=True):
    invite_state: MatrixEvents = MatrixEvents()


class SyncRooms(msgspec.Struct, frozen=True):
    join: dict[str, JoinedRoom] = {}
    invite: dict[str, InvitedRoom] = {}


class SyncResponse(msgspec.Struct, frozen=True):
    next_batch: str
    rooms: SyncRooms = SyncRooms()
    account_data: MatrixEvents = MatrixEvents()


class RoomPredecessor(msgspec.Struct, frozen=True):
    room_id: str = ""


class RoomCreate(msgspec.Struct, frozen=True):
    """How a room says which one it has taken the place of."""

    predecessor: RoomPredecessor = RoomPredecessor()

    @classmethod
    def from_event(cls, event: Json) -> "RoomCreate":
        """Of a stranger's making, as all of it is."""
        try:
            return msgspec.convert(event.get("content", {}), cls)
        except msgspec.ValidationError:
            return cls()


class MatrixHistoryPage(msgspec.Struct, frozen=True):
    chunk: tuple[Json, ...] = ()
    end: str | None = None
