"""The XMPP platform: one account, its connection, and the check of its credentials.

The library is imported when a connection is opened, in a thread, and not before.
"""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element

import msgspec

from holdfast.core.config.settings import account_table
from holdfast.core.errors import (
    ConnectError,
    ConnectRefused,
    NotConnected,
    OutcomeUnknown,
    SendError,
)
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Address, MessageEdit, Outbound, Receipt
from holdfast.core.ports.capabilities import Backlog, Capabilities
from holdfast.core.ports.platform import Intake
from holdfast.core.ports.platform_plugin import AccountIdentity, PluginContext
from holdfast.core.ports.runtime import Clock, IdFactory
from holdfast.core.secrets import Secret
from holdfast.platforms.inbound import EventBuffer
from holdfast.platforms.text.xmpp import fits
from holdfast.platforms.xmpp.archive import ArchiveCheckpoints, MessageArchive
from holdfast.platforms.xmpp.events import (
    CLIENT,
    XmppMessage,
    XmppStream,
    bare_jid,
    make_element,
    make_ping,
    parse_message,
    parse_presence,
)
from holdfast.platforms.xmpp.plugin import XmppSettings
from holdfast.platforms.xmpp.receiver import (
    PLATFORM,
    DirectChats,
    HttpSessions,
    RoomChat,
    UnarchivedMessage,
    XmppDownloads,
    XmppParser,
    XmppReceiver,
    open_http_sessions,
)
from holdfast.platforms.xmpp.rooms import XmppRoom, enter_all, room_of
from holdfast.platforms.xmpp.sender import (
    MAX_LENGTH,
    REPEAT_NOTICE_LENGTH,
    RecentRoomMessages,
    RoomMessageRef,
    XmppReceipts,
    XmppSender,
    XmppUploads,
    find_in_archive,
    find_upload_service,
)

if TYPE_CHECKING:
    from holdfast.platforms.xmpp.client import XmppClient

log = logging.getLogger(__name__)

PING_INTERVAL = 30.0  # seconds
RESPONSE_TIMEOUT = 20.0  # seconds
_ARCHIVE_TIMEOUT = 5.0  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class XmppAccountContext:
    """What all connections of an account share."""

    settings: XmppSettings
    account: str
    checkpoints: ArchiveCheckpoints
    buffers: MutableMapping[str, EventBuffer[UnarchivedMessage]]  # by cursor name
    recent_messages: RecentRoomMessages
    intake: Intake
    clock: Clock
    new_id: IdFactory
    timeout: float  # seconds for a response
    settle_seconds: float  # after which an accepted message is in the archive
    on_lost: Callable[[ConnectError], None]


