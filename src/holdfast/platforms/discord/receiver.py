"""Receives events from Discord's gateway: messages in the order of their channel, and interactions
at once.

`DiscordReceiver`, at the end, combines the parts for one connection.
"""

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
from holdfast.core.text.translation import N_
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
from holdfast.system.languages import catalogue_for

log = logging.getLogger(__name__)

ChannelTask = Callable[[], Awaitable[None]]
ParseMessage = Callable[[DiscordMessage, ChannelLocation], Inbound | None]

_MAX_FILE_ATTEMPTS = 4  # for the files of one message
_MAX_MESSAGE_DELAY = 60.0  # seconds that a message takes to arrive at most, while connected
_MAX_DISCONNECTS = 3  # in a row, after which the connection is replaced, with a backoff
_CHECKPOINT_INTERVAL = 300.0  # seconds between two checkpoints

_ACCEPTED_TEXT = "✓"  # a command needs a response; its reply is sent as a message
_NOT_ALLOWED_TEXT = N_("You are not allowed to do this here.")
_NOT_NOW_TEXT = N_("This could not be stored. Try again in a moment.")
_RESPOND_WITH_MESSAGE, _RESPOND_SILENTLY = 4, 6  # types of interaction responses
_EPHEMERAL = 1 << 6  # the flag EPHEMERAL
_ACKNOWLEDGE_TIMEOUT = 5.0  # seconds: a stop waits no longer for the response to a button


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscordReceiverConfig:
    """What is known before the bot has logged in."""

    client: DiscordClient
    account: str
    max_file_bytes: int  # bytes of one file


def attachments_of(
    message: DiscordMessage, client: DiscordClient, *, max_bytes: int, last_attempt: bool
) -> tuple[Attachment, ...]:
    """The files of the message, not fetched yet. At the last attempt, a file that cannot be fetched
    is unavailable: later messages of the channel wait behind this one."""
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
                raise AttachmentUnavailable("could not be fetched: {error}", error=error) from error
            raise

    return fetch


class ChannelQueues:
    """Owns the jobs that wait, by channel; each channel has a task while it has jobs. A job that
    fails temporarily is retried, and the later jobs of the channel wait."""

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
        """Start it at once, without an order."""
        task = self._tasks.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def stop(self) -> None:
        """Drop what waits, because the connection ends: the next one fetches it again."""
        self._stopped = True
        for task in self._running:
            task.cancel()

    async def _run_queue(self, channel_id: str) -> None:
        jobs = self._queues[channel_id]
        while jobs:
            await self._run_with_retry(jobs[0])
            jobs.popleft()
        del self._queues[channel_id]

    async def _run_with_retry(self, job: ChannelTask) -> None:
        delays = backoff_delays()
        while True:
            try:
                return await job()
            except (StoreError, IntakeClosed, NotConnected) as error:
                delay = next(delays)
                log.warning(
                    "Could not accept messages from Discord: %s; retrying in %.1f s",
                    error,
                    delay,
                    extra={"action": "receiver_retrying"},
                )
                await self._sleep(delay)


