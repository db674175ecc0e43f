"""Receives messages of chats and rooms, from the archive first and then live, and hands them to intake."""

import asyncio
import logging
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Protocol
from urllib.parse import SplitResult, unquote, urlsplit

import aiohttp

from holdfast.core.errors import (
    IntakeClosed,
    NotAddressed,
    NotAllowed,
    NotConnected,
    OutcomeUnknown,
    StoreError,
)
from holdfast.core.messages.inbox import Cursor, Inbound
from holdfast.core.messages.source import (
    Attachment,
    AttachmentUnavailable,
    Author,
    ChatType,
    Quote,
    Source,
)
from holdfast.core.net import guarded_socket_factory, is_public
from holdfast.core.ports.platform import Intake
from holdfast.core.ports.runtime import Clock, IdFactory
from holdfast.platforms.inbound import EventBuffer, backoff_delays, read_body
from holdfast.platforms.xmpp.archive import (
    ArchiveCheckpoint,
    ArchiveCheckpoints,
    ArchivedMessage,
    ArchivePosition,
    MessageArchive,
)
from holdfast.platforms.xmpp.events import StanzaRejected, XmppMessage, bare_jid, resource_of
from holdfast.platforms.xmpp.rooms import XmppRoom, room_of

log = logging.getLogger(__name__)


# MERGED holdfast.platforms.xmpp.reading: Reading: a message of a chat or a room in our words.
PLATFORM = "xmpp"


class XmppParser:
    """Reads what one account is told; keeps nothing but who that is."""

    def __init__(self, own_jid: str, *, account: str, new_id: IdFactory) -> None:
        self.own_jid = own_jid
        self._account = account
        self._new_id = new_id

    def cursor_name(self, room: str | None = None) -> str:
        """Of this very account: another one under the same name has other archives."""
        return self.own_jid if room is None else f"{self.own_jid} in {room}"

    def parse_chat_message(
        self, message: XmppMessage, position: ArchivePosition | None
    ) -> Inbound | None:
        """None: nobody said it, or we did."""
        writer = bare_jid(message.sender)
        if (
            message.kind not in ("chat", "normal")
            or writer == self.own_jid
            or not _has_content(message)
        ):
            return None
        # What comes from an address without a name is of a server: a notice to everybody there.
        author = Author.PERSON if "@" in writer else Author.BOT
        source = Source(
            platform=PLATFORM,
            account=self._account,
            chat_id=writer,
            user_id=writer,
            user_name=writer.partition("@")[0],
            author=author,
        )
        return self._inbound(message, source, position, message.body.strip())

    def parse_room_message(
        self,
        message: XmppMessage,
        position: ArchivePosition | None,
        room: XmppRoom,
        *,
        is_live: bool,
    ) -> Inbound | None:
        if (
            message.kind != "groupchat"
            or not resource_of(message.sender)
            or not _has_content(message)
        ):
            return None
        if room.is_ours(message) or room.author_jid(message, is_live=is_live) == self.own_jid:
            return None
        source = Source(
            platform=PLATFORM,
            account=self._account,
            chat_id=room.address,
            chat_type=ChatType.GROUP,
            user_id=room.author_jid(message, is_live=is_live),
            user_name=resource_of(message.sender),
        )
        named, text = split_mention(message.body, room.nick)
        named = named or f"{room.address}/{room.nick}" in message.mentions
        return self._inbound(message, source, position, text, mentioned=named, room=room)

    def _inbound(
        self,
        message: XmppMessage,
        source: Source,
        position: ArchivePosition | None,
        text: str,
        *,
        mentioned: bool = False,
        room: XmppRoom | None = None,
    ) -> Inbound:
        place = None if room is None else room.address
        cursor = None
        if position is not None:
            cursor = Cursor(name=self.cursor_name(place), value=str(position))
        return Inbound(
            source=source,
            event_id=self._event_id(message, position, place),
            message_id=message.corrects or message.id or self._new_id("xmpp"),
            text=text.replace(message.url, "").strip() if message.url else text,
            mentioned=mentioned,
            quoted=self._quote(message, room),
            cursor=cursor,
        )

    def _event_id(
        self, message: XmppMessage, position: ArchivePosition | None, room: str | None
    ) -> str:
        """Where nothing is archived, a message is known by what its writer calls it."""
        if position is not None:
            return f"{self.cursor_name(room)}/{position.id}"
        return f"{self.cursor_name(room)}/{message.sender}/{message.id or self._new_id('xmpp')}"

    def _quote(self, message: XmppMessage, room: XmppRoom | None) -> Quote | None:
        reply = message.reply
        if reply is None:
            return None
        if room is None:
            ours = bare_jid(reply.to) == self.own_jid
            user_id = bare_jid(reply.to)
        else:
            ours = bool(room.nick) and reply.to == f"{room.address}/{room.nick}"
            user_id = reply.to
        return Quote(
            text=reply.quoted,
            user_id=user_id or None,
            user_name=(resource_of(reply.to) or bare_jid(reply.to).partition("@")[0]) or None,
            message_id=reply.id or None,
            ours=ours,
        )


