"""Receives IRC messages, first from the history and then live, and passes them to intake."""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from holdfast.core.commands import COMMANDS_BY_NAME
from holdfast.core.errors import (
    AccountDisconnected,
    IntakeClosed,
    NotAddressed,
    NotAllowed,
    NotConnected,
    StoreError,
)
from holdfast.core.messages.inbox import Cursor, Inbound
from holdfast.core.messages.source import Author, ChatType, Quote, Source
from holdfast.core.ports.platform import Intake
from holdfast.core.ports.runtime import IdFactory
from holdfast.platforms.inbound import EventBuffer, backoff_delays
from holdfast.platforms.irc.client import IrcClient
from holdfast.platforms.irc.events import ChannelIds, IrcMessage, strip_formatting
from holdfast.platforms.irc.history import (
    PLAYBACK_BATCHES,
    IrcCheckpoint,
    IrcHistory,
    format_position,
    parse_position,
    subtract_seconds,
)
from holdfast.platforms.irc.users import UserDirectory

log = logging.getLogger(__name__)

PLATFORM = "irc"
_MAX_QUEUED = 10_000  # received messages that are not in the store yet, if there is a history
# The checkpoint stays behind by this: the servers of one network have clocks of their own, so a
# message that arrives later may have an earlier timestamp.
_CLOCK_SKEW_SECONDS = 10.0

ReceiverJob = Callable[[], Awaitable[None]]