class DiscordMessageHandler:
    """Owns how far the gaps of channels are filled. A message that cannot be stored is retried, and
    the later messages of its channel wait: the cursor of a channel never skips a message."""

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
        # Per channel with a gap, the last message fetched: a retry continues where it failed.
        self._fetched_until: dict[str, int] = {}
        self._file_failures: Counter[str] = Counter()  # failed attempts, by message
        self._known_dms = set(checkpoint.dms)

    def on_message(self, message: DiscordMessage) -> None:
        if message.author is None or self._parser.is_ours(message):
            return
        if message.guild_id is None:
            self.open_dm(message.channel_id, message.id)
        self._enqueue(message, self._parse_unseen)

    def on_edit(self, message: DiscordMessage) -> None:
        self._enqueue(message, self._parser.from_edit)

    def fetch_missed(
        self, channel_id: str, location: ChannelLocation, *, since: int, before: int | None = None
    ) -> None:
        """Fetch messages after `since` that are not durable yet, before all others of the channel.
        With `before`, only up to the event with that snowflake, which has arrived."""
        self._fetched_until[channel_id] = max(since, self._fetched_until.get(channel_id, 0))

        async def fetch() -> None:
            await self._fetch_missed(channel_id, location, before)

        self._queues.enqueue(channel_id, fetch)

    def open_dm(self, channel_id: str, event_id: str) -> None:
        """Before that event of a direct chat is handled: if the chat is new, fetch what was written
        there while the bot was not connected. A bot cannot list its direct chats, so only a new
        event tells of it."""
        if channel_id not in self._known_dms:
            self._known_dms.add(channel_id)
            since = self._checkpoint.read_until(channel_id)
            location, before = dm_location(channel_id), int(event_id)
            self.fetch_missed(channel_id, location, since=since, before=before)

    def _enqueue(self, message: DiscordMessage, parse: ParseMessage) -> None:
        if message.author is None or self._parser.is_ours(message):
            return

        async def handle() -> None:
            if (location := await self._locate(message)) is not None:
                await self._handle(message, location, parse)

        self._queues.enqueue(message.channel_id, handle)

    def _parse_unseen(self, message: DiscordMessage, location: ChannelLocation) -> Inbound | None:
        """Parse a message; None if it was already fetched, with the gap before it."""
        if int(message.id) <= self._fetched_until.get(message.channel_id, 0):
            return None
        return self._parser.from_message(message, location)

    async def _fetch_missed(
        self, channel_id: str, location: ChannelLocation, before: int | None
    ) -> None:
        cursor = await self._intake.cursor(
            PLATFORM, self._config.account, self._parser.cursor(channel_id)
        )
        after = self._fetched_until[channel_id] = max(
            self._fetched_until[channel_id], int(cursor or 0)
        )
        try:
            async for message in self._history.messages_after(channel_id, after):
                if before is not None and int(message.id) >= before:
                    break
                await self._handle(message, location, self._parser.from_message)
                self._fetched_until[channel_id] = int(message.id)
        except SendRejected as error:
            log.info(
                "Could not fetch missed messages of channel %s, which are skipped: %s",
                channel_id,
                error,
                extra={"action": "history_refused"},
            )
        self._checkpoint.mark_read(channel_id)

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
        attachments = attachments_of(
            message,
            self._config.client,
            max_bytes=self._config.max_file_bytes,
            last_attempt=last_try,
        )
        if not inbound.text.strip() and not attachments:
            return
        try:
            await self._intake.accept(inbound, attachments)
        except NotAddressed as error:
            log.debug(
                "Ignored Discord message %s: %s",
                inbound.event_id,
                error,
                extra={"action": "message_ignored"},
            )
        except NotAllowed as error:
            log.info(
                "Dropped Discord message %s of user %s: %s",
                inbound.event_id,
                inbound.source.user_id,
                error,
                extra={"action": "message_not_allowed"},
            )

    async def _locate(self, message: DiscordMessage) -> ChannelLocation | None:
        """The location of a message, whose thread may be unknown to this connection; None if it was
        deleted."""
        if message.guild_id is None:
            return dm_location(message.channel_id)
        if (location := self._channels.get(message.channel_id)) is not None:
            return location
        try:
            path = f"/channels/{message.channel_id}"
            return self._channels.add(await self._config.client.call("GET", path, DiscordChannel))
        except (OutcomeUnknown, Throttled) as error:  # repeating the request does no harm
            raise NotConnected("{error}", error=error) from error
        except SendRejected:
            return None


class DiscordInteractionHandler:
    """Handles slash commands and buttons, and acknowledges each once it is durable.

    Three seconds after a press without acknowledgement, Discord shows the person that it failed
    (https://discord.com/developers/docs/interactions/receiving-and-responding). So there is no
    retry: the command would run although the person saw that it did not.
    """

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
        location = self._locate(interaction)
        if location is None:
            return
        inbound = self._parser.from_interaction(interaction, location)
        if inbound is None:
            return
        text = ""
        try:
            if location.chat_type is ChatType.DM:
                await self._checkpoint.add_dm(location.chat_id)
            await self._intake.accept(inbound)
        except NotAllowed as error:
            text = catalogue_for(inbound.source.language).gettext(_NOT_ALLOWED_TEXT)
            log.info(
                "Dropped Discord interaction %s of user %s: %s",
                inbound.event_id,
                inbound.source.user_id,
                error,
                extra={"action": "interaction_not_allowed"},
            )
        except (StoreError, IntakeClosed) as error:
            text = catalogue_for(inbound.source.language).gettext(_NOT_NOW_TEXT)
            log.warning(
                "Could not store an interaction, whose sender is asked to repeat it: %s",
                error,
                extra={"action": "interaction_not_stored"},
            )
        await self._acknowledge(interaction, text)

    def _locate(self, interaction: Interaction) -> ChannelLocation | None:
        channel = interaction.channel
        if interaction.guild_id is None:
            return dm_location(interaction.channel_id) if interaction.channel_id else None
        if channel is not None:
            return guild_location(channel)
        return self._channels.get(interaction.channel_id) if interaction.channel_id else None

    async def _acknowledge(self, interaction: Interaction, text: str) -> None:
        """Acknowledge an interaction, which is durable or was refused. A failure has no
        consequences."""
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
                "Could not acknowledge a Discord interaction: %s",
                error,
                extra={"action": "button_not_acknowledged"},
            )


def _interaction_response(text: str) -> dict[str, Any]:
    if not text:
        return {"type": _RESPOND_SILENTLY}
    return {"type": _RESPOND_WITH_MESSAGE, "data": {"content": text, "flags": _EPHEMERAL}}


