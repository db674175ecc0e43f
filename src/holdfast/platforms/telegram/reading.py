"""Reading: an update of the Bot API in our words."""

from holdfast.core.messages.inbox import Cursor, Inbound
from holdfast.core.messages.quote import Quote
from holdfast.core.messages.source import Author, ChatType, Source
from holdfast.platforms.telegram.wire import CallbackQuery, Chat, Entity, Message, Update, User

PLATFORM = "telegram"

_KINDS = {"private": ChatType.DM, "channel": ChatType.CHANNEL}  # all others are groups


class Reader:
    """Reads the updates of one bot; keeps nothing but who that is."""

    def __init__(self, me: User, *, account: str) -> None:
        self._me = me
        self._account = account

    @property
    def cursor(self) -> str:
        """Of this very bot: another one under the same name counts its updates from elsewhere."""
        return f"updates of {self._me.id}"

    def inbound(self, update: Update, *, kept: bool = True) -> Inbound | None:
        """None: nothing that anybody said. `kept`: updates come in order, so this one says how far
        the stream was taken."""
        value = str(update.update_id)
        cursor = Cursor(name=self.cursor, value=value) if kept else None
        if update.callback_query is not None:
            return self._pressed(update.callback_query, self._event(value), cursor)
        if update.said is not None:
            return self._said(update.said, self._event(value), cursor)
        return None

    def _said(self, message: Message, event_id: str, cursor: Cursor | None) -> Inbound:
        text, ours = self._addressed(message)
        return Inbound(
            source=self._source(message, _writer(message), author=self._author(message)),
            event_id=event_id,
            message_id=str(message.message_id),
            text=text or _told(message),
            mentioned=self._mentioned(message),
            quoted=self._quoted(message),
            group=message.media_group_id,
            commands=ours,
            cursor=cursor,
        )

    def _pressed(
        self, query: CallbackQuery, event_id: str, cursor: Cursor | None
    ) -> Inbound | None:
        """A button says what stands on it. Under a message that nobody can see any more, there is
        no chat to say it in."""
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

    def _event(self, update_id: str) -> str:
        return f"{self._me.id}/{update_id}"

    def _source(self, message: Message, by: User | Chat, *, author: Author) -> Source:
        chat = message.chat
        topic = message.message_thread_id if message.is_topic_message else None
        return Source(
            platform=PLATFORM,
            account=self._account,
            chat_id=str(chat.id),
            chat_type=_KINDS.get(chat.type, ChatType.GROUP),
            thread_id=None if topic is None else str(topic),
            user_id=str(by.id),
            user_name=_name(by),
            author=author,
        )

    def _author(self, message: Message) -> Author:
        sender = message.sender
        if sender is not None and sender.id == self._me.id:
            return Author.OURSELVES
        if message.is_automatic_forward:  # of a channel, into the group that talks about it
            return Author.BOT
        is_bot = sender is not None and sender.is_bot and message.sender_chat is None
        return Author.BOT if is_bot else Author.PERSON

    def _mentioned(self, message: Message) -> bool:
        name = f"@{self._me.username}".lower()
        return any(
            (mark.user is not None and mark.user.id == self._me.id)
            or (mark.type == "mention" and _marked(message.words, mark).lower() == name)
            or (mark.type == "bot_command" and _marked(message.words, mark).lower().endswith(name))
            for mark in message.marks
        )

    def _addressed(self, message: Message) -> tuple[str, bool]:
        """The text, where "/stop@this_bot" is "/stop", and whether its command is ours to do: in a
        group, "/stop@other_bot" is not."""
        first = next((mark for mark in message.marks if mark.type == "bot_command"), None)
        if first is None or first.offset != 0:
            return message.words, True
        command, at, bot = _marked(message.words, first).partition("@")
        if not at:
            return message.words, True
        if bot.lower() != self._me.username.lower():
            return message.words, False
        return command + message.words[len(command) + 1 + len(bot) :], True

    def _quoted(self, message: Message) -> Quote | None:
        replied = message.reply_to_message
        # Whatever is said in a topic answers the message that opened it, as the API has it.
        if replied is None or replied.message_id == message.message_thread_id:
            return None
        by = _writer(replied)
        return Quote(
            text=message.quote.text if message.quote else replied.words,
            user_id=str(by.id),
            user_name=_name(by),
            message_id=str(replied.message_id),
            ours=replied.sender is not None and replied.sender.id == self._me.id,
        )


def _writer(message: Message) -> User | Chat:
    """A person, or the group or channel in whose name somebody writes: then the person that the
    API names is one of its own making, the same for all of them."""
    return message.sender_chat or message.sender or message.chat


def _name(by: User | Chat) -> str | None:
    if isinstance(by, Chat):
        return by.title or None
    return f"{by.first_name} {by.last_name}".strip() or by.username or None


def _marked(text: str, mark: Entity) -> str:
    """Entities are counted in UTF-16 units, and our texts in characters."""
    if text.isascii():
        return text[mark.offset : mark.offset + mark.length]
    units = text.encode("utf-16-le")[2 * mark.offset : 2 * (mark.offset + mark.length)]
    return units.decode("utf-16-le", "replace")


def _told(message: Message) -> str:
    """What has no words of its own, in words."""
    if message.location is not None:
        return f"[Location: {message.location.latitude}, {message.location.longitude}]"
    if message.contact is not None:
        contact = message.contact
        name = f"{contact.first_name} {contact.last_name}".strip()
        return f"[Contact: {name}, {contact.phone_number}]"
    return message.sticker.emoji if message.sticker is not None else ""