class IrcParser:
    """Parses the messages of one connection. `network` is the host, if the server has a history:
    then messages have cursors by their timestamps."""

    def __init__(
        self,
        client: IrcClient,
        users: UserDirectory,
        *,
        account: str,
        network: str | None,
        new_id: IdFactory,
        is_ours: Callable[[str], bool],
        channel_ids: ChannelIds,
    ) -> None:
        self._client = client
        self._users = users
        self._account = account
        self._network = network
        self._new_id = new_id
        self._is_ours = is_ours
        self._channel_ids = channel_ids

    def parse(self, message: IrcMessage) -> Inbound | None:
        """None if the message is no text, is ours, or goes only to some members of a channel (all
        members would read the answer). A NOTICE is never answered, because it may be an automatic
        answer itself: https://modern.ircdocs.horse/#notice-message."""
        if message.command != "PRIVMSG" or not message.nick or self._client.is_me(message.nick):
            return None
        if self._client.names.is_status_message(message.param(0)):
            return None
        text = strip_formatting(message.trailing, nick=message.nick)
        if text is None or not text.strip():
            return None
        event_id = self._event_id(message)
        target = self._client.names.fold(message.param(0))
        channel = target if self._client.names.is_channel(target) else None
        mentioned = self._client.names.mentions(text, self._client.nick)
        return Inbound(
            source=self._source(message, channel),
            event_id=event_id,
            message_id=message.tags.get("msgid") or event_id,
            text=self._message_text(text, is_direct=channel is None),
            mentioned=channel is not None and mentioned,
            quoted=self._quote(message),
            cursor=self._cursor(message, event_id, channel),
        )

    def cursor_name(self, target: str) -> str:
        return f"{self._network}/{self._client.names.fold(target)}"

    def _source(self, message: IrcMessage, channel: str | None) -> Source:
        user_id = self._users.user_id_of(message)
        is_bot = "bot" in message.tags or "draft/bot" in message.tags
        return Source(
            platform=PLATFORM,
            account=self._account,
            # A direct chat belongs to a user, not to a nick that another user may have tomorrow.
            chat_id=user_id if channel is None else self._channel_ids.normalise(channel),
            chat_type=ChatType.DM if channel is None else ChatType.GROUP,
            user_id=user_id,
            user_name=message.nick,
            author=Author.BOT if is_bot else Author.PERSON,
        )

    def _event_id(self, message: IrcMessage) -> str:
        """https://ircv3.net/specs/extensions/message-ids. A server without them
        but with a history returns the same text with the same timestamp again. One without a
        history sends nothing twice."""
        if name := message.tags.get("msgid"):
            return name
        at = message.tags.get("time")
        if at is None or self._network is None:
            return self._new_id("irc")
        key = "\0".join((self._network, at, message.nick, *message.params))
        return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()

    def _message_text(self, text: str, *, is_direct: bool) -> str:
        """The text without our nick in front. Clients interpret a leading slash themselves, so
        users may write `!stop` for `/stop`; in a channel only after our nick, because other bots
        have a `!help` too."""
        words = self._client.names.strip_nick(text, self._client.nick).strip()
        if not words:
            return text.strip()  # the nick alone is a message, too
        first = words[1:].split(maxsplit=1)[0].lower() if words[1:].strip() else ""
        addressed = is_direct or words != text.strip()
        return (
            f"/{words[1:]}"
            if words[0] == "!" and addressed and first in COMMANDS_BY_NAME
            else words
        )

    def _quote(self, message: IrcMessage) -> Quote | None:
        """https://ircv3.net/specs/client-tags/reply: the id of the message, without its text."""
        name = message.tags.get("+draft/reply") or message.tags.get("+reply")
        return Quote(message_id=name, ours=self._is_ours(name)) if name else None

    def _cursor(self, message: IrcMessage, event_id: str, channel: str | None) -> Cursor | None:
        at = message.tags.get("time")
        if at is None or self._network is None:
            return None
        return Cursor(
            name=self.cursor_name(channel or message.nick), value=format_position(at, event_id)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class IrcBacklog:
    """The history of a server, and how far it was processed."""

    history: IrcHistory
    checkpoint: IrcCheckpoint


class IrcReceiver:
    """Owns the received messages of one connection that are not durable yet. Without a history the
    server does not send them again: then they are in `buffer`, which outlives the connection, and
    are retried until they are durable."""

    def __init__(
        self,
        parser: IrcParser,
        users: UserDirectory,
        *,
        account: str,
        intake: Intake,
        backlog: IrcBacklog | None,
        buffer: EventBuffer[Inbound],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._parser = parser
        self._users = users
        self._account = account
        self._intake = intake
        self._backlog = backlog
        self._buffer = buffer
        self._sleep = sleep
        self._jobs: asyncio.Queue[ReceiverJob] = asyncio.Queue(_MAX_QUEUED)
        self._playbacks: set[str] = set()
        self._found_in_history: set[str] = set()  # ids of events
        self._latest_timestamp = ""
        self._started = False
        self._initial_channels: list[str] = []  # joined before run()

    def handle_message(self, message: IrcMessage) -> None:
        if message.command == "BATCH":
            self._handle_batch(message)
        elif message.tags.get("batch") not in self._playbacks:
            self._handle_live(message)

    def channel_joined(self, channel: str) -> None:
        """Must be called before any message of the channel is handled."""
        if self._backlog is None:
            return
        if not self._started:
            self._initial_channels.append(channel)
        else:
            self._enqueue(lambda: self._fetch_history(channel))

    async def run(self) -> None:
        """Runs once our channels are joined. Older messages come first."""
        self._started = True
        await self._run_with_retries(self._drain_buffer)
        if self._backlog is not None:
            await self._run_with_retries(self._fetch_all_history)
        while True:
            job = await self._jobs.get()
            await self._run_with_retries(job)
            # Everything that was received is processed.
            if self._backlog is not None and self._jobs.empty():
                self._backlog.checkpoint.advance(
                    subtract_seconds(self._latest_timestamp, _CLOCK_SKEW_SECONDS)
                )
                self._found_in_history.clear()

    async def save_checkpoint(self) -> None:
        if self._backlog is not None:
            await self._backlog.checkpoint.save()

    def _handle_batch(self, message: IrcMessage) -> None:
        """A playback that was not requested has messages that are processed already or will be
        requested: it is ignored."""
        marker, name = message.param(0)[:1], message.param(0)[1:]
        if marker == "+" and message.param(1) in PLAYBACK_BATCHES:
            self._playbacks.add(name)
        else:
            self._playbacks.discard(name)

    def _handle_live(self, message: IrcMessage) -> None:
        inbound = self._parser.parse(message)
        if inbound is None:
            return
        self._users.remember(message)
        if self._backlog is not None:
            self._enqueue(lambda: self._submit_live(inbound))
        elif self._buffer.is_full:
            raise _overflow_error()
        else:
            self._enqueue(self._drain_buffer)
            self._buffer.add(inbound)

    def _enqueue(self, job: ReceiverJob) -> None:
        try:
            self._jobs.put_nowait(job)
        except asyncio.QueueFull:
            # Waiting would leave the PINGs of the server unanswered, which also disconnects us.
            raise _overflow_error() from None

    async def _drain_buffer(self) -> None:
        await self._buffer.drain(self._submit)

    async def _submit_live(self, inbound: Inbound) -> None:
        """A message that arrived while the history was fetched may be in the history, too: it is
        submitted once, so that a user who may not talk is refused once."""
        if inbound.event_id not in self._found_in_history:
            await self._submit(inbound)

    async def _submit(self, inbound: Inbound) -> None:
        try:
            await self._intake.accept(inbound)
        except NotAddressed as error:
            log.debug(
                "Ignored IRC message %s: %s",
                inbound.event_id,
                error,
                extra={"action": "message_ignored"},
            )
        except NotAllowed as error:
            log.info(
                "Dropped an IRC message of %s: %s",
                inbound.source.user_id,
                error,
                extra={"action": "message_not_allowed"},
            )
        if inbound.cursor is not None:
            self._latest_timestamp = max(
                self._latest_timestamp, parse_position(inbound.cursor.value)[0]
            )

    async def _fetch_all_history(self) -> None:
        """If the server cannot list the chats with new messages, every channel is fetched."""
        assert self._backlog is not None, "called only with a history"
        chats = await self._backlog.history.chats_since(self._backlog.checkpoint.until)
        for chat in self._initial_channels if chats is None else chats:
            await self._fetch_history(chat)

    async def _fetch_history(self, target: str) -> None:
        assert self._backlog is not None, "called only with a history"
        name = self._parser.cursor_name(target)
        cursor = await self._intake.cursor(PLATFORM, self._account, name)
        timestamp, last_event_id = parse_position(max(cursor or "", self._backlog.checkpoint.until))
        async for message in self._backlog.history.messages_since(target, timestamp):
            inbound = self._parser.parse(message)
            if inbound is not None and not self._is_known(inbound, last_event_id):
                await self._submit(inbound)
                self._found_in_history.add(inbound.event_id)

    def _is_known(self, inbound: Inbound, last_event_id: str) -> bool:
        return inbound.event_id == last_event_id or inbound.event_id in self._found_in_history

    async def _run_with_retries(self, job: ReceiverJob) -> None:
        for pause in backoff_delays():
            try:
                return await job()
            except (StoreError, IntakeClosed, NotConnected) as error:
                log.warning(
                    "Could not process messages from IRC: %s; retrying in %.1f s",
                    error,
                    pause,
                    extra={"action": "receiver_retrying"},
                )
                await self._sleep(pause)


def _overflow_error() -> AccountDisconnected:
    return AccountDisconnected("too many messages are waiting: the store does not accept them")
