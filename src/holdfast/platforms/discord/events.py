"""Discord's payload types, as far as they are read (https://discord.com/developers/docs), and how
they become inbound messages.

Ids are snowflakes (https://discord.com/developers/docs/reference#snowflakes): the upper bits are
milliseconds since 2015-01-01, so of two ids the greater one is the later, whatever they identify.
"""

import re
from datetime import datetime

import msgspec

from holdfast.core.messages.inbox import Cursor, Inbound
from holdfast.core.messages.source import Author, ChatType, Quote, Source

PLATFORM = "discord"

THREAD_TYPES = frozenset({10, 11, 12})  # of an announcement channel, public, private
TYPES_WITHOUT_MESSAGES = frozenset({4, 14, 15, 16})  # categories, directories, forums, media
USER_MESSAGE_TYPES = frozenset({0, 19})  # messages and replies; all others are system messages
COMMAND_INTERACTION, COMPONENT_INTERACTION = 2, 3  # types of interactions

_DISCORD_EPOCH_MS = 1_420_070_400_000
_TIMESTAMP_SHIFT = 22
_MENTION = re.compile(r"<@!?(\d+)>")


class DiscordUser(msgspec.Struct, frozen=True):
    id: str
    username: str = ""
    global_name: str | None = None
    bot: bool = False

    @property
    def name(self) -> str | None:
        return self.global_name or self.username or None


class DiscordMember(msgspec.Struct, frozen=True):
    user: DiscordUser | None = None
    nick: str | None = None


class DiscordFile(msgspec.Struct, frozen=True):
    filename: str
    url: str
    size: int | None = None


class DiscordSticker(msgspec.Struct, frozen=True):
    name: str


class ForwardedMessage(msgspec.Struct, frozen=True):
    content: str = ""
    attachments: tuple[DiscordFile, ...] = ()


class MessageSnapshot(msgspec.Struct, frozen=True):
    message: ForwardedMessage


class DiscordMessage(msgspec.Struct, frozen=True):
    id: str
    channel_id: str
    author: DiscordUser | None = None  # missing if an update contains only the changes
    content: str = ""
    type: int = 0
    guild_id: str | None = None  # present in events, missing in the history of a channel
    edited_timestamp: str | None = None
    member: DiscordMember | None = None
    mentions: tuple[DiscordUser, ...] = ()
    mention_roles: tuple[str, ...] = ()
    attachments: tuple[DiscordFile, ...] = ()
    sticker_items: tuple[DiscordSticker, ...] = ()
    message_snapshots: tuple[MessageSnapshot, ...] = ()
    referenced_message: "DiscordMessage | None" = None
    webhook_id: str | None = None


class DiscordMessageId(msgspec.Struct, frozen=True):
    """Decoded first: enough to skip a message that is otherwise invalid."""

    id: str


class DiscordChannel(msgspec.Struct, frozen=True):
    id: str
    type: int
    parent_id: str | None = None
    guild_id: str | None = None
    last_message_id: str | None = None


class RoleTags(msgspec.Struct, frozen=True):
    bot_id: str | None = None


class DiscordRole(msgspec.Struct, frozen=True):
    id: str
    tags: RoleTags = RoleTags()


class DiscordGuild(msgspec.Struct, frozen=True):
    id: str
    channels: tuple[DiscordChannel, ...] = ()
    threads: tuple[DiscordChannel, ...] = ()
    roles: tuple[DiscordRole, ...] = ()
    joined_at: datetime | None = None  # by the bot
    unavailable: bool = False


class ReadyEvent(msgspec.Struct, frozen=True):
    guilds: tuple[DiscordGuild, ...] = ()


class ThreadList(msgspec.Struct, frozen=True):
    threads: tuple[DiscordChannel, ...] = ()


class CommandOption(msgspec.Struct, frozen=True):
    value: str | int | float | bool = ""


class InteractionData(msgspec.Struct, frozen=True):
    """The command with its options, or the pressed button."""

    name: str = ""
    options: tuple[CommandOption, ...] = ()
    custom_id: str = ""


