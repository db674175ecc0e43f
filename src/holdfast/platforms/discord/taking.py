"""Taking: messages are read and handed to intake, each channel's in its own order."""

import logging
from collections import Counter
from collections.abc import Callable

from holdfast.core.errors import (
    NotAddressed,
    NotAllowed,
    NotConnected,
    OutcomeUnknown,
    SendRejected,
    Throttled,
)
from holdfast.core.messages.inbox import Inbound
from holdfast.core.messages.source import ChatType
from holdfast.core.ports.protocols import Intake
from holdfast.platforms.discord.backlog import ChannelHistory
from holdfast.platforms.discord.ears import DiscordReceiverConfig
from holdfast.platforms.discord.files import attachments_of
from holdfast.platforms.discord.order import ChannelQueues
from holdfast.platforms.discord.places import ChannelDirectory, ChannelLocation, dm_location
from holdfast.platforms.discord.reading import PLATFORM, DiscordParser
from holdfast.platforms.discord.record import DiscordCheckpoint
from holdfast.platforms.discord.wire import DiscordChannel, DiscordMessage

log = logging.getLogger(__name__)

ParseMessage = Callable[[DiscordMessage, ChannelLocation], Inbound | None]
_MAX_FILE_ATTEMPTS = 4  # at the files of a message


class DiscordMessageHandler:
    """Owns what is being taken. What cannot be kept for the moment is tried again, and what was
    said in that channel after it waits: the cursor of a channel never passes over a message."""

    def __init__(
        self,
        config: DiscordReceiverConfig,
        parser: DiscordParser,
        channels: ChannelDirectory,
        checkpoint: DiscordCheckpoint,
        *,
        intake: Intake,
        queues: ChannelQueues,
    ) -> None:
        self._config = config
        self._parser = parser
        self._channels = channels
        self._checkpoint = checkpoint
        self._intake = intake
        self._queues = queues
        self._history = ChannelHistory(config.client)
        # The last message of each channel that had a gap, as far as that is filled: a second try
        # goes on where the first has failed.
        self._fetched_until: dict[str, int] = {}
        self._file_failures: Counter[str] = Counter()  # tries at the files of messages

    def on_message(self, message: DiscordMessage) -> None:
        self._enqueue(message, self._parse_unseen)

    def on_edit(self, message: DiscordMessage) -> None:
        self._enqueue(message, self._parser.from_edit)

    def fetch_missed(self, channel_id: str, location: ChannelLocation, *, since: int) -> None:
        """Whatever was said there after that, and after what is durable, comes first."""
        self._fetched_until[channel_id] = max(since, self._fetched_until.get(channel_id, 0))

        async def fill() -> None:
            await self._fetch_missed(channel_id, location)

        self._queues.enqueue(channel_id, fill)

    def _enqueue(self, message: DiscordMessage, parse: ParseMessage) -> None:
        if message.author is None or self._parser.is_ours(message):
            return

        async def take() -> None:
            if (place := await self._locate(message)) is not None:
                await self._handle(message, place, parse)

        self._queues.enqueue(message.channel_id, take)

    def _parse_unseen(self, message: DiscordMessage, location: ChannelLocation) -> Inbound | None:
        """What was said while the gap before it was being filled was found there already."""
        if int(message.id) <= self._fetched_until.get(message.channel_id, 0):
            return None
        return self._parser.from_message(message, location)

    async def _fetch_missed(self, channel_id: str, location: ChannelLocation) -> None:
        cursor = await self._intake.cursor(
            PLATFORM, self._config.account, self._parser.cursor(channel_id)
        )
        after = self._fetched_until[channel_id] = max(
            self._fetched_until[channel_id], int(cursor or 0)
        )
        try:
            async for message in self._history.messages_after(channel_id, after):
                await self._handle(message, location, self._parser.from_message)
                self._fetched_until[channel_id] = int(message.id)
        except SendRejected as error:
            log.info(
                "What was said in channel %s meanwhile is not to be had: %s",
                channel_id,
                error,
                extra={"action": "history_refused"},
            )

    async def _handle(
        self, message: DiscordMessage, location: ChannelLocation, parse: ParseMessage
    ) -> None:
        inbound = parse(message, location)
        if inbound is None:
            return
        if location.chat_type is ChatType.DM:
            await self._checkpoint.add_dm(message.channel_id)
        try:
            await self._accept(message, inbound)
        except NotConnected:
            self._file_failures[message.id] += 1
            raise
        self._file_failures.pop(message.id, None)

    async def _accept(self, message: DiscordMessage, inbound: Inbound) -> None:
        last_try = self._file_failures[message.id] + 1 >= _MAX_FILE_ATTEMPTS
        attached = attachments_of(
            message,
            self._config.client,
            max_bytes=self._config.max_file_bytes,
            last_attempt=last_try,
        )
        if not inbound.text.strip() and not attached:
            return
        try:
            await self._intake.accept(inbound, attached)
        except NotAddressed as error:
            log.debug("%s: %s", inbound.event_id, error, extra={"action": "message_ignored"})
        except NotAllowed as error:
            log.info(
                "Message %s of user %s was dropped: %s",
                inbound.event_id,
                inbound.source.user_id,
                error,
                extra={"action": "message_not_allowed"},
            )

    async def _locate(self, message: DiscordMessage) -> ChannelLocation | None:
        """A thread may be one that this connection was never told of. None: it is gone."""
        if message.guild_id is None:
            return dm_location(message.channel_id)
        if (place := self._channels.get(message.channel_id)) is not None:
            return place
        try:
            path = f"/channels/{message.channel_id}"
            return self._channels.add(await self._config.client.call("GET", path, DiscordChannel))
        except (OutcomeUnknown, Throttled) as error:  # asking again does no harm
            raise NotConnected(str(error)) from error
        except SendRejected:
            return None