class DiscordEventDispatcher:
    """Owns whether the connection is established, and up to where events were received. Calls
    `on_connected` each time it is established, and `on_unstable` if it should be replaced."""

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
        self._disconnects = 0  # since the last connect
        self._pending_guilds: set[str] = set()  # servers whose data has not arrived yet
        self._newest_message = 0  # the newest one received
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
        """Called in the order of arrival; never blocks."""
        try:
            frame = decode_json(raw, type=DiscordFrame)
            if frame.t is not None and frame.t in self._handlers:
                self._handlers[frame.t](frame.d)
        except msgspec.MsgspecError as error:
            log.warning(
                "Skipping an invalid event from Discord: %s",
                error,
                extra={"action": "event_invalid"},
            )
        if (
            snowflake_before(self.seen_until, seconds=_CHECKPOINT_INTERVAL)
            >= self._checkpoint.until
        ):
            self._queues.start_now(self._checkpoint.advance(self.seen_until))

    def on_disconnect(self) -> None:
        """Record a disconnect: until it is connected again, messages may be missed. The library
        always reconnects at once, so a connection that never lasts is replaced."""
        self._is_connected = False
        self._disconnects += 1
        if self._disconnects >= _MAX_DISCONNECTS:
            self._on_unstable()

    @property
    def seen_until(self) -> int:
        """Everything before this snowflake was read; if that is unknown, the last checkpoint."""
        if not self._is_connected or self._pending_guilds or not self._queues.is_idle:
            return self._checkpoint.until
        return max(
            self._checkpoint.until,
            snowflake_before(self._newest_message, seconds=_MAX_MESSAGE_DELAY),
        )

    def _on_ready(self, raw: msgspec.Raw) -> None:
        """A new session: earlier events are not replayed. The servers follow one by one."""
        self._pending_guilds = {guild.id for guild in decode_json(raw, type=ReadyEvent).guilds}
        for channel_id in self._checkpoint.dms:
            self._messages.fetch_missed(
                channel_id,
                dm_location(channel_id),
                since=self._checkpoint.read_until(channel_id),
            )
        self._on_resumed(raw)

    def _on_resumed(self, raw: msgspec.Raw) -> None:
        """The session was resumed: missed events were replayed, or are being fetched."""
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
        if guild.unavailable:  # an outage: its data is sent again afterwards
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
        if interaction.guild_id is None and interaction.channel_id:
            self._messages.open_dm(interaction.channel_id, interaction.id)
        self._queues.start_now(self._interactions.handle(interaction))


class FrameSource(Protocol):
    """The connection, as `connection.DiscordConnection` is one."""

    async def run_until_closed(
        self, *, on_frame: Callable[[str], None], on_disconnect: Callable[[], None]
    ) -> ConnectError: ...


class DiscordReceiver:
    """The receiving side of one connection. Owns the tasks that events start, in the task group of
    the connection."""

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
        channels = ChannelDirectory(me.id)
        parser = DiscordParser(me, account=config.account, roles=channels.bot_roles)
        self._dispatcher = DiscordEventDispatcher(
            DiscordMessageHandler(
                config, parser, channels, checkpoint, intake=intake, queues=self._queues
            ),
            DiscordInteractionHandler(config.client, parser, channels, checkpoint, intake=intake),
            channels,
            checkpoint,
            queues=self._queues,
            on_connected=self._connected.set,
            on_unstable=self._unstable.set,
        )

    async def wait_connected(self, running: asyncio.Task[ConnectError]) -> ConnectError | None:
        """Return None once it is connected, or the error if it never was."""
        connected = asyncio.ensure_future(self._connected.wait())
        try:
            await asyncio.wait({running, connected}, return_when=asyncio.FIRST_COMPLETED)
            return None if connected.done() else running.result()
        finally:
            connected.cancel()

    async def run_until_closed(self, connection: FrameSource) -> ConnectError:
        """Run until the connection is lost, or found to be unstable; returns the error."""
        running = asyncio.ensure_future(
            connection.run_until_closed(
                on_frame=self._on_frame, on_disconnect=self._dispatcher.on_disconnect
            )
        )
        unstable = asyncio.ensure_future(self._unstable.wait())
        try:
            await asyncio.wait({running, unstable}, return_when=asyncio.FIRST_COMPLETED)
            return (
                running.result()
                if running.done()
                else AccountDisconnected("the connection keeps breaking")
            )
        finally:
            running.cancel()
            unstable.cancel()
            await asyncio.wait({running, unstable})

    async def stop(self) -> None:
        """Accept nothing more, and save the checkpoint, so that the next connection continues from
        there."""
        seen_until = self._dispatcher.seen_until
        self._queues.stop()
        await self._checkpoint.advance(seen_until)

    def _on_frame(self, frame: str) -> None:
        """Handle a frame. Every frame proves that the connection works, above all the answer to a
        heartbeat."""
        self._intake.report_alive(PLATFORM, self._account)
        self._dispatcher.on_frame(frame)
