"""Sending: our messages, changes and signs as stanzas."""

from xml.etree.ElementTree import Element

from holdfast.core.errors import NotConnected, OutcomeUnknown, Refused
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Address, Change, Outbound, Receipt
from holdfast.core.ports.protocols import NewId
from holdfast.platforms.text.xmpp import render
from holdfast.platforms.xmpp.receipts import NotInRoom, Receipts
from holdfast.platforms.xmpp.recent import Recent
from holdfast.platforms.xmpp.rooms import Room
from holdfast.platforms.xmpp.stanza import CLIENT, CORRECT, OOB, REPLY, STANZA_ID
from holdfast.platforms.xmpp.uploads import Uploads
from holdfast.platforms.xmpp.wire import Rejected, Wire, element, ping, within

LONGEST = 8000  # characters: a server need not take a stanza of more than 10 kB, and most take 64
_REPEATED = "*(This may have reached you before.)*\n\n"
LONGEST_MARK = len(_REPEATED)
_STATES = "http://jabber.org/protocol/chatstates"  # XEP-0085
_HINTS = "urn:xmpp:hints"  # XEP-0334
_REACTIONS = "urn:xmpp:reactions:0"  # XEP-0444
_STYLING = "urn:xmpp:styling:0"  # XEP-0393


class Sending:
    """Everything raises a `SendError` that says what is known of the message's fate. Owns which
    deliveries may be there already, in rooms that cannot be asked."""

    def __init__(
        self,
        wire: Wire,
        receipts: Receipts,
        rooms: dict[str, Room],
        recent: Recent,
        *,
        new_id: NewId,
    ) -> None:
        self._wire = wire
        self._receipts = receipts
        self._rooms = rooms
        self._recent = recent
        self.uploads: Uploads | None = None  # where the server takes files
        self._new_id = new_id
        self._doubtful: set[DeliveryId] = set()

    def doubt(self, delivery_id: DeliveryId) -> None:
        """It may be there, and nobody can say: if it is sent again, it says so itself."""
        self._doubtful.add(delivery_id)

    async def send(self, outbound: Outbound) -> Receipt:
        url = ""
        if outbound.file is not None:
            if self.uploads is None:
                raise Refused("the server takes no files")
            url = await self.uploads.leave(outbound.file)
        text = outbound.text
        if outbound.maybe_repeated or outbound.delivery_id in self._doubtful:
            text = f"{_REPEATED}{text}"
        message = self._message(outbound.address, outbound.delivery_id, text, url)
        if outbound.part == 1:
            self._hang_on(message, outbound.address)
        await self._say(message, outbound.address)
        self._doubtful.discard(outbound.delivery_id)
        return Receipt(platform_message_id=outbound.delivery_id)

    async def edit(self, change: Change) -> None:
        """A correction is a message of its own, which names the first one, however many there
        were in between."""
        message = self._message(change.address, self._new_id("edit"), change.text)
        within(message, "replace", CORRECT, id=change.platform_message_id)
        await self._say(message, change.address)

    def typing(self, address: Address) -> None:
        message = element("message", CLIENT, type=self._kind(address), to=address.chat_id)
        message.set("id", self._new_id("typing"))
        within(message, "composing", _STATES)
        within(message, "no-store", _HINTS)
        self._wire.say(message)

    def react(self, address: Address, message_id: str, sign: str | None) -> None:
        """What is said is all that we have on the message, so that none takes ours back. In a room
        it goes by the name that the room gave it; one that gave none cannot be marked."""
        kind, name = self._kind(address), message_id
        if kind == "groupchat":
            known = self._recent.of(address.chat_id, message_id)
            if known is None:
                raise Refused(f"{address.chat_id} gave that message no name")
            name = known.name
        message = element("message", CLIENT, type=kind, to=address.chat_id)
        message.set("id", self._new_id("sign"))
        reactions = within(message, "reactions", _REACTIONS, id=name)
        if sign is not None:
            within(reactions, "reaction", _REACTIONS, sign)
        within(message, "store", _HINTS)  # who is away now is to see how it stands then
        self._wire.say(message)

    def _message(self, address: Address, name: str, text: str, url: str = "") -> Element:
        message = element("message", CLIENT, type=self._kind(address), to=address.chat_id, id=name)
        shown = render(text) if text.strip() or not url else None
        body = "\n".join(filter(None, (shown.body if shown is not None else "", url)))
        within(message, "body", CLIENT, body)
        within(message, "origin-id", STANZA_ID, id=name)
        within(message, "active", _STATES)
        if shown is not None and not shown.styled:
            within(message, "unstyled", _STYLING)
        if url:
            within(within(message, "x", OOB), "url", OOB, url)
        return message

    def _kind(self, address: Address) -> str:
        """Raises where it goes to nobody, or to a room that we are not in."""
        if not address.chat_id.isprintable():
            raise Refused(f"{address.chat_id!r} is no address over XMPP")
        room = self._rooms.get(address.chat_id)
        if room is None:
            return "chat"
        if not room.nick:
            if room.closed:
                raise Refused(room.closed)
            raise NotConnected(f"the account is not in {room.address} yet; nothing was sent")
        return "groupchat"

    def _hang_on(self, message: Element, address: Address) -> None:
        """What it answers. In a room a message goes by the name that the room gave it."""
        if address.reply_to is None:
            return
        if address.chat_id not in self._rooms:
            within(message, "reply", REPLY, to=address.chat_id, id=address.reply_to)
        elif (known := self._recent.of(address.chat_id, address.reply_to)) is not None:
            within(message, "reply", REPLY, to=known.sender, id=known.name)

    async def _say(self, message: Element, address: Address) -> None:
        name = message.get("id", "")
        room = self._rooms.get(address.chat_id)
        try:
            async with self._receipts.of(name, room="" if room is None else room.address):
                self._wire.say(message)
                if room is None and not self._wire.acks:
                    await self._heard_by_now(name)
        except NotInRoom as error:
            if room is None or room.closed:
                raise Refused(str(error)) from error
            room.vanish()
            raise NotConnected(str(error)) from error

    async def _heard_by_now(self, name: str) -> None:
        """What a server answers it has heard behind the message, and a refusal would have come
        before that."""
        try:
            await self._wire.ask(ping())
        except NotConnected as error:
            raise OutcomeUnknown(f"no receipt came: {error}") from error
        except Rejected:
            pass  # an answer like any other
        self._receipts.taken(name)
