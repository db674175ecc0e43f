"""Connected: all that one connection of an account hears and speaks with, put together."""

import asyncio
import logging
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from holdfast.core.errors import ConnectError, NotConnected, OutcomeUnknown, SendError
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Address, Receipt
from holdfast.core.ports.protocols import Clock, IdFactory, Intake
from holdfast.platforms.held import EventBuffer
from holdfast.platforms.xmpp.archive import MessageArchive
from holdfast.platforms.xmpp.downloads import XmppDownloads
from holdfast.platforms.xmpp.finding import find_in_archive
from holdfast.platforms.xmpp.marks import ArchiveCheckpoints
from holdfast.platforms.xmpp.places import DirectChats, RoomChat
from holdfast.platforms.xmpp.plugin import XmppSettings
from holdfast.platforms.xmpp.reading import XmppParser
from holdfast.platforms.xmpp.receipts import XmppReceipts
from holdfast.platforms.xmpp.recent import RecentRoomMessages, RoomMessageRef
from holdfast.platforms.xmpp.rooms import XmppRoom, enter_all, room_of
from holdfast.platforms.xmpp.sending import XmppSender
from holdfast.platforms.xmpp.stanza import (
    CLIENT,
    XmppMessage,
    bare_jid,
    parse_message,
    parse_presence,
)
from holdfast.platforms.xmpp.taking import UnarchivedMessage, XmppReceiver
from holdfast.platforms.xmpp.uploads import XmppUploads, find_upload_service
from holdfast.platforms.xmpp.web import HttpSessions
from holdfast.platforms.xmpp.wire import XmppStream, make_element, make_ping

log = logging.getLogger(__name__)

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
