"""Receives events from Discord's gateway: messages in the order of their channel, and interactions at once."""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from holdfast.core.errors import (
    AccountDisconnected,
    ConnectError,
    IntakeClosed,
    NotAddressed,
    NotAllowed,
    NotConnected,
    OutcomeUnknown,
    SendError,
    SendRejected,
    StoreError,
    Throttled,
)
from holdfast.core.messages.inbox import Inbound
from holdfast.core.messages.source import Attachment, AttachmentUnavailable, ChatType
from holdfast.core.ports.platform import Intake
from holdfast.core.untrusted import decode_json
from holdfast.platforms.discord.client import DiscordClient
from holdfast.platforms.discord.events import (
    COMMAND_INTERACTION,
    COMPONENT_INTERACTION,
    PLATFORM,
    ChannelDirectory,
    ChannelLocation,
    DiscordChannel,
    DiscordFile,
    DiscordFrame,
    DiscordGuild,
    DiscordMessage,
    DiscordParser,
    DiscordUser,
    Interaction,
    ReadyEvent,
    ThreadList,
    dm_location,
    guild_location,
    snowflake_at,
    snowflake_before,
)
from holdfast.platforms.discord.history import ChannelHistory, DiscordCheckpoint
from holdfast.platforms.inbound import backoff_delays

log = logging.getLogger(__name__)


# MERGED holdfast.platforms.discord.ears: Ears: what every connection of an account listens with.
@dataclass(frozen=True, slots=True, kw_only=True)
class DiscordReceiverConfig:
    """The same, whoever the bot turns out to be."""

    client: DiscordClient
    account: str
    max_file_bytes: int  # bytes of one file


# MERGED holdfast.platforms.discord.files: Files that people send: which of them a message has, and how each is fetched.
def attachments_of(
    message: DiscordMessage, client: DiscordClient, *, max_bytes: int, last_attempt: bool
) -> tuple[Attachment, ...]:
    """None is fetched yet. `most` is in bytes. At the last try, what cannot be fetched is not to
    be had: whatever else is said in that channel waits behind it."""
    if not max_bytes:
        return ()
    forwarded = [file for each in message.message_snapshots for file in each.message.attachments]
    return tuple(
        Attachment(
            name=file.filename,
            size=file.size,
            fetch=_make_fetch(file, client, max_bytes=max_bytes, last_attempt=last_attempt),
        )
        for file in (*message.attachments, *forwarded)
    )


def _make_fetch(
    file: DiscordFile, client: DiscordClient, *, max_bytes: int, last_attempt: bool
) -> Callable[[], Awaitable[bytes]]:
    async def fetch() -> bytes:
        try:
            return await client.download(file.url, max_bytes=max_bytes)
        except NotConnected as error:
            if last_attempt:
                raise AttachmentUnavailable(f"it could not be fetched: {error}") from error
            raise

    return fetch


# MERGED holdfast.platforms.discord.order: Order: what is to be done about a channel is done in turn, and no channel waits for another.
ChannelTask = Callable[[], Awaitable[None]]