def split_mention(body: str, nick: str) -> tuple[bool, str]:
    """Whether it names somebody of that name, and the text without the name in front, so that
    "bot: /stop" is a command. Clients write "bot: …", "bot, …" or "@bot …"."""
    text = body.strip()
    if not nick:
        return False, text
    name = re.escape(nick)
    front = re.match(rf"(?:@{name}\b[:,]?|{name}[:,])\s*", text, re.IGNORECASE)
    if front is not None:
        return True, text[front.end() :] or text
    alone = text.casefold() == nick.casefold()
    return alone or re.search(rf"(?<!\w)@{name}(?!\w)", text, re.IGNORECASE) is not None, text


def _has_content(message: XmppMessage) -> bool:
    return bool(message.body.strip() or message.url)


# MERGED holdfast.platforms.xmpp.web: The web, as a connection reaches it: servers of ours, and those that others name.
@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSessions:
    unrestricted: aiohttp.ClientSession  # goes anywhere
    public_only: aiohttp.ClientSession  # goes to no address that only this machine can reach


@asynccontextmanager
async def open_http_sessions() -> AsyncIterator[HttpSessions]:
    wary = aiohttp.TCPConnector(socket_factory=guarded_socket_factory(is_public, socket.socket))
    async with aiohttp.ClientSession() as ours, aiohttp.ClientSession(connector=wary) as theirs:
        yield HttpSessions(unrestricted=ours, public_only=theirs)


# MERGED holdfast.platforms.xmpp.downloads: Downloads: files that people send, which lie at some server under a link (XEP-0066).
_TIMEOUT = aiohttp.ClientTimeout(sock_connect=10.0, sock_read=20.0)


class XmppDownloads:
    """Fetches from servers that are trusted, and from those in the public network: any other link
    could lead to what this machine reaches and its writer does not."""

    def __init__(
        self, sessions: HttpSessions, *, trusted_hosts: Sequence[str], tls: bool, max_bytes: int
    ) -> None:
        self._sessions = sessions
        self._trusted_hosts = tuple(trusted_hosts)
        self._tls = tls
        self._max_bytes = max_bytes  # bytes

    def attachments_of(self, message: XmppMessage, *, last_attempt: bool) -> Sequence[Attachment]:
        """None is fetched yet. At the last try, what cannot be fetched is not to be had: whatever
        else is said waits behind it."""
        if not message.url or not self._max_bytes:
            return ()
        name = unquote(message.url.partition("?")[0].rpartition("/")[2]) or "file"
        return (
            Attachment(
                name=name, fetch=self._make_fetch(message.url.strip(), last_attempt=last_attempt)
            ),
        )

    def _make_fetch(self, url: str, *, last_attempt: bool) -> Callable[[], Awaitable[bytes]]:
        async def fetch() -> bytes:
            try:
                return await self._fetch(self._session_for(urlsplit(url)), url)
            except ValueError as error:
                raise AttachmentUnavailable(
                    f"it is behind no link that can be followed: {error}"
                ) from error
            except (TimeoutError, aiohttp.ClientError) as error:
                told = f"it could not be fetched: {str(error) or type(error).__name__}"
                raise (
                    AttachmentUnavailable(told) if last_attempt else NotConnected(told)
                ) from error

        return fetch

    def _session_for(self, address: SplitResult) -> aiohttp.ClientSession:
        host = address.hostname or ""
        known = any(host == each or host.endswith(f".{each}") for each in self._trusted_hosts)
        schemes = ("https", "http") if known and not self._tls else ("https",)
        if address.scheme not in schemes or not host:
            raise ValueError(f"{address.scheme or 'nothing'} is not {' or '.join(schemes)}")
        return self._sessions.unrestricted if known else self._sessions.public_only

    async def _fetch(self, session: aiohttp.ClientSession, url: str) -> bytes:
        async with session.get(url, timeout=_TIMEOUT, allow_redirects=False) as response:
            if 300 <= response.status < 500:
                raise AttachmentUnavailable(f"its server does not give it ({response.status})")
            response.raise_for_status()
            return await read_body(response, max_bytes=self._max_bytes)