class Interaction(msgspec.Struct, frozen=True):
    id: str
    type: int
    token: str
    channel_id: str | None = None
    channel: DiscordChannel | None = None
    guild_id: str | None = None
    member: DiscordMember | None = None
    user: DiscordUser | None = None
    data: InteractionData = InteractionData()
    message: DiscordMessage | None = None
    locale: str = ""  # chosen by the user in their client


class DiscordFrame(msgspec.Struct, frozen=True):
    """A frame of the gateway websocket: `t` is the event's name, `d` its data."""

    op: int
    t: str | None = None
    d: msgspec.Raw = msgspec.Raw(b"null")


class DiscordSentMessage(msgspec.Struct, frozen=True):
    id: str


class DiscordError(msgspec.Struct, frozen=True):
    message: str = ""
    code: int = 0
    retry_after: float | None = None
    is_global: bool = msgspec.field(default=False, name="global")


def snowflake_at(seconds: float) -> int:
    """The smallest id of that Unix time."""
    return max(0, int(seconds * 1000) - _DISCORD_EPOCH_MS) << _TIMESTAMP_SHIFT


def snowflake_before(snowflake: int, *, seconds: float) -> int:
    return max(0, snowflake - (int(seconds * 1000) << _TIMESTAMP_SHIFT))


class ChannelLocation(msgspec.Struct, frozen=True, kw_only=True):
    """The chat that a channel is. A thread belongs to a channel and is a channel itself: messages
    go to its own id."""

    chat_id: str
    chat_type: ChatType
    thread_id: str | None = None


def dm_location(channel_id: str) -> ChannelLocation:
    return ChannelLocation(chat_id=channel_id, chat_type=ChatType.DM)


def guild_location(channel: DiscordChannel) -> ChannelLocation:
    if channel.type in THREAD_TYPES and channel.parent_id is not None:
        return ChannelLocation(
            chat_id=channel.parent_id, chat_type=ChatType.GROUP, thread_id=channel.id
        )
    return ChannelLocation(chat_id=channel.id, chat_type=ChatType.GROUP)


class ChannelDirectory:
    """Owns what this connection knows of the channels and roles of the bot's servers."""

    def __init__(self, bot_id: str) -> None:
        self._bot_id = bot_id
        self._locations: dict[str, ChannelLocation] = {}
        self.bot_roles: set[str] = set()  # roles that only the bot has

    def add(self, channel: DiscordChannel) -> ChannelLocation:
        location = self._locations[channel.id] = guild_location(channel)
        return location

    def add_guild(self, guild: DiscordGuild) -> list[DiscordChannel]:
        """Add a server. Returns those of its channels that can contain messages."""
        self.bot_roles |= {role.id for role in guild.roles if role.tags.bot_id == self._bot_id}
        channels = [*guild.channels, *guild.threads]
        for channel in channels:
            self.add(channel)
        return [channel for channel in channels if channel.type not in TYPES_WITHOUT_MESSAGES]

    def remove(self, channel_id: str) -> None:
        self._locations.pop(channel_id, None)

    def get(self, channel_id: str) -> ChannelLocation | None:
        return self._locations.get(channel_id)


