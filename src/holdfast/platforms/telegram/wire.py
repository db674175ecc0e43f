"""The Bot API's objects, as far as this door reads them: https://core.telegram.org/bots/api."""

import msgspec


class User(msgspec.Struct, frozen=True):
    id: int
    is_bot: bool = False
    first_name: str = ""
    last_name: str = ""
    username: str = ""
    can_read_all_group_messages: bool = False  # of ourselves only: privacy mode is off


class Chat(msgspec.Struct, frozen=True):
    id: int
    type: str  # "private", "group", "supergroup" or "channel"
    title: str = ""


class Entity(msgspec.Struct, frozen=True, omit_defaults=True):
    """A mark on a stretch of text, counted in UTF-16 units."""

    type: str
    offset: int
    length: int
    url: str | None = None
    language: str | None = None
    user: User | None = None


class FileInfo(msgspec.Struct, frozen=True):
    """What all kinds of files have; a kind that has no name of its own is given one here."""

    file_id: str
    file_size: int | None = None
    file_name: str | None = None
    mime_type: str | None = None


class Sticker(msgspec.Struct, frozen=True):
    emoji: str = ""


class Location(msgspec.Struct, frozen=True):
    latitude: float
    longitude: float


class Contact(msgspec.Struct, frozen=True):
    phone_number: str
    first_name: str = ""
    last_name: str = ""


class TextQuote(msgspec.Struct, frozen=True):
    """The part of a message that somebody chose to answer."""

    text: str = ""


class Message(msgspec.Struct, frozen=True, rename={"sender": "from"}):
    message_id: int
    chat: Chat
    sender: User | None = None
    sender_chat: Chat | None = None
    text: str = ""
    entities: tuple[Entity, ...] = ()
    caption: str = ""
    caption_entities: tuple[Entity, ...] = ()
    message_thread_id: int | None = None
    is_topic_message: bool = False
    is_automatic_forward: bool = False
    reply_to_message: "Message | None" = None
    quote: TextQuote | None = None
    media_group_id: str | None = None
    photo: tuple[FileInfo, ...] = ()
    document: FileInfo | None = None
    voice: FileInfo | None = None
    audio: FileInfo | None = None
    video: FileInfo | None = None
    video_note: FileInfo | None = None
    animation: FileInfo | None = None
    sticker: Sticker | None = None
    location: Location | None = None
    contact: Contact | None = None

    @property
    def words(self) -> str:
        return self.text or self.caption

    @property
    def marks(self) -> tuple[Entity, ...]:
        return self.entities or self.caption_entities


class CallbackQuery(msgspec.Struct, frozen=True, rename={"sender": "from"}):
    """A button was pressed. Of a message that is too old, the API has little more than the id."""

    id: str
    sender: User
    message: Message | None = None
    data: str = ""


class Update(msgspec.Struct, frozen=True):
    update_id: int
    message: Message | None = None
    edited_message: Message | None = None
    channel_post: Message | None = None
    edited_channel_post: Message | None = None
    callback_query: CallbackQuery | None = None

    @property
    def said(self) -> Message | None:
        """An edited message is another event about it: it is said once more, with its new words."""
        return self.message or self.edited_message or self.channel_post or self.edited_channel_post


WANTED = ("message", "edited_message", "channel_post", "edited_channel_post", "callback_query")


class Numbered(msgspec.Struct, frozen=True):
    """What is read of an update first: enough to confirm one that makes no sense."""

    update_id: int


class SentMessage(msgspec.Struct, frozen=True):
    message_id: int


class File(msgspec.Struct, frozen=True):
    file_path: str = ""


class WebhookInfo(msgspec.Struct, frozen=True):
    url: str = ""
    last_error_message: str = ""


class Parameters(msgspec.Struct, frozen=True):
    """What some refusals say besides."""

    retry_after: float | None = None
    migrate_to_chat_id: int | None = None


class Answer(msgspec.Struct, frozen=True):
    ok: bool
    result: msgspec.Raw = msgspec.Raw(b"null")
    description: str = ""
    parameters: Parameters = Parameters()
