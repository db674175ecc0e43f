"""Places: which channels there are, and what each is to us."""

import msgspec

from holdfast.core.messages.source import ChatType
from holdfast.platforms.discord.wire import (
    THREAD_TYPES,
    TYPES_WITHOUT_MESSAGES,
    DiscordChannel,
    DiscordGuild,
)


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
