"""Receives messages of chats and rooms, first from the archive and then live, and passes them to
intake."""

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
from holdfast.core.net import guarded_socket_factory
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
from holdfast.system.addresses import is_external

log = logging.getLogger(__name__)

PLATFORM = "xmpp"
_DOWNLOAD_TIMEOUT = aiohttp.ClientTimeout(sock_connect=10.0, sock_read=20.0)
_MAX_FILE_ATTEMPTS = 4  # for the file of one message
_SAVE_INTERVAL_SECONDS = 60.0  # between two saves of a checkpoint


class XmppParser:
    """Parses the messages of one account. Has no state."""

    def __init__(self, own_jid: str, *, account: str, new_id: IdFactory) -> None:
        self.own_jid = own_jid
        self._account = account
        self._new_id = new_id

    def cursor_name(self, room: str | None = None) -> str:
        """By the JID: another account under the same name has other archives."""
        return self.own_jid if room is None else f"{self.own_jid} in {room}"

    def parse_chat_message(
        self, message: XmppMessage, position: ArchivePosition | None
    ) -> Inbound | None:
        """None if the message has no content or is ours."""
        sender = bare_jid(message.sender)
        if (
            message.kind not in ("chat", "normal")
            or sender == self.own_jid
            or not _has_content(message)
        ):
            return None
        # An address without "@" is a server: its messages are notices to all users.
        author = Author.PERSON if "@" in sender else Author.BOT
        source = Source(
            platform=PLATFORM,
            account=self._account,
            chat_id=sender,
            user_id=sender,
            user_name=sender.partition("@")[0],
            language=message.language,
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
            language=message.language,
        )
        mentioned, text = split_mention(message.body, room.nick)
        mentioned = mentioned or f"{room.address}/{room.nick}" in message.mentions
        return self._inbound(message, source, position, text, mentioned=mentioned, room=room)

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
        room_address = None if room is None else room.address
        cursor = None
        if position is not None:
            cursor = Cursor(name=self.cursor_name(room_address), value=str(position))
        return Inbound(
            source=source,
            event_id=self._event_id(message, position, room_address),
            message_id=message.corrects or message.id or self._new_id("xmpp"),
            text=text.replace(message.url, "").strip() if message.url else text,
            mentioned=mentioned,
            quoted=self._quote(message, room),
            cursor=cursor,
        )

    def _event_id(
        self, message: XmppMessage, position: ArchivePosition | None, room: str | None
    ) -> str:
        """By its id in the archive; without an archive, by the id that the sender gave it."""
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
    """Whether the text mentions the nick, and the text without the nick in front, so that
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


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSessions:
    """HTTP clients: one for our own servers, and one for links that other users send."""

    unrestricted: aiohttp.ClientSession  # may connect to any address
    public_only: aiohttp.ClientSession  # refuses addresses in private networks


@asynccontextmanager
async def open_http_sessions() -> AsyncIterator[HttpSessions]:
    guarded = aiohttp.TCPConnector(
        socket_factory=guarded_socket_factory(is_external, socket.socket)
    )
    async with (
        aiohttp.ClientSession() as any_host,
        aiohttp.ClientSession(connector=guarded) as public,
    ):
        yield HttpSessions(unrestricted=any_host, public_only=public)


class XmppDownloads:
    """Fetches the files that users send as links (XEP-0066), from trusted hosts and from public
    addresses. Any other link could lead to a service that only this machine can reach."""

    def __init__(
        self, sessions: HttpSessions, *, trusted_hosts: Sequence[str], tls: bool, max_bytes: int
    ) -> None:
        self._sessions = sessions
        self._trusted_hosts = tuple(trusted_hosts)
        self._tls = tls
        self._max_bytes = max_bytes

    def attachments_of(self, message: XmppMessage, *, last_attempt: bool) -> Sequence[Attachment]:
        """The files, not fetched yet. At the last attempt, a file that cannot be fetched is
        unavailable: all later messages wait behind this one."""
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
                    "its link is not allowed: {error}", error=error
                ) from error
            except (TimeoutError, aiohttp.ClientError) as error:
                reason = f"could not be fetched: {str(error) or type(error).__name__}"
                raise (
                    AttachmentUnavailable(reason) if last_attempt else NotConnected(reason)
                ) from error

        return fetch

    def _session_for(self, address: SplitResult) -> aiohttp.ClientSession:
        host = address.hostname or ""
        trusted = any(host == each or host.endswith(f".{each}") for each in self._trusted_hosts)
        schemes = ("https", "http") if trusted and not self._tls else ("https",)
        if address.scheme not in schemes or not host:
            raise ValueError(f"{address.scheme or 'nothing'} is not {' or '.join(schemes)}")
        return self._sessions.unrestricted if trusted else self._sessions.public_only

    async def _fetch(self, session: aiohttp.ClientSession, url: str) -> bytes:
        async with session.get(url, timeout=_DOWNLOAD_TIMEOUT, allow_redirects=False) as response:
            if 300 <= response.status < 500:
                raise AttachmentUnavailable(
                    "the server refused to send it ({status})", status=response.status
                )
            response.raise_for_status()
            return await read_body(response, max_bytes=self._max_bytes)


class MessageOrigin(Protocol):
    """Where messages come from: all direct chats, which share one archive, or one room."""

    cursor_name: str
    archive_owner: str  # the address that assigns ids in the archive

    def parse(
        self, message: XmppMessage, position: ArchivePosition | None, *, is_live: bool
    ) -> Inbound | None:
        """None if the message is not for us. `is_live`: it does not come from the archive."""
        ...

    def attachments_of(
        self, message: XmppMessage, *, last_attempt: bool
    ) -> Sequence[Attachment]: ...


class DirectChats:
    """All direct chats: the account has one archive of them. Private messages from occupants of a
    room are ignored, because only the room knows who they are."""

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
    """One room. `on_message` is called with each archived message and its id in the room."""

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


UnarchivedMessage = tuple[XmppMessage, Inbound]
"""A message that no archive has, parsed when it arrived: another user may have the same nickname in
a room later."""


class XmppReceiver:
    """Owns the queued messages of one origin, and how far its archive was processed. A message that
    cannot be stored is retried, and later messages wait behind it. Without an archive the server
    does not send it again: then it is in `buffer`, which outlives the connection."""

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
        self._reached: ArchivePosition | None = None  # everything up to here was processed
        self._cursor: str | None = None
        self._caught_up_ids: set[str] = set()
        self._file_failures = 0  # attempts for the file of the current message
        self._saved_at = clock.monotonic()

    @property
    def archive(self) -> MessageArchive | None:
        """None if there is no archive. Raises `NotConnected` if that is not known yet."""
        if not self._started:
            raise NotConnected(
                "the archive of {archive_owner} has not answered yet",
                archive_owner=self._origin.archive_owner,
            )
        return self._archive

    async def start(self) -> None:
        """Determines where to continue in the archive: for a new account, at its end. After this
        request the server does not send archived messages as offline messages."""
        if self._started or self._archive is None:
            return
        try:
            end = await self._archive.end_position()
        except StanzaRejected as error:
            self._disable_archive(error)
            return
        self._cursor = await self._intake.cursor(PLATFORM, self._account, self._origin.cursor_name)
        stored = self._checkpoints.position_for(self._origin.cursor_name, cursor=self._cursor)
        self._reached = end if stored is None else ArchivePosition.parse(stored)
        await self._save_checkpoint()
        self._started = True

    def _disable_archive(self, error: StanzaRejected) -> None:
        if error.is_temporary:
            raise NotConnected("{error}", error=error) from error
        self._archive, self._started = None, True
        log.warning(
            "%s has no XMPP archive (%s): messages sent while the gateway is down are lost",
            self._origin.archive_owner,
            error,
            extra={"action": "archive_missing"},
        )

    def enqueue(self, message: XmppMessage) -> None:
        """Does not wait. Messages are processed in the order of the calls."""
        self._queue.put_nowait(message)

    async def run(self) -> None:
        await self._retry(self._drain_buffer)
        await self._retry(self.start)
        await self._retry(self._catch_up)
        while True:
            if self._queue.empty():
                # Every message from the archive that is also sent live has arrived by now.
                self._caught_up_ids.clear()
                await self._save_checkpoint_if_due()
            message = await self._queue.get()
            position = self._position_of(message)
            if position is None:
                self._buffer_unarchived(message)
                await self._retry(self._drain_buffer)
            elif position.id not in self._caught_up_ids:
                await self._retry(partial(self._handle, message, position, is_live=True))

    def _buffer_unarchived(self, message: XmppMessage) -> None:
        inbound = self._origin.parse(message, None, is_live=True)
        if inbound is not None:
            self._buffer.add((message, inbound))

    async def _drain_buffer(self) -> None:
        await self._buffer.drain(lambda unarchived: self._submit_counting_failures(*unarchived))

    async def stop(self) -> None:
        """Saves the checkpoint, and buffers queued messages that no archive has."""
        while not self._queue.empty():
            message = self._queue.get_nowait()
            if self._position_of(message) is None:
                self._buffer_unarchived(message)
        self._buffer.log_pending(self._origin.archive_owner)
        with suppress(StoreError):  # an older checkpoint does no harm
            await self._save_checkpoint()

    async def _catch_up(self) -> None:
        if self._archive is None or self._reached is None:
            return
        try:
            async for archived in self._archive.messages_since(self._reached):
                await self._handle_archived(archived)
        except StanzaRejected as error:
            if error.is_temporary:
                raise NotConnected("{error}", error=error) from error
            log.warning(
                "Could not fetch the XMPP archive of %s, which is skipped: %s",
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
        attachments = self._origin.attachments_of(
            message, last_attempt=self._file_failures + 1 >= _MAX_FILE_ATTEMPTS
        )
        if not inbound.text and not attachments:
            return
        try:
            accepted = await self._intake.accept(inbound, attachments)
        except NotAddressed as error:
            log.debug(
                "Ignored XMPP message %s: %s",
                inbound.event_id,
                error,
                extra={"action": "message_ignored"},
            )
        except NotAllowed as error:
            log.info(
                "Dropped XMPP message %s of %s: %s",
                inbound.event_id,
                inbound.source.user_id,
                error,
                extra={"action": "message_not_allowed"},
            )
        else:
            if inbound.cursor is not None and not accepted.duplicate:
                self._cursor = inbound.cursor.value

    def _position_of(self, message: XmppMessage) -> ArchivePosition | None:
        archive_id = message.archive_ids.get(self._origin.archive_owner)
        if self._archive is None or not archive_id:
            return None
        now = datetime.fromtimestamp(self._clock.now(), UTC)
        return ArchivePosition(
            id=archive_id, timestamp=message.timestamp or now.strftime("%Y-%m-%dT%H:%M:%SZ")
        )

    async def _save_checkpoint_if_due(self) -> None:
        if self._clock.monotonic() - self._saved_at >= _SAVE_INTERVAL_SECONDS:
            await self._retry(self._save_checkpoint)

    async def _save_checkpoint(self) -> None:
        if self._reached is not None:
            checkpoint = ArchiveCheckpoint(position=str(self._reached), cursor=self._cursor)
            await self._checkpoints.save(self._origin.cursor_name, checkpoint)
            self._saved_at = self._clock.monotonic()

    async def _retry(self, job: Callable[[], Awaitable[None]]) -> None:
        for pause in backoff_delays():
            try:
                return await job()
            except (StoreError, IntakeClosed, NotConnected, OutcomeUnknown) as error:
                log.warning(
                    "Could not process messages from XMPP: %s; retrying in %.1f s",
                    error,
                    pause,
                    extra={"action": "receiver_retrying"},
                )
                await asyncio.sleep(pause)
