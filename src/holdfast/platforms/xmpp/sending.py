"""Sending: our messages, changes and signs as stanzas."""

from xml.etree.ElementTree import Element

from holdfast.core.errors import NotConnected, OutcomeUnknown, SendRejected
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Address, MessageEdit, Outbound, Receipt
from holdfast.core.ports.protocols import IdFactory
from holdfast.platforms.text.xmpp import render
from holdfast.platforms.xmpp.receipts import NotInRoom, XmppReceipts
from holdfast.platforms.xmpp.recent import RecentRoomMessages
from holdfast.platforms.xmpp.rooms import XmppRoom
from holdfast.platforms.xmpp.stanza import CLIENT, CORRECT, OOB, REPLY, STANZA_ID
from holdfast.platforms.xmpp.uploads import XmppUploads
from holdfast.platforms.xmpp.wire import (
    StanzaRejected,
    XmppStream,
    add_child,
    make_element,
    make_ping,
)

MAX_LENGTH = (
    8000  # characters: a server need not take a stanza of more than 10 kB, and most take 64
)
_REPEAT_NOTICE = "*(This may have reached you before.)*\n\n"
REPEAT_NOTICE_LENGTH = len(_REPEAT_NOTICE)
_STATES = "http://jabber.org/protocol/chatstates"  # XEP-0085
_HINTS = "urn:xmpp:hints"  # XEP-0334
_REACTIONS = "urn:xmpp:reactions:0"  # XEP-0444
_STYLING = "urn:xmpp:styling:0"  # XEP-0393


class XmppSender:
    """Everything raises a `SendError` that says what is known of the message's fate. Owns which
    deliveries may be there already, in rooms that cannot be asked."""

    def __init__(
        self,
        stream: XmppStream,
        receipts: XmppReceipts,
        rooms: dict[str, XmppRoom],
        recent_messages: RecentRoomMessages,
        *,
        new_id: IdFactory,
    ) -> None:
        self._stream = stream
        self._receipts = receipts
        self._rooms = rooms
        self._recent_messages = recent_messages
        self.uploads: XmppUploads | None = None  # where the server takes files
        self._new_id = new_id
        self._unknown_outcomes: set[DeliveryId] = set()

    def mark_outcome_unknown(self, delivery_id: DeliveryId) -> None:
        """It may be there, and nobody can say: if it is sent again, it says so itself."""
        self._unknown_outcomes.add(delivery_id)

    async def send(self, outbound: Outbound) -> Receipt:
        url = ""
        if outbound.file is not None:
            if self.uploads is None:
                raise SendRejected("the server takes no files")
            url = await self.uploads.upload(outbound.file)
        text = outbound.text
        if outbound.may_be_duplicate or outbound.delivery_id in self._unknown_outcomes:
            text = f"{_REPEAT_NOTICE}{text}"
        message = self._make_message(outbound.address, outbound.delivery_id, text, url)
        if outbound.part == 1:
            self._add_reply(message, outbound.address)
        await self._send_and_confirm(message, outbound.address)
        self._unknown_outcomes.discard(outbound.delivery_id)
        return Receipt(platform_message_id=outbound.delivery_id)

    async def edit(self, edit: MessageEdit) -> None:
        """A correction is a message of its own, which names the first one, however many there
        were in between."""
        message = self._make_message(edit.address, self._new_id("edit"), edit.text)
        add_child(message, "replace", CORRECT, id=edit.platform_message_id)
        await self._send_and_confirm(message, edit.address)

    def show_typing(self, address: Address) -> None:
        message = make_element(
            "message", CLIENT, type=self._message_type(address), to=address.chat_id
        )
        message.set("id", self._new_id("typing"))
        add_child(message, "composing", _STATES)
        add_child(message, "no-store", _HINTS)
        self._stream.post_message(message)

    def react(self, address: Address, message_id: str, emoji: str | None) -> None:
        """What is said is all that we have on the message, so that none takes ours back. In a room
        it goes by the name that the room gave it; one that gave none cannot be marked."""
        kind, name = self._message_type(address), message_id
        if kind == "groupchat":
            known = self._recent_messages.get(address.chat_id, message_id)
            if known is None:
                raise SendRejected(f"{address.chat_id} gave that message no name")
            name = known.stanza_id
        message = make_element("message", CLIENT, type=kind, to=address.chat_id)
        message.set("id", self._new_id("sign"))
        reactions = add_child(message, "reactions", _REACTIONS, id=name)
        if emoji is not None:
            add_child(reactions, "reaction", _REACTIONS, emoji)
        add_child(message, "store", _HINTS)  # who is away now is to see how it stands then
        self._stream.post_message(message)

    def _make_message(self, address: Address, message_id: str, text: str, url: str = "") -> Element:
        message = make_element(
            "message", CLIENT, type=self._message_type(address), to=address.chat_id, id=message_id
        )
        shown = render(text) if text.strip() or not url else None
        body = "\n".join(filter(None, (shown.body if shown is not None else "", url)))
        add_child(message, "body", CLIENT, body)
        add_child(message, "origin-id", STANZA_ID, id=message_id)
        add_child(message, "active", _STATES)
        if shown is not None and not shown.styled:
            add_child(message, "unstyled", _STYLING)
        if url:
            add_child(add_child(message, "x", OOB), "url", OOB, url)
        return message

    def _message_type(self, address: Address) -> str:
        """Raises where it goes to nobody, or to a room that we are not in."""
        if not address.chat_id.isprintable():
            raise SendRejected(f"{address.chat_id!r} is no address over XMPP")
        room = self._rooms.get(address.chat_id)
        if room is None:
            return "chat"
        if not room.nick:
            if room.closed_reason:
                raise SendRejected(room.closed_reason)
            raise NotConnected(f"the account is not in {room.address} yet; nothing was sent")
        return "groupchat"

    def _add_reply(self, message: Element, address: Address) -> None:
        """What it answers. In a room a message goes by the name that the room gave it."""
        if address.reply_to is None:
            return
        if address.chat_id not in self._rooms:
            add_child(message, "reply", REPLY, to=address.chat_id, id=address.reply_to)
        elif (known := self._recent_messages.get(address.chat_id, address.reply_to)) is not None:
            add_child(message, "reply", REPLY, to=known.sender, id=known.stanza_id)

    async def _send_and_confirm(self, message: Element, address: Address) -> None:
        name = message.get("id", "")
        room = self._rooms.get(address.chat_id)
        try:
            async with self._receipts.wait_for(name, room="" if room is None else room.address):
                self._stream.post_message(message)
                if room is None and not self._stream.has_acks:
                    await self._confirm_by_ping(name)
        except NotInRoom as error:
            if room is None or room.closed_reason:
                raise SendRejected(str(error)) from error
            room.mark_lost()
            raise NotConnected(str(error)) from error

    async def _confirm_by_ping(self, message_id: str) -> None:
        """What a server answers it has heard behind the message, and a refusal would have come
        before that."""
        try:
            await self._stream.request(make_ping())
        except NotConnected as error:
            raise OutcomeUnknown(f"no receipt came: {error}") from error
        except StanzaRejected:
            pass  # an answer like any other
        self._receipts.acknowledged(message_id)
