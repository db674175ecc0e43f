"""The Bot API's payload types, as far as they are read (https://core.telegram.org/bots/api), and
how they become inbound messages."""

import msgspec

from holdfast.core.messages.inbox import Cursor, Inbound
from holdfast.core.messages.source import Author, ChatType, Quote, Source

PLATFORM = "telegram"

DIRECT_TOPIC_PREFIX = "direct-"
"""Marks a thread that is a topic of a channel's direct messages: these have ids of their own."""

_CHAT_TYPES = {"private": ChatType.DM, "channel": ChatType.CHANNEL}  # all others are groups
ALLOWED_UPDATES = (
    "message",
    "edited_message",
    "channel_post",
    "edited_channel_post",
    "callback_query",
)


class TelegramUser(msgspec.Struct, frozen=True):
    id: int
    is_bot: bool = False
    first_name: str = ""
    last_name: str = ""
    username: str = ""
    language_code: str = ""
    can_read_all_group_messages: bool = False  # in `getMe` only: privacy mode is off


class TelegramChat(msgspec.Struct, frozen=True):
    id: int
    type: str  # "private", "group", "supergroup" or "channel"
    title: str = ""


class TelegramEntity(msgspec.Struct, frozen=True, omit_defaults=True):
    """Formatting, a mention or a command in a part of the text, counted in UTF-16 units."""

    type: str
    offset: int
    length: int
    url: str | None = None
    language: str | None = None
    user: TelegramUser | None = None


class TelegramFileInfo(msgspec.Struct, frozen=True):
    """The fields that all kinds of files share; some kinds have no name."""

    file_id: str
    file_size: int | None = None
    file_name: str | None = None
    mime_type: str | None = None


class TelegramSticker(msgspec.Struct, frozen=True):
    emoji: str = ""


class TelegramLocation(msgspec.Struct, frozen=True):
    latitude: float
    longitude: float


class TelegramContact(msgspec.Struct, frozen=True):
    phone_number: str
    first_name: str = ""
    last_name: str = ""


class TelegramTextQuote(msgspec.Struct, frozen=True):
    """The part of a message that a reply quotes."""

    text: str = ""


class TelegramDirectMessagesTopic(msgspec.Struct, frozen=True):
    """The conversation of one person with a channel, in the chat of its direct messages
    (https://core.telegram.org/bots/api#directmessagestopic)."""

    topic_id: int
    user: TelegramUser | None = None  # who opened it by writing to the channel


class TelegramMessage(msgspec.Struct, frozen=True, rename={"sender": "from"}):
    message_id: int
    chat: TelegramChat
    sender: TelegramUser | None = None
    sender_chat: TelegramChat | None = None
    text: str = ""
    entities: tuple[TelegramEntity, ...] = ()
    caption: str = ""
    caption_entities: tuple[TelegramEntity, ...] = ()
    message_thread_id: int | None = None
    is_topic_message: bool = False
    direct_messages_topic: TelegramDirectMessagesTopic | None = None
    is_automatic_forward: bool = False
    reply_to_message: "TelegramMessage | None" = None
    quote: TelegramTextQuote | None = None
    media_group_id: str | None = None
    photo: tuple[TelegramFileInfo, ...] = ()
    document: TelegramFileInfo | None = None
    voice: TelegramFileInfo | None = None
    audio: TelegramFileInfo | None = None
    video: TelegramFileInfo | None = None
    video_note: TelegramFileInfo | None = None
    animation: TelegramFileInfo | None = None
    sticker: TelegramSticker | None = None
    location: TelegramLocation | None = None
    contact: TelegramContact | None = None

    @property
    def text_or_caption(self) -> str:
        return self.text or self.caption

    @property
    def text_entities(self) -> tuple[TelegramEntity, ...]:
        return self.entities or self.caption_entities

    @property
    def thread_id(self) -> str | None:
        """The topic of the chat in which it was written, as an address names it."""
        if self.direct_messages_topic is not None:
            return f"{DIRECT_TOPIC_PREFIX}{self.direct_messages_topic.topic_id}"
        return str(self.message_thread_id) if self.is_topic_message else None

    @property
    def is_direct(self) -> bool:
        """Whether a person wrote it to the channel whose direct messages these are. What an
        administrator writes there is for that person."""
        topic = self.direct_messages_topic
        if topic is None or self.sender is None or self.sender_chat is not None:
            return False
        return topic.user is None or topic.user.id == self.sender.id