# MERGED holdfast.platforms.xmpp.places: Places: where something is said to an account, and how that is read.
class DirectChats:
    """All chats of two: the account has one archive of them. What somebody in a room whispers to
    us is not taken: who that is, only the room knows."""

    def __init__(
        self, parser: XmppParser, rooms: Mapping[str, XmppRoom], downloads: XmppDownloads
    ) -> None:
        self.cursor_name = parser.cursor_name()
        self.archive_owner = parser.own_jid
        self._parser = parser
        self._rooms = rooms
        self._downloads = downloads

    def parse(
        self, message: XmppMessage, position: ArchivePosition | None, *, is_live: bool
    ) -> Inbound | None:
        if room_of(self._rooms, message.sender) is not None:
            return None
        return self._parser.parse_chat_message(message, position)

    def attachments_of(self, message: XmppMessage, *, last_attempt: bool) -> Sequence[Attachment]:
        return self._downloads.attachments_of(message, last_attempt=last_attempt)


class RoomChat:
    """`heard` is told what was said there, and by which id the room knows it."""

    def __init__(
        self,
        parser: XmppParser,
        room: XmppRoom,
        downloads: XmppDownloads,
        *,
        on_message: Callable[[XmppMessage, str], None],
    ) -> None:
        self.cursor_name = parser.cursor_name(room.address)
        self.archive_owner = room.address
        self._parser = parser
        self._room = room
        self._downloads = downloads
        self._on_message = on_message

    def parse(
        self, message: XmppMessage, position: ArchivePosition | None, *, is_live: bool
    ) -> Inbound | None:
        if position is not None:
            self._on_message(message, position.id)
        return self._parser.parse_room_message(message, position, self._room, is_live=is_live)

    def attachments_of(self, message: XmppMessage, *, last_attempt: bool) -> Sequence[Attachment]:
        return self._downloads.attachments_of(message, last_attempt=last_attempt)


# MERGED holdfast.platforms.xmpp.taking: Taking: what was said in a chat or a room is handed to intake, from the archive and then live.
_MAX_FILE_ATTEMPTS = 4  # at the file of a message
_SAVE_INTERVAL_SECONDS = 60.0  # seconds between two writings of a mark


class MessageOrigin(Protocol):
    """Where something is said: the chats of two, which have one archive, or a room."""

    cursor_name: str  # of its cursor
    archive_owner: str  # by whose word a message has its id in the archive

    def parse(
        self, message: XmppMessage, position: ArchivePosition | None, *, is_live: bool
    ) -> Inbound | None:
        """None: there is nothing in it for us. `now`: it is being said, and was not archived."""
        ...

    def attachments_of(
        self, message: XmppMessage, *, last_attempt: bool
    ) -> Sequence[Attachment]: ...


UnarchivedMessage = tuple[XmppMessage, Inbound]
"""What was said where no archive has it, as it was read when it was heard: who was called by a name
in a room then need not be who has that name later."""