class XmppConnection:
    """All parts of one connection, from login to its end: rooms, receivers and sender."""

    def __init__(
        self, stream: XmppStream, sessions: HttpSessions, context: XmppAccountContext
    ) -> None:
        settings = context.settings
        self._stream = stream
        self._sessions = sessions
        self._context = context
        self._own_jid = settings.jid.lower()
        self._receipts = XmppReceipts(timeout=context.timeout)
        self._rooms = {
            each.lower(): XmppRoom(each.lower(), on_lost=context.on_lost) for each in settings.rooms
        }
        self._receivers: dict[str, XmppReceiver] = dict(self._make_receivers())
        self.sender = XmppSender(
            stream, self._receipts, self._rooms, context.recent_messages, new_id=context.new_id
        )

    def _make_receivers(self) -> Iterator[tuple[str, XmppReceiver]]:
        context, settings = self._context, self._context.settings
        parser = XmppParser(self._own_jid, account=context.account, new_id=context.new_id)
        downloads = XmppDownloads(
            self._sessions,
            trusted_hosts=(self._own_jid.partition("@")[2], *settings.file_hosts),
            tls=settings.tls,
            max_bytes=settings.max_file_mb * 2**20,
        )
        yield (
            "",
            self._make_receiver(
                DirectChats(parser, self._rooms, downloads), MessageArchive(self._stream)
            ),
        )
        for room in self._rooms.values():
            origin = RoomChat(parser, room, downloads, on_message=self._remember)
            archive = MessageArchive(self._stream, room=room.address)
            yield room.address, self._make_receiver(origin, archive)

    def _make_receiver(
        self, origin: DirectChats | RoomChat, archive: MessageArchive
    ) -> XmppReceiver:
        context = self._context
        return XmppReceiver(
            origin,
            archive,
            account=context.account,
            checkpoints=context.checkpoints,
            intake=context.intake,
            buffer=context.buffers.setdefault(origin.cursor_name, EventBuffer()),
            clock=context.clock,
        )

    async def start(self) -> None:
        """Sends the presence and enters the rooms. Asks the archive first: then the server does not
        send the offline messages that are in the archive."""
        service = await find_upload_service(self._stream, self._own_jid.partition("@")[2])
        if service is not None:
            self.sender.uploads = XmppUploads(
                self._stream, self._sessions.unrestricted, service=service
            )
        await self._receivers[""].start()
        self._stream.post_presence(make_element("presence", CLIENT))
        await enter_all(self._rooms, self._stream, nick=self._context.settings.nickname)
        for room in self._rooms.values():
            if not room.nick:  # not entered, so nothing there can be answered
                del self._receivers[room.address]
        in_rooms = (each for name, each in self._receivers.items() if name)
        await asyncio.gather(*(_start_within_timeout(each) for each in in_rooms))

    @property
    def has_archive(self) -> bool:
        """Whether the server archives direct chats."""
        return self._receivers[""].archive is not None

    def start_tasks(self, tasks: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        return [
            *(tasks.create_task(each.run(), name=name) for name, each in self._receivers.items()),
            tasks.create_task(self._send_pings(), name="keepalive"),
        ]

    async def stop(self) -> None:
        for receiver in self._receivers.values():
            await receiver.stop()

    async def find_delivery(self, delivery_id: DeliveryId, address: Address) -> Receipt | None:
        room = self._rooms.get(address.chat_id)
        if room is not None and room.closed_reason and not room.nick:
            return None  # sending it again raises the reason
        archive = self._receivers[address.chat_id if room is not None else ""].archive
        if archive is None:
            self.sender.mark_outcome_unknown(delivery_id)
            return None
        return await find_in_archive(
            delivery_id,
            archive,
            chat=address.chat_id if room is None else None,
            is_ours=self._is_ours if room is None else room.is_ours,
            settle_seconds=self._context.settle_seconds,
        )

    async def probe(self) -> None:
        await self._stream.request(make_ping())

    def handle_message(self, message: Element) -> None:
        parsed = parse_message(message)
        room = room_of(self._rooms, parsed.sender)
        if parsed.error is not None:
            self._receipts.rejected(parsed.id, parsed.error, by=bare_jid(parsed.sender))
        elif parsed.kind != "groupchat":
            self._receivers[""].enqueue(parsed)
        elif room is not None and room.address in self._receivers:
            if room.is_ours(parsed):
                self._receipts.reflected(parsed.id, room=room.address)
            self._receivers[room.address].enqueue(parsed)

    def handle_presence(self, presence: Element) -> None:
        parsed = parse_presence(presence)
        if (room := room_of(self._rooms, parsed.sender)) is not None:
            room.handle_presence(parsed)
        elif parsed.kind == "subscribe":  # granted to all; the bot subscribes to no presence
            self._stream.post_presence(
                make_element("presence", CLIENT, to=bare_jid(parsed.sender), type="subscribed")
            )

    def handle_ack(self, message_id: str) -> None:
        self._receipts.acknowledged(message_id)

    def connection_lost(self, reason: ConnectError) -> None:
        self._receipts.connection_lost(reason)

    def _is_ours(self, message: XmppMessage) -> bool:
        return bare_jid(message.sender) == self._own_jid

    def _remember(self, message: XmppMessage, stanza_id: str) -> None:
        ref = RoomMessageRef(sender=message.sender, stanza_id=stanza_id)
        self._context.recent_messages.add(
            bare_jid(message.sender), message.corrects or message.id, ref
        )

    async def _send_pings(self) -> None:
        """Any answer counts as activity; without one, the heartbeat notices the silence."""
        while True:
            await asyncio.sleep(PING_INTERVAL)
            try:
                await self.probe()
            except SendError:
                continue
            for room in self._rooms.values():
                await room.check_membership(self._stream)


async def _start_within_timeout(receiver: XmppReceiver) -> None:
    """A room whose archive does not answer does not delay the others: it is asked again later."""
    try:
        async with asyncio.timeout(_ARCHIVE_TIMEOUT):
            await receiver.start()
    except (TimeoutError, OutcomeUnknown, NotConnected) as error:
        log.info(
            "Could not read the archive of a room: %s; retrying later",
            error,
            extra={"action": "room_archive_delayed"},
        )


def make_tls_context(settings: XmppSettings, *, table: str) -> ssl.SSLContext:
    """Reads files. Raises `ConnectRefused` if `ca_file` has no certificates."""
    if not settings.tls:
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # not used
    if not settings.ca_file:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cafile=str(Path(settings.ca_file).expanduser()))
    except OSError as error:
        raise ConnectRefused(
            "{ca_file} has no readable certificates: {error}",
            ca_file=settings.ca_file,
            error=error,
            table=table,
            remedy="Correct {table}.ca_file.",
        ) from error


