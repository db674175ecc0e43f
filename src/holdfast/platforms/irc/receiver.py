"""Receives IRC messages, from the history first and then live, parses them and hands them to intake in order."""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

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
from holdfast.core.people.commands import COMMANDS_BY_NAME
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


# MERGED holdfast.platforms.irc.reading: Reading: what is said on IRC in our words.
PLATFORM = "irc"


class IrcParser:
    """Reads what one line brings; keeps nothing. `network`: whose history it is, where the server
    keeps one; what is said there is found again by when it was said."""

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
        """None: nobody said anything, or only we did, or it is for some of a channel and an answer
        would be read by all. A NOTICE is never answered, for it may be an answer itself:
        https://modern.ircdocs.horse/#notice-message."""
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
        person = self._users.user_id_of(message)
        is_bot = "bot" in message.tags or "draft/bot" in message.tags
        return Source(
            platform=PLATFORM,
            account=self._account,
            # A chat of two is with a person, and not with whoever has that nick tomorrow.
            chat_id=person if channel is None else self._channel_ids.normalise(channel),
            chat_type=ChatType.DM if channel is None else ChatType.GROUP,
            user_id=person,
            user_name=message.nick,
            author=Author.BOT if is_bot else Author.PERSON,
        )

    def _event_id(self, message: IrcMessage) -> str:
        """https://ircv3.net/specs/extensions/message-ids. A server without them that keeps a
        history brings the same words of the same instant again; one without a history brings
        nothing twice."""
        if name := message.tags.get("msgid"):
            return name
        at = message.tags.get("time")
        if at is None or self._network is None:
            return self._new_id("irc")
        words = "\0".join((self._network, at, message.nick, *message.params))
        return hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()

    def _message_text(self, text: str, *, is_direct: bool) -> str:
        """Without our nick in front. Clients keep what begins with a slash for themselves, so
        whoever speaks to us may write `!stop`; other bots of a channel have a `!help` too, and are
        not meant by us."""
        words = self._client.names.strip_nick(text, self._client.nick).strip()
        if not words:
            return text.strip()  # who is called by name is asked
        first = words[1:].split(maxsplit=1)[0].lower() if words[1:].strip() else ""
        addressed = is_direct or words != text.strip()
        return (
            f"/{words[1:]}"
            if words[0] == "!" and addressed and first in COMMANDS_BY_NAME
            else words
        )

    def _quote(self, message: IrcMessage) -> Quote | None:
        """https://ircv3.net/specs/client-tags/reply: which message, and not what it says."""
        name = message.tags.get("+draft/reply") or message.tags.get("+reply")
        return Quote(message_id=name, ours=self._is_ours(name)) if name else None

    def _cursor(self, message: IrcMessage, event_id: str, channel: str | None) -> Cursor | None:
        at = message.tags.get("time")
        if at is None or self._network is None:
            return None
        return Cursor(
            name=self.cursor_name(channel or message.nick), value=format_position(at, event_id)
        )


# MERGED holdfast.platforms.irc.taking: Taking: what is heard is handed to intake in its order, behind what was said before we came.
ReceiverJob = Callable[[], Awaitable[None]]
_MAX_QUEUED = 10_000  # messages that are heard and not taken, where a history has them
# Seconds by which the mark stays behind: servers of one network have clocks of their own, and what
# is heard later may have been said earlier by them.
_CLOCK_SKEW_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class IrcBacklog:
    """What was said while we were away: where it is asked for, and how far it was looked at."""

    history: IrcHistory
    checkpoint: IrcCheckpoint


class IrcReceiver:
    """Owns what was heard on one line and is not durable yet. Where there is no history nobody
    brings it again: it is the door's then (`held`), and tried on line after line until it is
    kept."""

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
        self._found_in_history: set[str] = (
            set()
        )  # events that the history brought before they were heard
        self._latest_timestamp = ""
        self._started = False
        self._initial_channels: list[str] = []  # that we were in when it began

    def handle_message(self, message: IrcMessage) -> None:
        if message.command == "BATCH":
            self._handle_batch(message)
        elif message.tags.get("batch") not in self._playbacks:
            self._handle_live(message)

    def channel_joined(self, channel: str) -> None:
        """To be told before anything is heard from there."""
        if self._backlog is None:
            return
        if not self._started:
            self._initial_channels.append(channel)
        else:
            self._enqueue(lambda: self._fetch_history(channel))

    async def run(self) -> None:
        """From when we are in our channels on: what was said before is taken first."""
        self._started = True
        await self._run_with_retries(self._drain_buffer)
        if self._backlog is not None:
            await self._run_with_retries(self._fetch_all_history)
        while True:
            job = await self._jobs.get()
            await self._run_with_retries(job)
            # Nothing that was heard is left to be looked at.
            if self._backlog is not None and self._jobs.empty():
                self._backlog.checkpoint.advance(
                    subtract_seconds(self._latest_timestamp, _CLOCK_SKEW_SECONDS)
                )
                self._found_in_history.clear()

    async def save_checkpoint(self) -> None:
        if self._backlog is not None:
            await self._backlog.checkpoint.save()

    def _handle_batch(self, message: IrcMessage) -> None:
        """Whoever plays back unasked brings what was looked at, or is asked for."""
        sign, name = message.param(0)[:1], message.param(0)[1:]
        if sign == "+" and message.param(1) in PLAYBACK_BATCHES:
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
            # To wait would leave the server unanswered, which ends the line as well.
            raise _overflow_error() from None

    async def _drain_buffer(self) -> None:
        await self._buffer.drain(self._submit)

    async def _submit_live(self, inbound: Inbound) -> None:
        """What was said while the history was being asked for stands in it, too: whoever may not
        talk is told so once."""
        if inbound.event_id not in self._found_in_history:
            await self._submit(inbound)

    async def _submit(self, inbound: Inbound) -> None:
        try:
            await self._intake.accept(inbound)
        except NotAddressed as error:
            log.debug("%s: %s", inbound.event_id, error, extra={"action": "message_ignored"})
        except NotAllowed as error:
            log.info(
                "A message of %s was dropped: %s",
                inbound.source.user_id,
                error,
                extra={"action": "message_not_allowed"},
            )
        if inbound.cursor is not None:
            self._latest_timestamp = max(
                self._latest_timestamp, parse_position(inbound.cursor.value)[0]
            )

    async def _fetch_all_history(self) -> None:
        """A server that does not say where something was said is asked about every channel."""
        assert self._backlog is not None, "only who has a past is asked for it"
        chats = await self._backlog.history.chats_since(self._backlog.checkpoint.until)
        for chat in self._initial_channels if chats is None else chats:
            await self._fetch_history(chat)

    async def _fetch_history(self, target: str) -> None:
        assert self._backlog is not None, "only who has a past is asked for it"
        name = self._parser.cursor_name(target)
        cursor = await self._intake.cursor(PLATFORM, self._account, name)
        moment, known = parse_position(max(cursor or "", self._backlog.checkpoint.until))
        async for heard in self._backlog.history.messages_since(target, moment):
            inbound = self._parser.parse(heard)
            if inbound is not None and not self._is_known(inbound, known):
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
                    "What was said on IRC is not taken: %s. The next try is in %.1f s.",
                    error,
                    pause,
                    extra={"action": "receiver_retrying"},
                )
                await self._sleep(pause)


def _overflow_error() -> AccountDisconnected:
    return AccountDisconnected("more is said than can be kept: the store takes nothing")
