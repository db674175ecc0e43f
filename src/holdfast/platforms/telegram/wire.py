"""The Bot API's objects, as far as this door reads them: https://core.telegram.org/bots/api."""

import msgspec


class TelegramUser(msgspec.Struct, frozen=True):
    id: int
    is_bot: bool = False
    first_name: str = ""
    last_name: str = ""
    username: str = ""
    can_read_all_group_messages: bool = False  # of ourselves only: privacy mode is off


class TelegramChat(msgspec.Struct, frozen=True):
    id: int
    type: str  # "private", "group", "supergroup" or "channel"
    title: str = ""


class TelegramEntity(msgspec.Struct, frozen=True, omit_defaults=True):
    """A mark on a stretch of text, counted in UTF-16 units."""

    type: str
    offset: int
    length: int
    url: str | None = None
    language: str | None = None
    user: TelegramUser | None = None


class TelegramFileInfo(msgspec.Struct, frozen=True):
    """What all kinds of files have; a kind that has no name of its own is given one here."""

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
    """The part of a message that somebody chose to answer."""

    text: str = ""


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


class TelegramCallbackQuery(msgspec.Struct, frozen=True, rename={"sender": "from"}):
    """A button was pressed. Of a message that is too old, the API has little more than the id."""

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
        """An edited message is another event about it: it is said once more, with its new words."""
        return self.message or self.edited_message or self.channel_post or self.edited_channel_post


ALLOWED_UPDATES = (
    "message",
    "edited_message",
    "channel_post",
    "edited_channel_post",
    "callback_query",
)


class TelegramUpdateId(msgspec.Struct, frozen=True):
    """What is read of an update first: enough to confirm one that makes no sense."""

    update_id: int


class TelegramSentMessage(msgspec.Struct, frozen=True):
    message_id: int


class TelegramFile(msgspec.Struct, frozen=True):
    file_path: str = ""


class TelegramWebhookInfo(msgspec.Struct, frozen=True):
    url: str = ""
    last_error_message: str = ""


class TelegramResponseParameters(msgspec.Struct, frozen=True):
    """What some refusals say besides."""

    retry_after: float | None = None
    migrate_to_chat_id: int | None = None


class TelegramResponse(msgspec.Struct, frozen=True):
    ok: bool
    result: msgspec.Raw = msgspec.Raw(b"null")
    description: str = ""
    parameters: TelegramResponseParameters = TelegramResponseParameters()