class DiscordParser:
    """Converts the events of one bot to inbound messages. `roles` are those that only the bot has;
    the set grows as servers become known."""

    def __init__(self, me: DiscordUser, *, account: str, roles: set[str]) -> None:
        self._me = me
        self._account = account
        self._roles = roles

    def cursor(self, channel_id: str) -> str:
        """The name of the cursor. Contains the bot's id: another bot in this account has read other
        messages."""
        return f"{self._me.id} in {channel_id}"

    def is_ours(self, message: DiscordMessage) -> bool:
        return message.author is not None and message.author.id == self._me.id

    def from_message(self, message: DiscordMessage, location: ChannelLocation) -> Inbound | None:
        """Convert a message; None for a system message, or one of our own."""
        if (
            message.author is None
            or message.type not in USER_MESSAGE_TYPES
            or self.is_ours(message)
        ):
            return None
        return Inbound(
            source=self._source(location, message.author, _author_kind(message), message),
            event_id=self._event_id(message.id),
            message_id=message.id,
            text=self._text(message),
            mentioned=self._is_mentioned(message),
            quoted=self._quote(message),
            cursor=Cursor(name=self.cursor(message.channel_id), value=message.id),
        )

    def from_edit(self, message: DiscordMessage, location: ChannelLocation) -> Inbound | None:
        """Convert an edit. An update without a time of edit only adds link previews: None. An edit
        does not move the cursor of its channel."""
        if (
            message.edited_timestamp is None
            or (inbound := self.from_message(message, location)) is None
        ):
            return None
        event_id = self._event_id(f"{message.id}/{message.edited_timestamp}")
        return _without_cursor(inbound, event_id=event_id)

    def from_interaction(
        self, interaction: Interaction, location: ChannelLocation
    ) -> Inbound | None:
        """Convert an interaction. A button sends its value as a message, a slash command its
        text."""
        member = interaction.member
        by = interaction.user or (member.user if member else None)
        data = interaction.data
        words = [f"/{data.name}", *(str(option.value) for option in data.options)]
        text = " ".join(words) if interaction.type == COMMAND_INTERACTION else data.custom_id
        if by is None or not text:
            return None
        return Inbound(
            source=self._source(location, by, Author.PERSON, interaction),
            event_id=self._event_id(interaction.id),
            message_id=interaction.message.id if interaction.message else interaction.id,
            text=text,
            mentioned=True,
        )

    def _event_id(self, suffix: str) -> str:
        return f"{self._me.id}/{suffix}"

    def _source(
        self,
        location: ChannelLocation,
        by: DiscordUser,
        author: Author,
        event: DiscordMessage | Interaction,
    ) -> Source:
        nick = event.member.nick if event.member else None
        return Source(
            platform=PLATFORM,
            account=self._account,
            chat_id=location.chat_id,
            chat_type=location.chat_type,
            thread_id=location.thread_id,
            user_id=by.id,
            user_name=nick or by.name,
            language=event.locale if isinstance(event, Interaction) else "",
            author=author,
        )

    def _is_mentioned(self, message: DiscordMessage) -> bool:
        named = any(user.id == self._me.id for user in message.mentions)
        return named or not self._roles.isdisjoint(message.mention_roles)

    def _text(self, message: DiscordMessage) -> str:
        """The text, with mentions as names. A mention of the bot at the beginning is removed, so
        that "@bot /stop" is a command."""
        names = {user.id: user.name or user.id for user in message.mentions}
        text = message.content
        for own in (f"<@{self._me.id}>", f"<@!{self._me.id}>", *map("<@&{}>".format, self._roles)):
            text = text.strip().removeprefix(own)
        text = _MENTION.sub(lambda found: f"@{names.get(found[1], found[1])}", text).strip()
        if message.content and not text:  # only a mention of the bot, which is a message, too
            text = f"@{self._me.name}"
        return "\n".join(filter(None, (text, *_describe_content(message))))

    def _quote(self, message: DiscordMessage) -> Quote | None:
        replied = message.referenced_message
        if replied is None or replied.author is None:
            return None
        return Quote(
            text=replied.content,
            user_id=replied.author.id,
            user_name=replied.author.name,
            message_id=replied.id,
            ours=self.is_ours(replied),
        )


def _without_cursor(inbound: Inbound, *, event_id: str) -> Inbound:
    """The same message as another event, which moves no cursor."""
    return Inbound(
        source=inbound.source,
        event_id=event_id,
        message_id=inbound.message_id,
        text=inbound.text,
        mentioned=inbound.mentioned,
        quoted=inbound.quoted,
    )


def _author_kind(message: DiscordMessage) -> Author:
    """The kind of author. A webhook may use any name, so it counts as a bot."""
    is_bot = message.webhook_id is not None or (message.author is not None and message.author.bot)
    return Author.BOT if is_bot else Author.PERSON


def _describe_content(message: DiscordMessage) -> list[str]:
    """Texts for content that has none."""
    forwarded = [each.message.content for each in message.message_snapshots]
    stickers = [f"[Sticker: {each.name}]" for each in message.sticker_items]
    return [*(f"[Forwarded: {text}]" for text in forwarded if text), *stickers]
