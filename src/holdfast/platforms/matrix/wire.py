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


class Error(msgspec.Struct, frozen=True):
    errcode: str = ""
    error: str = ""
    retry_after_ms: float | None = None


class Whoami(msgspec.Struct, frozen=True):
    user_id: str
    device_id: str = ""


class LoggedIn(msgspec.Struct, frozen=True):
    user_id: str
    device_id: str
    access_token: str


class Sent(msgspec.Struct, frozen=True):
    event_id: str


class Annotates(msgspec.Struct, frozen=True):
    key: str = ""


class ReactionContent(msgspec.Struct, frozen=True):
    relates_to: Annotates = msgspec.field(default=Annotates(), name="m.relates_to")


class Reaction(msgspec.Struct, frozen=True):
    """A sign that somebody has put on a message; one that was taken back says nothing."""

    event_id: str
    sender: str
    content: ReactionContent = ReactionContent()


class Reactions(msgspec.Struct, frozen=True):
    chunk: tuple[Reaction, ...] = ()


class Uploaded(msgspec.Struct, frozen=True):
    content_uri: str


class Nothing(msgspec.Struct, frozen=True):
    """An answer that says nothing but that it was done."""


class InReplyTo(msgspec.Struct, frozen=True):
    event_id: str = ""


class Relation(msgspec.Struct, frozen=True):
    rel_type: str = ""
    event_id: str = ""
    is_falling_back: bool = False
    in_reply_to: InReplyTo | None = msgspec.field(default=None, name="m.in_reply_to")


class Mentions(msgspec.Struct, frozen=True):
    user_ids: tuple[str, ...] = ()


class JsonWebKey(msgspec.Struct, frozen=True):
    k: str


class Hashes(msgspec.Struct, frozen=True):
    sha256: str


class SealedFile(msgspec.Struct, frozen=True):
    """A file whose server cannot read it."""

    url: str
    key: JsonWebKey
    iv: str
    hashes: Hashes


class Info(msgspec.Struct, frozen=True):
    size: int | None = None


class Content(msgspec.Struct, frozen=True):
    msgtype: str = ""
    body: str = ""
    format: str = ""
    formatted_body: str = ""
    filename: str = ""
    url: str = ""
    file: SealedFile | None = None
    info: Info = Info()
    geo_uri: str = ""
    relation: Relation | None = msgspec.field(default=None, name="m.relates_to")
    new_content: "Content | None" = msgspec.field(default=None, name="m.new_content")
    mentions: Mentions | None = msgspec.field(default=None, name="m.mentions")

    @property
    def replaces(self) -> str | None:
        """The message that this is an edit of."""
        if self.relation is None or self.relation.rel_type != "m.replace":
            return None
        return self.relation.event_id or None

    @property
    def thread(self) -> str | None:
        """The message that the thread began with."""
        if self.relation is None or self.relation.rel_type != "m.thread":
            return None
        return self.relation.event_id or None

    @property
    def answered(self) -> str | None:
        """What this is a reply to. In a thread each message names the one before it, for clients
        that know no threads: nobody has answered that."""
        if self.relation is None or self.relation.in_reply_to is None:
            return None
        return None if self.relation.is_falling_back else self.relation.in_reply_to.event_id


class Message(msgspec.Struct, frozen=True):
    """An event that somebody has said something with."""

    event_id: str
    sender: str
    type: str
    content: Content = Content()


class Timeline(msgspec.Struct, frozen=True):
    events: tuple[Json, ...] = ()
    limited: bool = False
    prev_batch: str | None = None


class Events(msgspec.Struct, frozen=True):
    events: tuple[Json, ...] = ()


class Joined(msgspec.Struct, frozen=True):
    timeline: Timeline = Timeline()
    state: Events = Events()  # before the timeline


class Invited(msgspec.Struct, frozen=True):
    invite_state: Events = Events()


class Rooms(msgspec.Struct, frozen=True):
    join: dict[str, Joined] = {}
    invite: dict[str, Invited] = {}


class Sync(msgspec.Struct, frozen=True):
    next_batch: str
    rooms: Rooms = Rooms()
    account_data: Events = Events()


class Predecessor(msgspec.Struct, frozen=True):
    room_id: str = ""


class Create(msgspec.Struct, frozen=True):
    """How a room says which one it has taken the place of."""

    predecessor: Predecessor = Predecessor()

    @classmethod
    def of(cls, event: Json) -> "Create":
        """Of a stranger's making, as all of it is."""
        try:
            return msgspec.convert(event.get("content", {}), cls)
        except msgspec.ValidationError:
            return cls()


class Page(msgspec.Struct, frozen=True):
    chunk: tuple[Json, ...] = ()
    end: str | None = None