def capabilities_of(settings: XmppSettings) -> Capabilities:
    """Whether the server has an archive and accepts files is known once connected. Each edit is a
    message of its own in archives and on phones, so the edit interval is long."""
    return Capabilities(
        backlog=Backlog.HISTORY,
        lookup=True,
        max_length=MAX_LENGTH - REPEAT_NOTICE_LENGTH,
        edit=True,
        edit_interval=3.0,
        group_edit_interval=6.0,
        typing=True,
        reactions=True,
        attachments_in=settings.max_file_mb > 0,
        heartbeat_interval=3 * PING_INTERVAL,
    )


class XmppPlatform:
    """One account. Owns its connection while connected, and the checkpoint file in `folder`."""

    def __init__(
        self,
        password: Secret,
        *,
        account: str,
        settings: XmppSettings,
        folder: Path,
        clock: Clock,
        new_id: IdFactory,
        timeout: float = RESPONSE_TIMEOUT,
        settle_seconds: float = 1.0,
    ) -> None:
        self.name = PLATFORM
        self.account = account
        self.capabilities = capabilities_of(settings)
        self._password = password
        self._settings = settings
        self._folder = folder
        self._clock = clock
        self._new_id = new_id
        self._timeout = timeout  # seconds for a response
        self._settle_seconds = settle_seconds  # after which an accepted message is archived
        self._buffers: dict[str, EventBuffer[UnarchivedMessage]] = {}
        # Across connections: a reaction may be removed on the next one.
        self._recent_messages = RecentRoomMessages()
        self._connection: XmppConnection | None = None

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        make_client = await asyncio.to_thread(
            client_factory, self._settings, account=self.account, timeout=self._timeout
        )
        context = await self._make_context(intake)
        client = make_client(self._settings, self._password, resource=self._settings.resource)
        client.on_activity = lambda: intake.report_alive(self.name, self.account)
        async with client.open_session(), open_http_sessions() as sessions:
            connection = XmppConnection(client, sessions, context)
            client.on_message, client.on_presence, client.on_ack = (
                connection.handle_message,
                connection.handle_presence,
                connection.handle_ack,
            )
            client.ended.add_done_callback(lambda ended: connection.connection_lost(ended.result()))
            try:
                await connection.start()
            except SendError:
                if client.ended.done():  # its reason is more precise
                    raise client.ended.result() from None
                raise
            self._update_capabilities(connection)
            async with self._run_tasks(connection):
                client.ended.add_done_callback(partial(self._handle_end, context))
                yield

    @asynccontextmanager
    async def _run_tasks(self, connection: XmppConnection) -> AsyncIterator[None]:
        try:
            async with asyncio.TaskGroup() as tasks:
                started = connection.start_tasks(tasks)
                self._connection = connection
                try:
                    yield
                finally:
                    self._connection = None
                    for task in started:
                        task.cancel()
        finally:
            await connection.stop()

    async def _make_context(self, intake: Intake) -> XmppAccountContext:
        def report_lost(error: ConnectError) -> None:
            intake.report_lost(self.name, self.account, error)

        # By the JID: another account under the same name has other archives.
        name = blake2b(self._settings.jid.lower().encode(), digest_size=8).hexdigest()
        return XmppAccountContext(
            settings=self._settings,
            account=self.account,
            timeout=self._timeout,
            settle_seconds=self._settle_seconds,
            checkpoints=await ArchiveCheckpoints.load(self._folder / f"{name}.json"),
            buffers=self._buffers,
            recent_messages=self._recent_messages,
            intake=intake,
            clock=self._clock,
            new_id=self._new_id,
            on_lost=report_lost,
        )

    def _handle_end(self, context: XmppAccountContext, ended: asyncio.Future[ConnectError]) -> None:
        if self._connection is not None:  # else we disconnected ourselves
            context.on_lost(ended.result())

    def _update_capabilities(self, connection: XmppConnection) -> None:
        has_archive = connection.has_archive
        self.capabilities = msgspec.structs.replace(
            self.capabilities,
            backlog=Backlog.HISTORY if has_archive else Backlog.NONE,
            lookup=has_archive,
            attachments_out=connection.sender.uploads is not None,
        )

    def fits(self, text: str) -> bool:
        return fits(text, limit=MAX_LENGTH - REPEAT_NOTICE_LENGTH)

    async def send(self, outbound: Outbound) -> Receipt:
        return await self._active_connection.sender.send(outbound)

    async def edit(self, edit: MessageEdit) -> None:
        await self._active_connection.sender.edit(edit)

    async def find_delivery(self, delivery_id: DeliveryId, address: Address) -> Receipt | None:
        return await self._active_connection.find_delivery(delivery_id, address)

    async def show_typing(self, address: Address) -> None:
        self._active_connection.sender.show_typing(address)

    async def react(self, address: Address, message_id: str, emoji: str | None) -> None:
        self._active_connection.sender.react(address, message_id, emoji)

    async def probe(self) -> None:
        await self._active_connection.probe()

    @property
    def _active_connection(self) -> XmppConnection:
        if self._connection is None:
            raise NotConnected("the account is not connected; nothing was sent")
        return self._connection


def client_factory(
    settings: XmppSettings, *, account: str, timeout: float = RESPONSE_TIMEOUT
) -> "Callable[..., XmppClient]":
    """Runs in a thread: importing the library and reading certificates takes a while."""
    try:
        from holdfast.platforms.xmpp.client import XmppClient  # noqa: PLC0415 - imports slixmpp
    except ModuleNotFoundError as error:
        raise ConnectRefused(
            "the XMPP library slixmpp is not installed ({error})",
            error=error,
            remedy="Run pip install 'holdfast[xmpp]', then restart the gateway.",
        ) from error
    table = account_table(PLATFORM, account)
    context = make_tls_context(settings, table=table)
    return partial(XmppClient, context=context, timeout=timeout, table=table)


async def check_account(context: PluginContext[XmppSettings]) -> AccountIdentity:
    """Logs in and out again, without sending a presence or receiving messages. Uses another
    resource, so that a running gateway stays connected."""
    settings = context.settings
    make_client = await asyncio.to_thread(client_factory, settings, account=context.account)
    client = make_client(settings, context.secrets["password"], resource="")
    async with client.open_session():
        pass
    return AccountIdentity(name=settings.jid, chat_link=f"xmpp:{settings.jid}")
