"""Connected: all that one connection of an account hears and speaks with, put together."""

import asyncio
import logging
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from holdfast.core.errors import ConnectError, NotConnected, OutcomeUnknown, SendError
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Address, Receipt
from holdfast.core.ports.protocols import Clock, Intake, NewId
from holdfast.platforms.held import Held
from holdfast.platforms.xmpp.archive import Archive
from holdfast.platforms.xmpp.downloads import Downloads
from holdfast.platforms.xmpp.finding import find
from holdfast.platforms.xmpp.marks import Marks
from holdfast.platforms.xmpp.places import Chats, InRoom
from holdfast.platforms.xmpp.plugin import XmppSettings
from holdfast.platforms.xmpp.reading import Reader
from holdfast.platforms.xmpp.receipts import Receipts
from holdfast.platforms.xmpp.recent import Heard, Recent
from holdfast.platforms.xmpp.rooms import Room, enter_all, room_of
from holdfast.platforms.xmpp.sending import Sending
from holdfast.platforms.xmpp.stanza import CLIENT, Said, bare, said, seen
from holdfast.platforms.xmpp.taking import Taking, Unkept
from holdfast.platforms.xmpp.uploads import Uploads, find_service
from holdfast.platforms.xmpp.web import Web
from holdfast.platforms.xmpp.wire import Wire, element, ping

log = logging.getLogger(__name__)

PULSE = 30.0  # seconds between two questions that only ask for a sign of life
_SOON = 5.0  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What a connection stands on, whichever it is."""

    settings: XmppSettings
    account: str
    marks: Marks
    held: MutableMapping[str, Held[Unkept]]  # by places
    recent: Recent
    intake: Intake
    clock: Clock
    new_id: NewId
    patience: float  # seconds for an answer
    settled: float  # seconds for a message to be in the archive, if it ever will be
    lost: Callable[[ConnectError], None]


class Connected:
    """Owns what is heard and said over one line, from its login to its end."""

    def __init__(self, wire: Wire, web: Web, around: Around) -> None:
        settings = around.settings
        self._wire = wire
        self._web = web
        self._around = around
        self._me = settings.jid.lower()
        self._receipts = Receipts(patience=around.patience)
        self._rooms = {
            each.lower(): Room(each.lower(), lost=around.lost) for each in settings.rooms
        }
        self._takings: dict[str, Taking] = dict(self._places())
        self.sending = Sending(
            wire, self._receipts, self._rooms, around.recent, new_id=around.new_id
        )

    def _places(self) -> Iterator[tuple[str, Taking]]:
        around, settings = self._around, self._around.settings
        reader = Reader(self._me, account=around.account, new_id=around.new_id)
        downloads = Downloads(
            self._web,
            trusted=(self._me.partition("@")[2], *settings.file_hosts),
            tls=settings.tls,
            most=settings.max_file_mb * 2**20,
        )
        yield "", self._taking(Chats(reader, self._rooms, downloads), Archive(self._wire))
        for room in self._rooms.values():
            place = InRoom(reader, room, downloads, heard=self._remember)
            archive = Archive(self._wire, room=room.address)
            yield room.address, self._taking(place, archive)

    def _taking(self, place: Chats | InRoom, archive: Archive) -> Taking:
        around = self._around
        return Taking(
            place,
            archive,
            account=around.account,
            marks=around.marks,
            intake=around.intake,
            held=around.held.setdefault(place.name, Held()),
            clock=around.clock,
        )

    async def arrive(self) -> None:
        """Present, and in its rooms, when this returns. The archive is asked first: a server that
        knows that brings nothing twice that was left for us while we were away."""
        service = await find_service(self._wire, self._me.partition("@")[2])
        if service is not None:
            self.sending.uploads = Uploads(self._wire, self._web.ours, service=service)
        await self._takings[""].begin()
        self._wire.appear(element("presence", CLIENT))
        await enter_all(self._rooms, self._wire, nick=self._around.settings.nickname)
        for room in self._rooms.values():
            if not room.nick:  # what nobody can answer is not listened to either
                del self._takings[room.address]
        entered = (each for name, each in self._takings.items() if name)
        await asyncio.gather(*(_begin_soon(each) for each in entered))

    @property
    def archived(self) -> bool:
        """Whether what is said in chats of two is kept for us."""
        return self._takings[""].archive is not None

    def work(self, tasks: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        return [
            *(tasks.create_task(each.run(), name=name) for name, each in self._takings.items()),
            tasks.create_task(self._ask_for_life(), name="pulse"),
        ]

    async def leave(self) -> None:
        for taking in self._takings.values():
            await taking.leave()

    async def find(self, delivery_id: DeliveryId, address: Address) -> Receipt | None:
        room = self._rooms.get(address.chat_id)
        if room is not None and room.closed and not room.nick:
            return None  # and sending it says why
        archive = self._takings[address.chat_id if room is not None else ""].archive
        if archive is None:
            self.sending.doubt(delivery_id)
            return None
        return await find(
            delivery_id,
            archive,
            chat=address.chat_id if room is None else None,
            ours=self._is_ours if room is None else room.is_ours,
            settled=self._around.settled,
        )

    async def probe(self) -> None:
        await self._wire.ask(ping())

    def heard(self, message: Element) -> None:
        told = said(message)
        room = room_of(self._rooms, told.sender)
        if told.error is not None:
            self._receipts.rejected(told.id, told.error, by=bare(told.sender))
        elif told.kind != "groupchat":
            self._takings[""].heard(told)
        elif room is not None and room.address in self._takings:
            if room.is_ours(told):
                self._receipts.shown(told.id, room=room.address)
            self._takings[room.address].heard(told)

    def seen(self, presence: Element) -> None:
        told = seen(presence)
        if (room := room_of(self._rooms, told.sender)) is not None:
            room.seen(told)
        elif told.kind == "subscribe":  # whoever asks to see the bot may; it watches nobody
            granted = element("presence", CLIENT, to=bare(told.sender), type="subscribed")
            self._wire.appear(granted)

    def taken(self, message_id: str) -> None:
        self._receipts.taken(message_id)

    def lost(self, reason: ConnectError) -> None:
        self._receipts.lost(reason)

    def _is_ours(self, told: Said) -> bool:
        return bare(told.sender) == self._me

    def _remember(self, told: Said, name: str) -> None:
        heard = Heard(sender=told.sender, name=name)
        self._around.recent.add(bare(told.sender), told.corrects or told.id, heard)

    async def _ask_for_life(self) -> None:
        """Any answer is one; where none comes, the silence is noticed."""
        while True:
            await asyncio.sleep(PULSE)
            try:
                await self.probe()
            except SendError:
                continue
            for room in self._rooms.values():
                await room.look_around(self._wire)


async def _begin_soon(taking: Taking) -> None:
    """A room whose archive does not answer holds up no other; it is asked again."""
    try:
        async with asyncio.timeout(_SOON):
            await taking.begin()
    except (TimeoutError, OutcomeUnknown, NotConnected) as error:
        log.info("A room is looked into later: %s", error, extra={"action": "room_unread"})