class XmppReceiver:
    """Owns what waits to be taken of one place, and how far it was looked at. What cannot be kept
    for the moment is tried again, and what was said after it waits. Where there is no archive,
    nobody brings it again: it is the door's then (`held`), and tried on line after line."""

    def __init__(
        self,
        origin: MessageOrigin,
        archive: MessageArchive,
        *,
        account: str,
        checkpoints: ArchiveCheckpoints,
        intake: Intake,
        buffer: EventBuffer[UnarchivedMessage],
        clock: Clock,
    ) -> None:
        self._origin = origin
        self._archive: MessageArchive | None = archive
        self._started = False
        self._account = account
        self._checkpoints = checkpoints
        self._intake = intake
        self._buffer = buffer
        self._clock = clock
        self._queue: asyncio.Queue[XmppMessage] = asyncio.Queue()
        self._reached: ArchivePosition | None = None  # everything up to here was looked at
        self._cursor: str | None = None
        self._caught_up_ids: set[str] = set()
        self._file_failures = 0  # tries at the file of the message in hand
        self._saved_at = clock.monotonic()

    @property
    def archive(self) -> MessageArchive | None:
        """None: nothing that was said there can be looked up. Raises `NotConnected` where that is
        not known yet."""
        if not self._started:
            raise NotConnected(f"the archive of {self._origin.archive_owner} has not answered yet")
        return self._archive

    async def start(self) -> None:
        """Where to go on is known when this returns: for who is new here, behind everything. A
        server that was asked for its archive does not bring what it has there a second time."""
        if self._started or self._archive is None:
            return
        try:
            end = await self._archive.end_position()
        except StanzaRejected as error:
            self._disable_archive(error)
            return
        self._cursor = await self._intake.cursor(PLATFORM, self._account, self._origin.cursor_name)
        known = self._checkpoints.position_for(self._origin.cursor_name, cursor=self._cursor)
        self._reached = end if known is None else ArchivePosition.parse(known)
        await self._save_checkpoint()
        self._started = True

    def _disable_archive(self, error: StanzaRejected) -> None:
        if error.is_temporary:
            raise NotConnected(str(error)) from error
        self._archive, self._started = None, True
        log.warning(
            "%s keeps no archive (%s): what is said there while the gateway is away is lost.",
            self._origin.archive_owner,
            error,
            extra={"action": "archive_missing"},
        )

    def enqueue(self, message: XmppMessage) -> None:
        """In the order in which it came; nothing here waits."""
        self._queue.put_nowait(message)

    async def run(self) -> None:
        await self._retry(self._drain_buffer)
        await self._retry(self.start)
        await self._retry(self._catch_up)
        while True:
            if self._queue.empty():
                # Whatever the archive had was also said to us, by the time that it had answered.
                self._caught_up_ids.clear()
                await self._save_checkpoint_if_due()
            said = await self._queue.get()
            position = self._position_of(said)
            if position is None:
                self._buffer_unarchived(said)
                await self._retry(self._drain_buffer)
            elif position.id not in self._caught_up_ids:
                await self._retry(partial(self._handle, said, position, is_live=True))

    def _buffer_unarchived(self, message: XmppMessage) -> None:
        inbound = self._origin.parse(message, None, is_live=True)
        if inbound is not None:
            self._buffer.add((message, inbound))

    async def _drain_buffer(self) -> None:
        await self._buffer.drain(lambda unkept: self._submit_counting_failures(*unkept))

    async def stop(self) -> None:
        """What was looked at need not be again; what nobody else has is not let go."""
        while not self._queue.empty():
            said = self._queue.get_nowait()
            if self._position_of(said) is None:
                self._buffer_unarchived(said)
        self._buffer.log_pending(self._origin.archive_owner)
        with suppress(StoreError):  # an older mark does no harm
            await self._save_checkpoint()

    async def _catch_up(self) -> None:
        if self._archive is None or self._reached is None:
            return
        try:
            async for kept in self._archive.messages_since(self._reached):
                await self._handle_archived(kept)
        except StanzaRejected as error:
            if error.is_temporary:
                raise NotConnected(str(error)) from error
            log.warning(
                "What was said meanwhile to %s is not to be had: %s",
                self._origin.archive_owner,
                error,
                extra={"action": "history_refused"},
            )

    async def _handle_archived(self, archived: ArchivedMessage) -> None:
        await self._handle(archived.message, archived.position, is_live=False)
        self._caught_up_ids.add(archived.position.id)

    async def _handle(
        self, message: XmppMessage, position: ArchivePosition | None, *, is_live: bool
    ) -> None:
        inbound = self._origin.parse(message, position, is_live=is_live)
        if inbound is not None:
            await self._submit_counting_failures(message, inbound)
        self._reached = position or self._reached

    async def _submit_counting_failures(self, message: XmppMessage, inbound: Inbound) -> None:
        try:
            await self._accept(message, inbound)
        except NotConnected:
            self._file_failures += 1
            raise
        self._file_failures = 0

    async def _accept(self, message: XmppMessage, inbound: Inbound) -> None:
        attached = self._origin.attachments_of(
            message, last_attempt=self._file_failures + 1 >= _MAX_FILE_ATTEMPTS
        )
        if not inbound.text and not attached:
            return
        try:
            accepted = await self._intake.accept(inbound, attached)
        except NotAddressed as error:
            log.debug("%s: %s", inbound.event_id, error, extra={"action": "message_ignored"})
        except NotAllowed as error:
            log.info(
                "Message %s of %s was dropped: %s",
                inbound.event_id,
                inbound.source.user_id,
                error,
                extra={"action": "message_not_allowed"},
            )
        else:
            if inbound.cursor is not None and not accepted.duplicate:
                self._cursor = inbound.cursor.value

    def _position_of(self, message: XmppMessage) -> ArchivePosition | None:
        name = message.archive_ids.get(self._origin.archive_owner)
        if self._archive is None or not name:
            return None
        now = datetime.fromtimestamp(self._clock.now(), UTC)
        return ArchivePosition(
            id=name, timestamp=message.timestamp or now.strftime("%Y-%m-%dT%H:%M:%SZ")
        )

    async def _save_checkpoint_if_due(self) -> None:
        if self._clock.monotonic() - self._saved_at >= _SAVE_INTERVAL_SECONDS:
            await self._retry(self._save_checkpoint)

    async def _save_checkpoint(self) -> None:
        if self._reached is not None:
            mark = ArchiveCheckpoint(position=str(self._reached), cursor=self._cursor)
            await self._checkpoints.save(self._origin.cursor_name, mark)
            self._saved_at = self._clock.monotonic()

    async def _retry(self, job: Callable[[], Awaitable[None]]) -> None:
        for pause in backoff_delays():
            try:
                return await job()
            except (StoreError, IntakeClosed, NotConnected, OutcomeUnknown) as error:
                log.warning(
                    "Messages of XMPP are not taken: %s. The next try is in %.1f s.",
                    error,
                    pause,
                    extra={"action": "receiver_retrying"},
                )
                await asyncio.sleep(pause)
