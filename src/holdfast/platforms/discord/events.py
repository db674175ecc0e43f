"""Discord's payload types, as far as they are read (https://discord.com/developers/docs), and how they become inbound messages.

Ids are snowflakes (https://discord.com/developers/docs/reference#snowflakes): the upper bits are milliseconds since
2015-01-01, so of two ids the greater one is the later, whatever they name.
"""

import re
from datetime import datetime

import msgspec

from holdfast.core.messages.inbox import Cursor, Inbound
from holdfast.core.messages.source import Author, ChatType, Quote, Source

# MERGED holdfast.platforms.discord.wire: Discord's objects, as far as this door reads them: https://discord.com/developers/docs.
THREAD_TYPES = frozenset({10, 11, 12})  # of an announcement channel, public, private
TYPES_WITHOUT_MESSAGES = frozenset(
    {4, 14, 15, 16}
)  # categories, directories, and forums, of threads
USER_MESSAGE_TYPES = frozenset(
    {0, 19}
)  # types of messages that somebody wrote: all others tell of an event
COMMAND_INTERACTION, COMPONENT_INTERACTION = 2, 3  # types of interactions


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
    author: DiscordUser | None = None  # left out where an update tells only what has changed
    content: str = ""
    type: int = 0
    guild_id: str | None = None  # told with an event; in the history of a channel it is left out
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
    """A message of which nothing but its number need make sense."""

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
    """Which command was given, with what; or which button was pressed."""

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


class DiscordFrame(msgspec.Struct, frozen=True):
    """What comes over the gateway: `t` names the event, `d` is what it tells."""

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


# MERGED holdfast.platforms.discord.snowflakes: Snowflakes: Discord's ids, which are times.
#
# https://discord.com/developers/docs/reference#snowflakes: the upper bits are milliseconds since the
# first of January 2015, so that of two ids the greater one is the later, whatever they name.
_DISCORD_EPOCH_MS = 1_420_070_400_000  # milliseconds
_TIMESTAMP_SHIFT = 22


def snowflake_at(seconds: float) -> int:
    """The least id of that time, which is in seconds since the usual epoch."""
    return max(0, int(seconds * 1000) - _DISCORD_EPOCH_MS) << _TIMESTAMP_SHIFT


def snowflake_before(snowflake: int, *, seconds: float) -> int:
    return max(0, snowflake - (int(seconds * 1000) << _TIMESTAMP_SHIFT))


# MERGED holdfast.platforms.discord.places: Places: which channels there are, and what each is to us.
class ChannelLocation(msgspec.Struct, frozen=True, kw_only=True):
    """A thread belongs to a channel, and is one itself: messages go to its own id."""

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
    """Owns what this connection was told of the servers that the bot is in."""

    def __init__(self, bot_id: str) -> None:
        self._bot_id = bot_id
        self._locations: dict[str, ChannelLocation] = {}
        self.bot_roles: set[str] = set()  # that stand for the bot itself, and for nobody else

    def add(self, channel: DiscordChannel) -> ChannelLocation:
        place = self._locations[channel.id] = guild_location(channel)
        return place

    def add_guild(self, guild: DiscordGuild) -> list[DiscordChannel]:
        """Those of its channels in which something can be said, as they stand now."""
        self.bot_roles |= {role.id for role in guild.roles if role.tags.bot_id == self._bot_id}
        every = [*guild.channels, *guild.threads]
        for channel in every:
            self.add(channel)
        return [channel for channel in every if channel.type not in TYPES_WITHOUT_MESSAGES]

    def remove(self, channel_id: str) -> None:
        self._locations.pop(channel_id, None)

    def get(self, channel_id: str) -> ChannelLocation | None:
        return self._locations.get(channel_id)


# MERGED holdfast.platforms.discord.reading: Reading: a message or an interaction of Discord in our words.
PLATFORM = "discord"

_MENTION = re.compile(r"<@!?(\d+)>")


class DiscordParser:
    """Reads what one bot is told; keeps nothing but who that is. `roles` are those that stand for
    it alone, and grow as servers are told."""

    def __init__(self, me: DiscordUser, *, account: str, roles: set[str]) -> None:
        self._me = me
        self._account = account
        self._roles = roles

    def cursor(self, channel_id: str) -> str:
        """Of this very bot: another one under the same name has answered other messages."""
        return f"{self._me.id} in {channel_id}"

    def is_ours(self, message: DiscordMessage) -> bool:
        return message.author is not None and message.author.id == self._me.id

    def from_message(self, message: DiscordMessage, location: ChannelLocation) -> Inbound | None:
        """None: nobody said it, or we did."""
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
        """An update tells also of pictures that were found behind a link: then nobody has edited
        anything. It says nothing of how far the channel was read."""
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
        """A button says what stands on it, and a slash command itself."""
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

    def _event_id(self, name: str) -> str:
        return f"{self._me.id}/{name}"

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
            author=author,
        )

    def _is_mentioned(self, message: DiscordMessage) -> bool:
        named = any(user.id == self._me.id for user in message.mentions)
        return named or not self._roles.isdisjoint(message.mention_roles)

    def _text(self, message: DiscordMessage) -> str:
        """People are called by their names, and the bot's own in front is left out, so that
        "@bot /stop" is a command."""
        names = {user.id: user.name or user.id for user in message.mentions}
        text = message.content
        for own in (f"<@{self._me.id}>", f"<@!{self._me.id}>", *map("<@&{}>".format, self._roles)):
            text = text.strip().removeprefix(own)
        text = _MENTION.sub(lambda found: f"@{names.get(found[1], found[1])}", text).strip()
        if message.content and not text:  # called by its name, the bot is meant to look up
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
    """A hook writes under any name it likes."""
    is_bot = message.webhook_id is not None or (message.author is not None and message.author.bot)
    return Author.BOT if is_bot else Author.PERSON


def _describe_content(message: DiscordMessage) -> list[str]:
    """What has no words of its own, in words."""
    forwarded = [each.message.content for each in message.message_snapshots]
    stickers = [f"[Sticker: {each.name}]" for each in message.sticker_items]
    return [*(f"[Forwarded: {text}]" for text in forwarded if text), *stickers]
