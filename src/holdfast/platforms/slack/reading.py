"""Reading: what comes from Slack in our words."""

from holdfast.core.messages.inbox import Inbound
from holdfast.core.messages.quote import Quote
from holdfast.core.messages.source import Author, ChatType, Source
from holdfast.core.people.commands import BY_NAME
from holdfast.platforms.slack.wire import Command, Identity, Message, Press
from holdfast.platforms.slack.words import names, plain

PLATFORM = "slack"

# https://docs.slack.dev/reference/events/message#subtypes: those in which somebody says something.
_SAID = frozenset({None, "", "file_share", "me_message", "thread_broadcast", "bot_message"})


class Reader:
    """Reads the events of one app; keeps nothing but who that is."""

    def __init__(self, me: Identity, *, account: str, threads: bool) -> None:
        self._me = me
        self._account = account
        self._threads = threads

    def said(self, event: Message) -> tuple[Message, Inbound] | None:
        """The message that an event is about, with it in our words; None: nobody said anything,
        or only we did: each change of a reply that grows comes back to us.

        What mentions the app in a channel comes twice, as `message` and as `app_mention`, with
        event ids of their own: the name of the event is therefore that of the message, and of the
        change to it.
        """
        message = _changed(event) if event.subtype == "message_changed" else event
        if message is None or message.subtype not in _SAID or not message.ts:
            return None
        author = self._author(message)
        if author is Author.OURSELVES:
            return None
        chat, text = event.channel, message.text or ""
        mentioned = names(text, self._me.user_id)
        alone = f"@{self._me.user}" if mentioned else ""  # who is called by name is asked
        version = f"/{message.edited.ts}" if message.edited is not None else ""
        return message, Inbound(
            source=self._source(message, chat, kind=event.channel_type, author=author),
            event_id=self._event(f"{chat}/{message.ts}{version}"),
            message_id=message.ts,
            text=plain(text, me=self._me.user_id) or alone,
            mentioned=mentioned,
            quoted=self._quoted(message),
        )

    def pressed(self, press: Press) -> Inbound | None:
        """A button says what stands on it. One of a message that is gone has no chat to say it
        in."""
        action = press.actions[0] if press.actions else None
        if press.channel is None or press.message is None or action is None or not action.value:
            return None
        place, message = press.channel.id, press.message
        return Inbound(
            source=Source(
                platform=PLATFORM,
                account=self._account,
                chat_id=place,
                chat_type=_kind(place, ""),
                thread_id=_thread(message),
                user_id=press.user.id,
                user_name=press.user.username,
            ),
            event_id=self._event(f"{place}/{message.ts}/{press.user.id}/{action.action_ts}"),
            message_id=message.ts,
            text=action.value,
            mentioned=True,
        )

    def commanded(self, command: Command) -> Inbound:
        """Slack has no such commands in threads, so it is the chat's own conversation."""
        return Inbound(
            source=Source(
                platform=PLATFORM,
                account=self._account,
                chat_id=command.channel_id,
                chat_type=_kind(command.channel_id, ""),
                user_id=command.user_id,
                user_name=command.user_name,
            ),
            event_id=self._event(f"{command.channel_id}/command/{command.trigger_id}"),
            message_id=command.trigger_id,
            text=plain(_commanded(command), me=self._me.user_id),
            mentioned=True,
        )

    def _event(self, name: str) -> str:
        return f"{self._me.team_id}/{name}"

    def _source(self, message: Message, chat: str, *, kind: str, author: Author) -> Source:
        chat_type = _kind(chat, kind)
        thread = _thread(message)
        if thread is None and self._threads and chat_type is not ChatType.DM:
            thread = message.ts  # the answer opens it, and what follows there belongs to it
        return Source(
            platform=PLATFORM,
            account=self._account,
            chat_id=chat,
            chat_type=chat_type,
            thread_id=thread,
            user_id=message.user or message.bot_id or "",
            user_name=message.username,
            author=author,
        )

    def _author(self, message: Message) -> Author:
        ours = {self._me.user_id, self._me.bot_id} - {""}
        if message.user in ours or message.bot_id in ours:
            return Author.OURSELVES
        is_bot = bool(message.bot_id) or message.subtype == "bot_message"
        return Author.BOT if is_bot else Author.PERSON

    def _quoted(self, message: Message) -> Quote | None:
        """Whatever is said in a thread answers the message that opened it. Slack says who wrote
        that, and not what: the words are in the conversation if they were ours."""
        if not message.parent_user_id or message.thread_ts == message.ts:
            return None
        return Quote(
            user_id=message.parent_user_id,
            message_id=message.thread_ts,
            ours=message.parent_user_id == self._me.user_id,
        )


def _commanded(command: Command) -> str:
    """`/holdfast stop` is `/stop`, and so is `/stop`, where the app has one. What begins with no
    command of ours is said to the agent, and nothing at all asks for help."""
    own, words = command.command.lstrip("/").lower(), command.text.strip().lstrip("/")
    if own in BY_NAME:
        return f"/{own} {words}".rstrip()
    first = words.split(maxsplit=1)[0].lower() if words else "help"
    return f"/{words or first}" if first in BY_NAME else command.text


def _changed(event: Message) -> Message | None:
    """How it reads now. Slack also tells of changes that nobody made: the preview of a link, the
    first answer in a thread."""
    new, old = event.message, event.previous_message
    if new is None or new.edited is None:
        return None
    return None if old is not None and old.text == new.text else new


def _thread(message: Message) -> str | None:
    """The first message of a thread tells its own name as that of the thread, and stands in the
    chat itself."""
    return message.thread_ts if message.thread_ts != message.ts else None


def _kind(chat: str, told: str) -> ChatType:
    """Not every event tells it; the name of a chat of two begins with a D."""
    return ChatType.DM if told == "im" or chat.startswith("D") else ChatType.GROUP
