"""The XMPP platform: one account, the parts of one connection composed, and the check of its credentials.

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


# MERGED holdfast.platforms.xmpp.connected: Connected: all that one connection of an account hears and speaks with, put together.
PING_INTERVAL = 30.0  # seconds between two questions that only ask for a sign of life
_ARCHIVE_TIMEOUT = 5.0  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class XmppAccountContext:
    """What a connection stands on, whichever it is."""

    settings: XmppSettings
    account: str
    checkpoints: ArchiveCheckpoints
    buffers: MutableMapping[str, EventBuffer[UnarchivedMessage]]  # by places
    recent_messages: RecentRoomMessages
    intake: Intake
    clock: Clock
    new_id: IdFactory
    timeout: float  # seconds for an answer
    settle_seconds: float  # seconds for a message to be in the archive, if it ever will be
    on_lost: Callable[[ConnectError], None]


class XmppConnection:
    """Owns what is heard and said over one line, from its login to its end."""

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
        around, settings = self._context, self._context.settings
        reader = XmppParser(self._own_jid, account=around.account, new_id=around.new_id)
        downloads = XmppDownloads(
            self._sessions,
            trusted_hosts=(self._own_jid.partition("@")[2], *settings.file_hosts),
            tls=settings.tls,
            max_bytes=settings.max_file_mb * 2**20,
        )
        yield (
            "",
            self._make_receiver(
                DirectChats(reader, self._rooms, downloads), MessageArchive(self._stream)
            ),
        )
        for room in self._rooms.values():
            place = RoomChat(reader, room, downloads, on_message=self._remember)
            archive = MessageArchive(self._stream, room=room.address)
            yield room.address, self._make_receiver(place, archive)

    def _make_receiver(
        self, origin: DirectChats | RoomChat, archive: MessageArchive
    ) -> XmppReceiver:
        around = self._context
        return XmppReceiver(
            origin,
            archive,
            account=around.account,
            checkpoints=around.checkpoints,
            intake=around.intake,
            buffer=around.buffers.setdefault(origin.cursor_name, EventBuffer()),
            clock=around.clock,
        )

    async def start(self) -> None:
        """Present, and in its rooms, when this returns. The archive is asked first: a server that
        knows that brings nothing twice that was left for us while we were away."""
        service = await find_upload_service(self._stream, self._own_jid.partition("@")[2])
        if service is not None:
            self.sender.uploads = XmppUploads(
                self._stream, self._sessions.unrestricted, service=service
            )
        await self._receivers[""].start()
        self._stream.post_presence(make_element("presence", CLIENT))
        await enter_all(self._rooms, self._stream, nick=self._context.settings.nickname)
        for room in self._rooms.values():
            if not room.nick:  # what nobody can answer is not listened to either
                del self._receivers[room.address]
        entered = (each for name, each in self._receivers.items() if name)
        await asyncio.gather(*(_start_within_timeout(each) for each in entered))

    @property
    def has_archive(self) -> bool:
        """Whether what is said in chats of two is kept for us."""
        return self._receivers[""].archive is not None

    def start_tasks(self, tasks: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        return [
            *(tasks.create_task(each.run(), name=name) for name, each in self._receivers.items()),
            tasks.create_task(self._send_pings(), name="pulse"),
        ]

    async def stop(self) -> None:
        for taking in self._receivers.values():
            await taking.stop()

    async def find_delivery(self, delivery_id: DeliveryId, address: Address) -> Receipt | None:
        room = self._rooms.get(address.chat_id)
        if room is not None and room.closed_reason and not room.nick:
            return None  # and sending it says why
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
        told = parse_message(message)
        room = room_of(self._rooms, told.sender)
        if told.error is not None:
            self._receipts.rejected(told.id, told.error, by=bare_jid(told.sender))
        elif told.kind != "groupchat":
            self._receivers[""].enqueue(told)
        elif room is not None and room.address in self._receivers:
            if room.is_ours(told):
                self._receipts.reflected(told.id, room=room.address)
            self._receivers[room.address].enqueue(told)

    def handle_presence(self, presence: Element) -> None:
        told = parse_presence(presence)
        if (room := room_of(self._rooms, told.sender)) is not None:
            room.handle_presence(told)
        elif told.kind == "subscribe":  # whoever asks to see the bot may; it watches nobody
            granted = make_element("presence", CLIENT, to=bare_jid(told.sender), type="subscribed")
            self._stream.post_presence(granted)

    def handle_ack(self, message_id: str) -> None:
        self._receipts.acknowledged(message_id)

    def connection_lost(self, reason: ConnectError) -> None:
        self._receipts.connection_lost(reason)

    def _is_ours(self, message: XmppMessage) -> bool:
        return bare_jid(message.sender) == self._own_jid

    def _remember(self, message: XmppMessage, stanza_id: str) -> None:
        heard = RoomMessageRef(sender=message.sender, stanza_id=stanza_id)
        self._context.recent_messages.add(
            bare_jid(message.sender), message.corrects or message.id, heard
        )

    async def _send_pings(self) -> None:
        """Any answer is one; where none comes, the silence is noticed."""
        while True:
            await asyncio.sleep(PING_INTERVAL)
            try:
                await self.probe()
            except SendError:
                continue
            for room in self._rooms.values():
                await room.check_membership(self._stream)


async def _start_within_timeout(receiver: XmppReceiver) -> None:
    """A room whose archive does not answer holds up no other; it is asked again."""
    try:
        async with asyncio.timeout(_ARCHIVE_TIMEOUT):
            await receiver.start()
    except (TimeoutError, OutcomeUnknown, NotConnected) as error:
        log.info("A room is looked into later: %s", error, extra={"action": "room_archive_delayed"})


# MERGED holdfast.platforms.xmpp.trust: Trust: who may vouch for a server.
def make_tls_context(settings: XmppSettings, *, table: str) -> ssl.SSLContext:
    """Reads files. Raises `ConnectRefused` where the one that was named holds no certificates."""
    if not settings.tls:
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # nobody is asked for anything
    if not settings.ca_file:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cafile=str(Path(settings.ca_file).expanduser()))
    except OSError as error:
        raise ConnectRefused(
            f"{settings.ca_file} holds no certificates that can be read: {error}",
            remedy=f"mend {table}.ca_file",
        ) from error


# MERGED holdfast.platforms.xmpp.platform: The XMPP platform: one account of a server, connected by being present there.
RESPONSE_TIMEOUT = 20.0  # seconds


def capabilities_of(settings: XmppSettings) -> Capabilities:
    """What the server adds, an archive and a place for files, is known once connected. Each edit
    is a message in archives and on phones, so there are few."""
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
    """A door to one account. It owns its line while it is connected, and keeps in `folder` how
    far each archive was looked at."""

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
        self._timeout = timeout  # seconds for an answer
        self._settle_seconds = (
            settle_seconds  # seconds for a message to be in the archive, if it ever will be
        )
        self._buffers: dict[str, EventBuffer[UnarchivedMessage]] = {}
        self._recent_messages = (
            RecentRoomMessages()
        )  # over all its lines: what is signed may be so on the next
        self._connection: XmppConnection | None = None

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        make = await asyncio.to_thread(
            client_factory, self._settings, account=self.account, timeout=self._timeout
        )
        around = await self._make_context(intake)
        line = make(self._settings, self._password, resource=self._settings.resource)
        line.on_activity = lambda: intake.report_alive(self.name, self.account)
        async with line.open_session(), open_http_sessions() as reached:
            connected = XmppConnection(line, reached, around)
            line.on_message, line.on_presence, line.on_ack = (
                connected.handle_message,
                connected.handle_presence,
                connected.handle_ack,
            )
            line.ended.add_done_callback(lambda over: connected.connection_lost(over.result()))
            try:
                await connected.start()
            except SendError:
                if line.ended.done():  # which says more of why
                    raise line.ended.result() from None
                raise
            self._update_capabilities(connected)
            async with self._run_tasks(connected):
                line.ended.add_done_callback(partial(self._handle_end, around))
                yield

    @asynccontextmanager
    async def _run_tasks(self, connection: XmppConnection) -> AsyncIterator[None]:
        try:
            async with asyncio.TaskGroup() as tasks:
                working = connection.start_tasks(tasks)
                self._connection = connection
                try:
                    yield
                finally:
                    self._connection = None
                    for task in working:
                        task.cancel()
        finally:
            await connection.stop()

    async def _make_context(self, intake: Intake) -> XmppAccountContext:
        def lost(error: ConnectError) -> None:
            intake.report_lost(self.name, self.account, error)

        # Of this very account: another one under the same name has archives of its own.
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
            on_lost=lost,
        )

    def _handle_end(self, context: XmppAccountContext, ended: asyncio.Future[ConnectError]) -> None:
        if self._connection is not None:  # else we have left by ourselves
            context.on_lost(ended.result())

    def _update_capabilities(self, connection: XmppConnection) -> None:
        archived = connection.has_archive
        self.capabilities = msgspec.structs.replace(
            self.capabilities,
            backlog=Backlog.HISTORY if archived else Backlog.NONE,
            lookup=archived,
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
            raise NotConnected("the account is not connected to its server; nothing was sent")
        return self._connection


def client_factory(
    settings: XmppSettings, *, account: str, timeout: float = RESPONSE_TIMEOUT
) -> "Callable[..., XmppClient]":
    """In a thread: the import takes a while, and so does reading whom this machine trusts; the
    loop has others to serve."""
    try:
        from holdfast.platforms.xmpp.client import XmppClient  # noqa: PLC0415 - imports slixmpp
    except ModuleNotFoundError as error:
        raise ConnectRefused(
            f"the library that speaks XMPP is not installed ({error})",
            remedy="pip install 'holdfast[xmpp]', then restart the gateway",
        ) from error
    table = account_table(PLATFORM, account)
    context = make_tls_context(settings, table=table)
    return partial(XmppClient, context=context, timeout=timeout, table=table)


# MERGED holdfast.platforms.xmpp.check: Asking an XMPP server whether it knows the account.
async def check_account(context: PluginContext[XmppSettings]) -> AccountIdentity:
    """Logs in and out again, unseen: nobody is shown a presence, and no message is taken. Under a
    name of its own, so that a gateway that is connected stays so."""
    settings = context.settings
    make = await asyncio.to_thread(client_factory, settings, account=context.account)
    line = make(settings, context.secrets["password"], resource="")
    async with line.open_session():
        pass
    return AccountIdentity(name=settings.jid, chat_link=f"xmpp:{settings.jid}")