class TelegramCallbackQuery(msgspec.Struct, frozen=True, rename={"sender": "from"}):
    """A pressed button. If its message is too old, the API provides little more than the id."""

    id: str
    sender: TelegramUser
    message: TelegramMessage | None = None
    data: str = ""


class TelegramUpdate(msgspec.Struct, frozen=True):
    update_id: int
    message: TelegramMessage | None = None
    edited_message: TelegramMessage | None = None
    channel_post: TelegramMessage | None = None
    edited_channel_post: TelegramMessage | None = None
    callback_query: TelegramCallbackQuery | None = None

    @property
    def any_message(self) -> TelegramMessage | None:
        """The new or edited message. An edit is a further event about the same message, with its
        new text."""
        return self.message or self.edited_message or self.channel_post or self.edited_channel_post


class TelegramUpdateId(msgspec.Struct, frozen=True):
    """Decoded first: enough to confirm an update that is otherwise invalid."""

    update_id: int


class TelegramSentMessage(msgspec.Struct, frozen=True):
    message_id: int


class TelegramFile(msgspec.Struct, frozen=True):
    file_path: str = ""


class TelegramWebhookInfo(msgspec.Struct, frozen=True):
    url: str = ""
    last_error_message: str = ""


class TelegramResponseParameters(msgspec.Struct, frozen=True):
    """Additional fields of some errors."""

    retry_after: float | None = None
    migrate_to_chat_id: int | None = None


class TelegramResponse(msgspec.Struct, frozen=True):
    ok: bool
    result: msgspec.Raw = msgspec.Raw(b"null")
    description: str = ""
    parameters: TelegramResponseParameters = TelegramResponseParameters()


