"""Places: which channels there are, and what each is to us."""

import msgspec

from holdfast.core.messages.source import ChatType
from holdfast.platforms.discord.wire import THREADS, WITHOUT_MESSAGES, Channel, Guild


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A thread belongs to a channel, and is one itself: messages go to its own id."""

    chat_id: str
    chat_type: ChatType
    thread_id: str | None = None


def dm(channel_id: str) -> Place:
    return Place(chat_id=channel_id, chat_type=ChatType.DM)


def place_in_server(channel: Channel) -> Place:
    if channel.type in THREADS and channel.parent_id is not None:
        return Place(chat_id=channel.parent_id, chat_type=ChatType.GROUP, thread_id=channel.id)
    return Place(chat_id=channel.id, chat_type=ChatType.GROUP)


class Places:
    """Owns what this connection was told of the servers that the bot is in."""

    def __init__(self, bot_id: str) -> None:
        self._bot_id = bot_id
        self._known: dict[str, Place] = {}
        self.roles: set[str] = set()  # that stand for the bot itself, and for nobody else

    def learn(self, channel: Channel) -> Place:
        place = self._known[channel.id] = place_in_server(channel)
        return place

    def learn_guild(self, guild: Guild) -> list[Channel]:
        """Those of its channels in which something can be said, as they stand now."""
        self.roles |= {role.id for role in guild.roles if role.tags.bot_id == self._bot_id}
        every = [*guild.channels, *guild.threads]
        for channel in every:
            self.learn(channel)
        return [channel for channel in every if channel.type not in WITHOUT_MESSAGES]

    def forget(self, channel_id: str) -> None:
        self._known.pop(channel_id, None)

    def known(self, channel_id: str) -> Place | None:
        return self._known.get(channel_id)
