"""Events: what comes over the gateway, given to whom it concerns."""

import logging
from collections.abc import Callable, Mapping

import msgspec

from holdfast.core.deep_json import decode_json
from holdfast.platforms.discord.order import ChannelQueues
from holdfast.platforms.discord.places import ChannelDirectory, dm_location, guild_location
from holdfast.platforms.discord.pressing import DiscordInteractionHandler
from holdfast.platforms.discord.record import DiscordCheckpoint
from holdfast.platforms.discord.snowflakes import snowflake_at, snowflake_before
from holdfast.platforms.discord.taking import DiscordMessageHandler
from holdfast.platforms.discord.wire import (
    DiscordChannel,
    DiscordFrame,
    DiscordGuild,
    DiscordMessage,
    Interaction,
    ReadyEvent,
    ThreadList,
)

log = logging.getLogger(__name__)

_MAX_MESSAGE_DELAY = (
    60.0  # seconds that a message may take to us, at the most, while the line is whole
)
_MAX_DISCONNECTS = 3  # in a row, after which a line had better be made anew, and later
_CHECKPOINT_INTERVAL = 300.0  # seconds between two marks of how far everything was looked at


class DiscordEventDispatcher:
    """Owns whether the line is whole, and how far it was heard. `up` is told each time it is,
    `down` where it had better be made anew."""

    def __init__(
        self,
        messages: DiscordMessageHandler,
        interactions: DiscordInteractionHandler,
        channels: ChannelDirectory,
        checkpoint: DiscordCheckpoint,
        *,
        queues: ChannelQueues,
        on_connected: Callable[[], None],
        on_unstable: Callable[[], None],
    ) -> None:
        self._messages = messages
        self._interactions = interactions
        self._channels = channels
        self._checkpoint = checkpoint
        self._queues = queues
        self._on_connected = on_connected
        self._on_unstable = on_unstable
        self._is_connected = False
        self._disconnects = 0  # since it was whole
        self._pending_guilds: set[str] = set()  # servers that are there, and were not told yet
        self._newest_message = 0  # of the messages that came
        self._handlers: Mapping[str, Callable[[msgspec.Raw], None]] = {
            "READY": self._on_ready,
            "RESUMED": self._on_resumed,
            "GUILD_CREATE": self._on_guild_create,
            "GUILD_DELETE": self._on_guild_delete,
            "CHANNEL_CREATE": self._on_channel,
            "CHANNEL_DELETE": self._on_channel_delete,
            "THREAD_CREATE": self._on_channel,
            "THREAD_UPDATE": self._on_channel,
            "THREAD_LIST_SYNC": self._on_thread_list,
            "THREAD_DELETE": self._on_channel_delete,
            "MESSAGE_CREATE": self._on_message_create,
            "MESSAGE_UPDATE": self._on_message_update,
            "INTERACTION_CREATE": self._on_interaction,
        }

    def on_frame(self, raw: str) -> None:
        """In the order in which it came; nothing here waits."""
        try:
            frame = decode_json(raw, type=DiscordFrame)
            if frame.t is not None and frame.t in self._handlers:
                self._handlers[frame.t](frame.d)
        except msgspec.MsgspecError as error:
            log.warning(
                "An event of Discord makes no sense and is passed over: %s",
                error,
                extra={"action": "event_invalid"},
            )
        if (
            snowflake_before(self.seen_until, seconds=_CHECKPOINT_INTERVAL)
            >= self._checkpoint.until
        ):
            self._queues.start_now(self._checkpoint.advance(self.seen_until))

    def on_disconnect(self) -> None:
        """Until the line is whole again, nobody knows what was said meanwhile. The library takes
        it up again at once, however often: one that never holds is given up."""
        self._is_connected = False
        self._disconnects += 1
        if self._disconnects >= _MAX_DISCONNECTS:
            self._on_unstable()

    @property
    def seen_until(self) -> int:
        """Everything before it was looked at; where that is not known, what was known before."""
        if not self._is_connected or self._pending_guilds or not self._queues.is_idle:
            return self._checkpoint.until
        return max(
            self._checkpoint.until,
            snowflake_before(self._newest_message, seconds=_MAX_MESSAGE_DELAY),
        )

    def _on_ready(self, raw: msgspec.Raw) -> None:
        """A new session: what came before it is not told. Servers are told one by one, after."""
        self._pending_guilds = {guild.id for guild in decode_json(raw, type=ReadyEvent).guilds}
        for channel_id in self._checkpoint.dms:
            self._messages.fetch_missed(
                channel_id, dm_location(channel_id), since=self._checkpoint.until
            )
        self._on_resumed(raw)

    def _on_resumed(self, raw: msgspec.Raw) -> None:
        """Whatever was missed has been told by now, or is being asked for."""
        self._is_connected = True
        self._disconnects = 0
        self._on_connected()

    def _on_guild_create(self, raw: msgspec.Raw) -> None:
        guild = decode_json(raw, type=DiscordGuild)
        joined = snowflake_at(guild.joined_at.timestamp()) if guild.joined_at else 0
        since = max(self._checkpoint.until, joined)
        self._pending_guilds.discard(guild.id)
        for channel in self._channels.add_guild(guild):
            if int(channel.last_message_id or 0) > since:
                self._messages.fetch_missed(channel.id, guild_location(channel), since=since)

    def _on_guild_delete(self, raw: msgspec.Raw) -> None:
        guild = decode_json(raw, type=DiscordGuild)
        if guild.unavailable:  # it comes back, and has to be looked at then
            self._pending_guilds.add(guild.id)
        else:
            self._pending_guilds.discard(guild.id)

    def _on_channel(self, raw: msgspec.Raw) -> None:
        channel = decode_json(raw, type=DiscordChannel)
        if channel.guild_id is not None:
            self._channels.add(channel)

    def _on_thread_list(self, raw: msgspec.Raw) -> None:
        for channel in decode_json(raw, type=ThreadList).threads:
            self._channels.add(channel)

    def _on_channel_delete(self, raw: msgspec.Raw) -> None:
        self._channels.remove(decode_json(raw, type=DiscordChannel).id)

    def _on_message_create(self, raw: msgspec.Raw) -> None:
        message = decode_json(raw, type=DiscordMessage)
        self._newest_message = max(self._newest_message, int(message.id))
        self._messages.on_message(message)

    def _on_message_update(self, raw: msgspec.Raw) -> None:
        self._messages.on_edit(decode_json(raw, type=DiscordMessage))

    def _on_interaction(self, raw: msgspec.Raw) -> None:
        interaction = decode_json(raw, type=Interaction)
        self._queues.start_now(self._interactions.handle(interaction))
