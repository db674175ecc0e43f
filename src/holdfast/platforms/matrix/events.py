"""Matrix's payload types (https://spec.matrix.org/latest), as far as they are read here, and how
they become inbound messages."""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.core.commands import COMMANDS_BY_NAME
from holdfast.core.messages.inbox import Inbound
from holdfast.core.messages.source import Author, ChatType, Quote, Source

Json = dict[str, Any]

PLATFORM = "matrix"

REACTION = "m.reaction"
MESSAGE, STICKER, ENCRYPTED, MEMBER, TOMBSTONE, CREATE = (
    "m.room.message",
    "m.sticker",
    "m.room.encrypted",
    "m.room.member",
    "m.room.tombstone",
    "m.room.create",
)
FILE_MESSAGE_TYPES = frozenset({"m.image", "m.file", "m.audio", "m.video"})
# The quote that older clients put in front of a reply, for clients that do not support replies.
_REPLY_FALLBACK = re.compile(r"\A(?:>[^\n]*\n)+\n")
_BANG_COMMAND = re.compile(r"\A!(\w+)(?=\s|\Z)")
_UNDECRYPTABLE_TEXT = (
    "[This message is encrypted, and its key has not arrived. You get the message when the key "
    "arrives; until then its content is unknown.]"
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
    """A reaction to a message. A removed one has no content."""

    event_id: str
    sender: str
    content: MatrixReactionContent = MatrixReactionContent()


class MatrixReactionPage(msgspec.Struct, frozen=True):
    chunk: tuple[MatrixReaction, ...] = ()


class MatrixUploadResponse(msgspec.Struct, frozen=True):
    content_uri: str


class MatrixEmptyResponse(msgspec.Struct, frozen=True):
    """A response of which no field is read."""


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
    """An end-to-end encrypted file."""

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
        """The first message of the thread."""
        if self.relation is None or self.relation.rel_type != "m.thread":
            return None
        return self.relation.event_id or None

    @property
    def reply_to(self) -> str | None:
        """The message that this one replies to. In a thread, each message names the previous one
        for clients without support for threads; that is not a reply."""
        if self.relation is None or self.relation.in_reply_to is None:
            return None
        return None if self.relation.is_falling_back else self.relation.in_reply_to.event_id


class MatrixMessage(msgspec.Struct, frozen=True):
    """A message event, decrypted."""

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
    """The content of `m.room.create`, which names the room that this one replaces."""

    predecessor: RoomPredecessor = RoomPredecessor()

    @classmethod
    def from_event(cls, event: Json) -> "RoomCreate":
        """The content is untrusted: an invalid one has no predecessor."""
        try:
            return msgspec.convert(event.get("content", {}), cls)
        except msgspec.ValidationError:
            return cls()


class MatrixHistoryPage(msgspec.Struct, frozen=True):
    chunk: tuple[Json, ...] = ()
    end: str | None = None


def is_membership(event: Json, user_id: str, membership: str) -> bool:
    """Whether the event gives the user this membership of the room."""
    return (
        event.get("type") == MEMBER
        and event.get("state_key") == user_id
        and event.get("content", {}).get("membership") == membership
    )


class MessageContext(msgspec.Struct, frozen=True, kw_only=True):
    """A message with everything that must be looked up before it can be parsed."""

    message: MatrixMessage
    room_id: str
    chat_type: ChatType
    user_name: str | None = None
    our_name: str | None = None  # in that room
    original: MatrixMessage | None = None  # what it is an edit of, if available
    reply_target: MatrixMessage | None = None  # what it replies to, if available
    reply_target_name: str | None = None  # display name of its author

    @property
    def current_content(self) -> MatrixContent:
        """The content after the edit, if the message is one."""
        content = self.message.content
        return content.new_content or content if content.replaces else content

    @property
    def relation_content(self) -> MatrixContent:
        """The content that names thread and reply target: of an edit, that of its original."""
        if self.message.content.replaces and self.original is not None:
            return self.original.content
        return self.message.content


class MatrixParser:
    """Turns messages into inbound messages. Its only state is the account's identity."""

    def __init__(
        self, user_id: str, *, account: str, chat_of: Callable[[str], str] = lambda room: room
    ) -> None:
        """`chat_of`: the chat id of a room; that of its first predecessor, if the room was
        upgraded."""
        self._user_id = user_id
        self._account = account
        self._chat_of = chat_of

    @property
    def cursor_name(self) -> str:
        """Contains the user id, because each user has a sync stream of its own."""
        return f"sync of {self._user_id}"

    def is_ours(self, message: MatrixMessage) -> bool:
        return message.sender == self._user_id

    def parse(self, context: MessageContext) -> Inbound:
        content = context.current_content
        return Inbound(
            source=self._source(context),
            event_id=context.message.event_id,
            message_id=context.message.content.replaces or context.message.event_id,
            text=self._text(context),
            mentioned=self._is_mentioned(content, context.our_name),
            quoted=self._quote(context),
        )

    def parse_undecryptable(self, context: MessageContext) -> Inbound:
        """A placeholder, with an event id of its own: the message itself follows once its keys
        arrive."""
        return Inbound(
            source=self._source(context),
            event_id=f"{context.message.event_id}/sealed",
            message_id=context.message.event_id,
            text=_UNDECRYPTABLE_TEXT,
        )

    def _source(self, context: MessageContext) -> Source:
        return Source(
            platform=PLATFORM,
            account=self._account,
            chat_id=self._chat_of(context.room_id),
            chat_type=context.chat_type,
            thread_id=context.relation_content.thread_root,
            user_id=context.message.sender,
            user_name=context.user_name or context.message.sender,
            author=self._author(context.message),
        )

    def _author(self, message: MatrixMessage) -> Author:
        """https://spec.matrix.org/latest/client-server-api/#mnotice: bots send their own messages
        as notices, so that no other bot replies to them."""
        if self.is_ours(message):
            return Author.SELF
        return Author.BOT if message.content.msgtype == "m.notice" else Author.PERSON

    def _is_mentioned(self, content: MatrixContent, our_name: str | None) -> bool:
        """https://spec.matrix.org/latest/client-server-api/#user-and-room-mentions: if the client
        lists the mentioned users, that list decides; older clients write a link, or a leading
        name."""
        if self._strip_own_name(content.body, our_name) != content.body:
            return True
        if content.mentions is not None:
            return self._user_id in content.mentions.user_ids
        return self._user_id in content.formatted_body or self._user_id in content.body

    def _strip_own_name(self, body: str, our_name: str | None) -> str:
        """Removes our leading name, so that "bot: /stop" is a command."""
        text = body.lstrip()
        for name in (self._user_id, our_name or self._user_id):
            for prefix in (f"@{name}", name):
                rest = text[len(prefix) :]
                if text.casefold().startswith(prefix.casefold()) and _ends_name(rest):
                    return rest.lstrip(":, ").strip()
        return body

    def _text(self, context: MessageContext) -> str:
        content = context.current_content
        body = (
            _REPLY_FALLBACK.sub("", content.body)
            if context.relation_content.reply_to
            else content.body
        )
        if context.message.type == STICKER:
            return f"[Sticker: {content.body}]"
        if content.msgtype in FILE_MESSAGE_TYPES:
            return body if content.filename and content.filename != content.body else ""
        if content.msgtype == "m.location":
            return f"[Location: {content.geo_uri} {content.body}]"
        text = self._strip_own_name(body, context.our_name)
        if content.msgtype == "m.emote":
            return f"* {context.user_name or context.message.sender} {text}"
        # A message that is only our name is still addressed to us.
        return _as_command(text) if text or not body else body

    def _quote(self, context: MessageContext) -> Quote | None:
        target_id = context.relation_content.reply_to
        if target_id is None:
            return None
        target = context.reply_target
        if target is None:
            return Quote(message_id=target_id)
        content = target.content.new_content or target.content
        body = _REPLY_FALLBACK.sub("", content.body) if content.reply_to else content.body
        return Quote(
            text=body,
            user_id=target.sender,
            user_name=context.reply_target_name,
            message_id=target_id,
            ours=self.is_ours(target),
        )


def _ends_name(rest: str) -> bool:
    return not rest or not (rest[0].isalnum() or rest[0] in "_-.")


def _as_command(text: str) -> str:
    """Clients interpret messages with a leading slash themselves, so a command may also begin with
    an exclamation mark."""
    found = _BANG_COMMAND.match(text)
    return f"/{text[1:]}" if found and found[1].lower() in COMMANDS_BY_NAME else text