class TelegramParser:
    """Converts the updates of one bot to inbound messages; stateless."""

    def __init__(self, me: TelegramUser, *, account: str) -> None:
        self._me = me
        self._account = account

    @property
    def cursor(self) -> str:
        """The name of the cursor. Contains the bot's id: another bot in this account numbers its
        updates differently."""
        return f"updates of {self._me.id}"

    def to_inbound(self, update: TelegramUpdate, *, with_cursor: bool = True) -> Inbound | None:
        """Convert an update; None if it is not a message. With `with_cursor`, updates arrive in
        order, so this one is the position in the stream."""
        value = str(update.update_id)
        cursor = Cursor(name=self.cursor, value=value) if with_cursor else None
        if update.callback_query is not None:
            return self._from_button(update.callback_query, self._event_id(value), cursor)
        if update.any_message is not None:
            return self._from_message(update.any_message, self._event_id(value), cursor)
        return None

    def _from_message(
        self, message: TelegramMessage, event_id: str, cursor: Cursor | None
    ) -> Inbound:
        text, is_ours = self._strip_bot_name(message)
        return Inbound(
            source=self._source(message, _sender_of(message), author=self._author(message)),
            event_id=event_id,
            message_id=str(message.message_id),
            text=text or _describe_content(message),
            mentioned=message.is_direct or self._is_mentioned(message),
            quoted=self._quote(message),
            group=message.media_group_id,
            commands=is_ours,
            cursor=cursor,
        )

    def _from_button(
        self, query: TelegramCallbackQuery, event_id: str, cursor: Cursor | None
    ) -> Inbound | None:
        """A button sends its value as a message. If its message is too old, the API names no chat
        to send it to."""
        if query.message is None or not query.data:
            return None
        return Inbound(
            source=self._source(query.message, query.sender, author=Author.PERSON),
            event_id=event_id,
            message_id=str(query.message.message_id),
            text=query.data,
            mentioned=True,
            cursor=cursor,
        )

    def _event_id(self, update_id: str) -> str:
        return f"{self._me.id}/{update_id}"

    def _source(
        self, message: TelegramMessage, by: TelegramUser | TelegramChat, *, author: Author
    ) -> Source:
        chat = message.chat
        return Source(
            platform=PLATFORM,
            account=self._account,
            chat_id=str(chat.id),
            chat_type=_CHAT_TYPES.get(chat.type, ChatType.GROUP),
            thread_id=message.thread_id,
            user_id=str(by.id),
            user_name=_display_name(by),
            language=by.language_code if isinstance(by, TelegramUser) else "",
            author=author,
        )

    def _author(self, message: TelegramMessage) -> Author:
        sender = message.sender
        if sender is not None and sender.id == self._me.id:
            return Author.SELF
        if message.is_automatic_forward:  # a channel post in the discussion group of the channel
            return Author.BOT
        is_bot = sender is not None and sender.is_bot and message.sender_chat is None
        return Author.BOT if is_bot else Author.PERSON

    def _is_mentioned(self, message: TelegramMessage) -> bool:
        name = f"@{self._me.username}".lower()
        return any(
            (entity.user is not None and entity.user.id == self._me.id)
            or (
                entity.type == "mention"
                and _entity_text(message.text_or_caption, entity).lower() == name
            )
            or (
                entity.type == "bot_command"
                and _entity_text(message.text_or_caption, entity).lower().endswith(name)
            )
            for entity in message.text_entities
        )

    def _strip_bot_name(self, message: TelegramMessage) -> tuple[str, bool]:
        """The text, with "/stop@this_bot" as "/stop", and whether its command is for this bot: in a
        group, "/stop@other_bot" is not."""
        entities = message.text_entities
        first = next((each for each in entities if each.type == "bot_command"), None)
        if first is None or first.offset != 0:
            return message.text_or_caption, True
        command, at, bot = _entity_text(message.text_or_caption, first).partition("@")
        if not at:
            return message.text_or_caption, True
        if bot.lower() != self._me.username.lower():
            return message.text_or_caption, False
        return command + message.text_or_caption[len(command) + 1 + len(bot) :], True

    def _quote(self, message: TelegramMessage) -> Quote | None:
        replied = message.reply_to_message
        # In the API, every message of a topic is a reply to the message that opened it.
        if replied is None or replied.message_id == message.message_thread_id:
            return None
        by = _sender_of(replied)
        return Quote(
            text=message.quote.text if message.quote else replied.text_or_caption,
            user_id=str(by.id),
            user_name=_display_name(by),
            message_id=str(replied.message_id),
            ours=replied.sender is not None and replied.sender.id == self._me.id,
        )


def _sender_of(message: TelegramMessage) -> TelegramUser | TelegramChat:
    """The person, or the group or channel on whose behalf a person writes; then `from` is a
    placeholder that is the same for all of them."""
    return message.sender_chat or message.sender or message.chat


def _display_name(by: TelegramUser | TelegramChat) -> str | None:
    if isinstance(by, TelegramChat):
        return by.title or None
    return f"{by.first_name} {by.last_name}".strip() or by.username or None


def _entity_text(text: str, entity: TelegramEntity) -> str:
    """The text of an entity. Entities are counted in UTF-16 units, and our texts in characters."""
    if text.isascii():
        return text[entity.offset : entity.offset + entity.length]
    units = text.encode("utf-16-le")[2 * entity.offset : 2 * (entity.offset + entity.length)]
    return units.decode("utf-16-le", "replace")


def _describe_content(message: TelegramMessage) -> str:
    """A text for content that has none."""
    if message.location is not None:
        return f"[Location: {message.location.latitude}, {message.location.longitude}]"
    if message.contact is not None:
        contact = message.contact
        name = f"{contact.first_name} {contact.last_name}".strip()
        return f"[Contact: {name}, {contact.phone_number}]"
    return message.sticker.emoji if message.sticker is not None else ""