class ChannelQueues:
    """Owns what waits, by channel; each has a task while something does. What cannot be done for
    the moment is tried again, and what comes behind it waits."""

    def __init__(
        self,
        tasks: asyncio.TaskGroup,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._tasks = tasks
        self._sleep = sleep
        self._queues: dict[str, deque[ChannelTask]] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._stopped = False

    @property
    def is_idle(self) -> bool:
        return not self._queues

    def enqueue(self, channel_id: str, job: ChannelTask) -> None:
        if self._stopped:
            return
        if channel_id in self._queues:
            self._queues[channel_id].append(job)
            return
        self._queues[channel_id] = deque([job])
        self.start_now(self._run_queue(channel_id))

    def start_now(self, work: Coroutine[Any, Any, None]) -> None:
        """At once, in no order."""
        task = self._tasks.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def stop(self) -> None:
        """The connection ends: what waits is found again by the next one."""
        self._stopped = True
        for task in self._running:
            task.cancel()

    async def _run_queue(self, channel_id: str) -> None:
        waiting = self._queues[channel_id]
        while waiting:
            await self._run_with_retry(waiting[0])
            waiting.popleft()
        del self._queues[channel_id]

    async def _run_with_retry(self, job: ChannelTask) -> None:
        pauses = backoff_delays()
        while True:
            try:
                return await job()
            except (StoreError, IntakeClosed, NotConnected) as error:
                pause = next(pauses)
                log.warning(
                    "Messages of Discord are not taken: %s. The next try is in %.1f s.",
                    error,
                    pause,
                    extra={"action": "receiver_retrying"},
                )
                await self._sleep(pause)


# MERGED holdfast.platforms.discord.taking: Taking: messages are read and handed to intake, each channel's in its own order.
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


# MERGED holdfast.platforms.discord.pressing: Pressing: slash commands and buttons, which are acknowledged when they are durable.
#
# Discord tells whoever pressed, after three seconds without an acknowledgement, that it has failed
# (https://discord.com/developers/docs/interactions/receiving-and-responding). So there is no second
# try: it would be done behind the back of somebody who was told that it was not.
_ACCEPTED_TEXT = "✓"  # a command has to be answered; what it has to say comes as a message
_NOT_ALLOWED_TEXT = "You may not do this here."
_NOT_NOW_TEXT = "This cannot be taken just now. Try again in a moment."
_RESPOND_WITH_MESSAGE, _RESPOND_SILENTLY = (
    4,
    6,
)  # types of an acknowledgement: with words, and without
_EPHEMERAL = 1 << 6  # the flag EPHEMERAL
_ACKNOWLEDGE_TIMEOUT = 5.0  # seconds: a stop does not wait longer for a button


class DiscordInteractionHandler:
    """Keeps nothing."""

    def __init__(
        self,
        client: DiscordClient,
        parser: DiscordParser,
        channels: ChannelDirectory,
        checkpoint: DiscordCheckpoint,
        *,
        intake: Intake,
    ) -> None:
        self._client = client
        self._parser = parser
        self._channels = channels
        self._checkpoint = checkpoint
        self._intake = intake

    async def handle(self, interaction: Interaction) -> None:
        if interaction.type not in (COMMAND_INTERACTION, COMPONENT_INTERACTION):
            return
        place = self._locate(interaction)
        inbound = self._parser.from_interaction(interaction, place) if place is not None else None
        if place is None or inbound is None:
            return
        words = ""
        try:
            if place.chat_type is ChatType.DM:
                await self._checkpoint.add_dm(place.chat_id)
            await self._intake.accept(inbound)
        except NotAllowed as error:
            words = _NOT_ALLOWED_TEXT
            log.info(
                "Interaction %s of user %s was dropped: %s",
                inbound.event_id,
                inbound.source.user_id,
                error,
                extra={"action": "interaction_not_allowed"},
            )
        except (StoreError, IntakeClosed) as error:
            words = _NOT_NOW_TEXT
            log.warning(
                "An interaction was not taken: %s",
                error,
                extra={"action": "interaction_not_stored"},
            )
        await self._acknowledge(interaction, words)

    def _locate(self, interaction: Interaction) -> ChannelLocation | None:
        channel = interaction.channel
        if interaction.guild_id is None:
            return dm_location(interaction.channel_id) if interaction.channel_id else None
        if channel is not None:
            return guild_location(channel)
        return self._channels.get(interaction.channel_id) if interaction.channel_id else None

    async def _acknowledge(self, interaction: Interaction, text: str) -> None:
        """Nobody is the worse where this fails: what was pressed is ours."""
        path = f"/interactions/{interaction.id}/{interaction.token}/callback"
        body = _interaction_response(
            text or (_ACCEPTED_TEXT if interaction.type == COMMAND_INTERACTION else "")
        )
        try:
            await self._client.call(
                "POST", path, msgspec.Raw, body=body, timeout_seconds=_ACKNOWLEDGE_TIMEOUT
            )
        except SendError as error:
            log.debug(
                "A press was not answered: %s", error, extra={"action": "button_not_acknowledged"}
            )


def _interaction_response(text: str) -> dict[str, Any]:
    if not text:
        return {"type": _RESPOND_SILENTLY}
    return {"type": _RESPOND_WITH_MESSAGE, "data": {"content": text, "flags": _EPHEMERAL}}


# MERGED holdfast.platforms.discord.events: Events: what comes over the gateway, given to whom it concerns.
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


# MERGED holdfast.platforms.discord.hearing: Hearing: all that one connection of a bot listens with, put together.
class FrameSource(Protocol):
    """A line, as `line.Line` is one."""

    async def run_until_closed(
        self, *, on_frame: Callable[[str], None], on_disconnect: Callable[[], None]
    ) -> ConnectError: ...


class DiscordReceiver:
    """Owns the tasks that what is heard begins, among those of the connection."""

    def __init__(
        self,
        config: DiscordReceiverConfig,
        me: DiscordUser,
        checkpoint: DiscordCheckpoint,
        *,
        intake: Intake,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._account = config.account
        self._checkpoint = checkpoint
        self._intake = intake
        self._queues = ChannelQueues(tasks)
        self._connected = asyncio.Event()
        self._unstable = asyncio.Event()
        places = ChannelDirectory(me.id)
        reader = DiscordParser(me, account=config.account, roles=places.bot_roles)
        taking = DiscordMessageHandler(
            config, reader, places, checkpoint, intake=intake, queues=self._queues
        )
        self._dispatcher = DiscordEventDispatcher(
            taking,
            DiscordInteractionHandler(config.client, reader, places, checkpoint, intake=intake),
            places,
            checkpoint,
            queues=self._queues,
            on_connected=self._connected.set,
            on_unstable=self._unstable.set,
        )

    async def wait_connected(self, running: asyncio.Task[ConnectError]) -> ConnectError | None:
        """Returns when the line is whole, or why it never was."""
        up = asyncio.ensure_future(self._connected.wait())
        try:
            await asyncio.wait({running, up}, return_when=asyncio.FIRST_COMPLETED)
            return None if up.done() else running.result()
        finally:
            up.cancel()

    async def run_until_closed(self, connection: FrameSource) -> ConnectError:
        """Until the line is gone for good, or never holds: what that means."""
        holding = asyncio.ensure_future(
            connection.run_until_closed(
                on_frame=self._on_frame, on_disconnect=self._dispatcher.on_disconnect
            )
        )
        hopeless = asyncio.ensure_future(self._unstable.wait())
        try:
            await asyncio.wait({holding, hopeless}, return_when=asyncio.FIRST_COMPLETED)
            return (
                holding.result() if holding.done() else AccountDisconnected("the line never holds")
            )
        finally:
            holding.cancel()
            hopeless.cancel()
            await asyncio.wait({holding, hopeless})

    async def stop(self) -> None:
        """Nothing more is taken. What is known of how far everything was looked at is written
        down, so that the next connection need not look again."""
        mark = self._dispatcher.seen_until
        self._queues.stop()
        await self._checkpoint.advance(mark)

    def _on_frame(self, frame: str) -> None:
        """Whatever comes is a sign of life, the answer to a heartbeat above all."""
        self._intake.report_alive(PLATFORM, self._account)
        self._dispatcher.on_frame(frame)
