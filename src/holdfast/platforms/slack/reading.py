"""Reading: what comes from Slack in our words."""

from holdfast.core.messages.inbox import Inbound
from holdfast.core.messages.quote import Quote
from holdfast.core.messages.source import Author, ChatType, Source
from holdfast.core.people.commands import COMMANDS_BY_NAME
from holdfast.platforms.slack.wire import (
    SlackCommand,
    SlackIdentity,
    SlackInteraction,
    SlackMessage,
)
from holdfast.platforms.slack.words import mentions, plain_text

PLATFORM = "slack"

# https://docs.slack.dev/reference/events/message#subtypes: those in which somebody says something.
_MESSAGE_SUBTYPES = frozenset(
    {None, "", "file_share", "me_message", "thread_broadcast", "bot_message"}
)


class SlackParser:
    """Reads the events of one app; keeps nothing but who that is."""

    def __init__(self, identity: SlackIdentity, *, account: str, reply_in_threads: bool) -> None:
        self._identity = identity
        self._account = account
        self._reply_in_threads = reply_in_threads

    def parse_message(self, event: SlackMessage) -> tuple[SlackMessage, Inbound] | None:
        """The message that an event is about, with it in our words; None: nobody said anything,
        or only we did: each change of a reply that grows comes back to us.

        What mentions the app in a channel comes twice, as `message` and as `app_mention`, with
        event ids of their own: the name of the event is therefore that of the message, and of the
        change to it.
        """
        message = _edited_message(event) if event.subtype == "message_changed" else event
        if message is None or message.subtype not in _MESSAGE_SUBTYPES or not message.ts:
            return None
        author = self._author(message)
        if author is Author.SELF:
            return None
        chat, text = event.channel, message.text or ""
        mentioned = mentions(text, self._identity.user_id)
        alone = f"@{self._identity.user}" if mentioned else ""  # who is called by name is asked
        version = f"/{message.edited.ts}" if message.edited is not None else ""
        return message, Inbound(
            source=self._source(message, chat, channel_type=event.channel_type, author=author),
            event_id=self._event_id(f"{chat}/{message.ts}{version}"),
            message_id=message.ts,
            text=plain_text(text, own_user_id=self._identity.user_id) or alone,
            mentioned=mentioned,
            quoted=self._quote(message),
        )

    def parse_interaction(self, interaction: SlackInteraction) -> Inbound | None:
        """A button says what stands on it. One of a message that is gone has no chat to say it
        in."""
        action = interaction.actions[0] if interaction.actions else None
        if (
            interaction.channel is None
            or interaction.message is None
            or action is None
            or not action.value
        ):
            return None
        place, message = interaction.channel.id, interaction.message
        return Inbound(
            source=Source(
                platform=PLATFORM,
                account=self._account,
                chat_id=place,
                chat_type=_chat_type(place, ""),
                thread_id=_thread_id(message),
                user_id=interaction.user.id,
                user_name=interaction.user.username,
            ),
            event_id=self._event_id(
                f"{place}/{message.ts}/{interaction.user.id}/{action.action_ts}"
            ),
            message_id=message.ts,
            text=action.value,
            mentioned=True,
        )

    def parse_command(self, command: SlackCommand) -> Inbound:
        """Slack has no such commands in threads, so it is the chat's own conversation."""
        return Inbound(
            source=Source(
                platform=PLATFORM,
                account=self._account,
                chat_id=command.channel_id,
                chat_type=_chat_type(command.channel_id, ""),
                user_id=command.user_id,
                user_name=command.user_name,
            ),
            event_id=self._event_id(f"{command.channel_id}/command/{command.trigger_id}"),
            message_id=command.trigger_id,
            text=plain_text(_command_text(command), own_user_id=self._identity.user_id),
            mentioned=True,
        )

    def _event_id(self, name: str) -> str:
        return f"{self._identity.team_id}/{name}"

    def _source(
        self, message: SlackMessage, chat: str, *, channel_type: str, author: Author
    ) -> Source:
        chat_type = _chat_type(chat, channel_type)
        thread = _thread_id(message)
        if thread is None and self._reply_in_threads and chat_type is not ChatType.DM:
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

    def _author(self, message: SlackMessage) -> Author:
        ours = {self._identity.user_id, self._identity.bot_id} - {""}
        if message.user in ours or message.bot_id in ours:
            return Author.SELF
        is_bot = bool(message.bot_id) or message.subtype == "bot_message"
        return Author.BOT if is_bot else Author.PERSON

    def _quote(self, message: SlackMessage) -> Quote | None:
        """Whatever is said in a thread answers the message that opened it. Slack says who wrote
        that, and not what: the words are in the conversation if they were ours."""
        if not message.parent_user_id or message.thread_ts == message.ts:
            return None
        return Quote(
            user_id=message.parent_user_id,
            message_id=message.thread_ts,
            ours=message.parent_user_id == self._identity.user_id,
        )


def _command_text(command: SlackCommand) -> str:
    """`/holdfast stop` is `/stop`, and so is `/stop`, where the app has one. What begins with no
    command of ours is said to the agent, and nothing at all asks for help."""
    own, words = command.command.lstrip("/").lower(), command.text.strip().lstrip("/")
    if own in COMMANDS_BY_NAME:
        return f"/{own} {words}".rstrip()
    first = words.split(maxsplit=1)[0].lower() if words else "help"
    return f"/{words or first}" if first in COMMANDS_BY_NAME else command.text


def _edited_message(event: SlackMessage) -> SlackMessage | None:
    """How it reads now. Slack also tells of changes that nobody made: the preview of a link, the
    first answer in a thread."""
    new, old = event.message, event.previous_message
    if new is None or new.edited is None:
        return None
    return None if old is not None and old.text == new.text else new


def _thread_id(message: SlackMessage) -> str | None:
    """The first message of a thread tells its own name as that of the thread, and stands in the
    chat itself."""
    return message.thread_ts if message.thread_ts != message.ts else None


def _chat_type(chat: str, channel_type: str) -> ChatType:
    """Not every event tells it; the name of a chat of two begins with a D."""
    return ChatType.DM if channel_type == "im" or chat.startswith("D") else ChatType.GROUP
