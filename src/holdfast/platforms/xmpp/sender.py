"""Sends messages, edits, files and reactions as stanzas, waits for their receipts, and looks deliveries up in the archive."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from xml.etree.ElementTree import Element

import aiohttp
import msgspec

from holdfast.core.errors import (
    ConnectError,
    NotConnected,
    OutcomeUnknown,
    SendError,
    SendRejected,
    Throttled,
)
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Address, MessageEdit, Outbound, OutboundFile, Receipt
from holdfast.core.ports.runtime import IdFactory
from holdfast.platforms.text.xmpp import render
from holdfast.platforms.xmpp.archive import MessageArchive
from holdfast.platforms.xmpp.events import (
    CLIENT,
    CORRECT,
    OOB,
    REPLY,
    STANZA_ID,
    StanzaError,
    StanzaRejected,
    XmppMessage,
    XmppStream,
    add_child,
    make_element,
    make_ping,
    tag,
)
from holdfast.platforms.xmpp.rooms import NOT_IN_ROOM_ERRORS, XmppRoom

# MERGED holdfast.platforms.xmpp.recent: Recent: by which names a room knows what was said there lately.
_MAX_MESSAGES = 500  # messages


class RoomMessageRef(msgspec.Struct, frozen=True, kw_only=True):
    sender: str
    stanza_id: str  # by which an answer refers to it


class RecentRoomMessages:
    """Owns the last few hundred. An answer to an older message is one without a reference."""

    def __init__(self) -> None:
        self._messages: OrderedDict[tuple[str, str], RoomMessageRef] = OrderedDict()

    def add(self, room: str, message_id: str, ref: RoomMessageRef) -> None:
        self._messages[room, message_id] = ref
        if len(self._messages) > _MAX_MESSAGES:
            self._messages.popitem(last=False)

    def get(self, room: str, message_id: str) -> RoomMessageRef | None:
        return self._messages.get((room, message_id))


# MERGED holdfast.platforms.xmpp.receipts: Receipts: who waits to hear what became of a message, by the id that it went with.
_DEFAULT_RETRY_AFTER = 5.0  # seconds, where a server says "later" and never how much


class NotInRoom(SendRejected):
    """The room does not know us, though we were in it."""


class XmppReceipts:
    """Owns who waits. A room answers with what was said to it, and a server with an ack: each is a
    receipt only for what it is asked for."""

    def __init__(self, *, timeout: float) -> None:
        self._timeout = timeout  # seconds within which a receipt comes
        self._waiting: dict[tuple[str, str], asyncio.Future[None]] = {}

    @asynccontextmanager
    async def wait_for(self, message_id: str, *, room: str = "") -> AsyncIterator[None]:
        """Around the sending: returns when there is a receipt. Raises a `SendError`."""
        key = room, message_id
        waiting = self._waiting[key] = asyncio.get_running_loop().create_future()
        try:
            yield
            async with asyncio.timeout(self._timeout):
                await waiting
        except TimeoutError as error:
            raise OutcomeUnknown(f"no receipt came within {self._timeout:.0f} s") from error
        finally:
            del self._waiting[key]
            if not waiting.cancel() and not waiting.cancelled():
                waiting.exception()  # also where nobody came to hear of it

    def acknowledged(self, message_id: str) -> None:
        """By the server."""
        self._settle(("", message_id), None)

    def reflected(self, message_id: str, *, room: str) -> None:
        """By a room, to everybody in it."""
        self._settle((room, message_id), None)

    def rejected(self, message_id: str, stanza_error: StanzaError, *, by: str) -> None:
        error = _to_send_error(stanza_error, by)
        self._settle(("", message_id), error)
        self._settle((by, message_id), error)

    def connection_lost(self, reason: ConnectError) -> None:
        """The line is gone: no receipt comes any more."""
        for waiting in self._waiting.values():
            if not waiting.done():
                error = OutcomeUnknown(f"the line broke before there was a receipt: {reason}")
                waiting.set_exception(error)

    def _settle(self, key: tuple[str, str], error: SendError | None) -> None:
        waiting = self._waiting.get(key)
        if waiting is None or waiting.done():
            return
        if error is None:
            waiting.set_result(None)
        else:
            waiting.set_exception(error)


def _to_send_error(stanza_error: StanzaError, by: str) -> SendError:
    told = f"{by} did not take the message: {stanza_error.description}"
    if stanza_error.kind == "wait":
        return Throttled(told, retry_after=_DEFAULT_RETRY_AFTER)
    return NotInRoom(told) if stanza_error.condition in NOT_IN_ROOM_ERRORS else SendRejected(told)


# MERGED holdfast.platforms.xmpp.uploads: Uploads: files of ours are left at the server, and people are sent the link (XEP-0363).
#
# https://xmpp.org/extensions/xep-0363.html
_UPLOAD = "urn:xmpp:http:upload:0"
_INFO = "http://jabber.org/protocol/disco#info"
_ITEMS = "http://jabber.org/protocol/disco#items"
_DISCOVERY_TIMEOUT = 5.0  # seconds
_TIMEOUT = aiohttp.ClientTimeout(total=120.0, sock_connect=10.0)
_ALLOWED_HEADERS = frozenset({"authorization", "cookie", "expires"})  # that a server may ask for
_CONTENT_TYPE = "application/octet-stream"


async def find_upload_service(stream: XmppStream, domain: str) -> str | None:
    """Who takes files; None: nobody there, or nobody who says so soon: without files an account is
    of use as well. Services are found as in XEP-0030."""
    try:
        async with asyncio.timeout(_DISCOVERY_TIMEOUT):
            addresses = [each async for each in _discover_services(stream, domain)]
            taken = await asyncio.gather(*(_accepts_uploads(stream, each) for each in addresses))
    except TimeoutError:
        return None
    return next((each for each, takes in zip(addresses, taken, strict=True) if takes), None)


async def _accepts_uploads(stream: XmppStream, address: str) -> bool:
    try:
        answer = await stream.request(make_element("query", _INFO), to=address)
    except (StanzaRejected, OutcomeUnknown):
        return False
    features = answer.iterfind(f"{tag('query', _INFO)}/{tag('feature', _INFO)}")
    return any(each.get("var") == _UPLOAD for each in features)


async def _discover_services(stream: XmppStream, domain: str) -> AsyncIterator[str]:
    yield domain
    try:
        answer = await stream.request(make_element("query", _ITEMS), to=domain)
    except (StanzaRejected, OutcomeUnknown):
        return
    for item in answer.iterfind(f"{tag('query', _ITEMS)}/{tag('item', _ITEMS)}"):
        if item.get("jid"):
            yield item.get("jid", "")


class XmppUploads:
    """Leaves files at one service. Keeps nothing."""

    def __init__(self, stream: XmppStream, http: aiohttp.ClientSession, *, service: str) -> None:
        self._stream = stream
        self._http = http
        self._service = service

    async def upload(self, file: OutboundFile) -> str:
        """The link to it. Nobody has seen anything by this, so whatever fails may be tried again:
        raises `NotConnected`, or `Refused` where the server does not take it."""
        try:
            put, headers, get = await self._request_slot(file)
            async with self._http.put(
                put, data=file.data, headers=headers, timeout=_TIMEOUT, allow_redirects=False
            ) as response:
                if response.status >= 500:
                    raise NotConnected(f"the file was not taken ({response.status})")
                if response.status >= 300:
                    raise SendRejected(
                        f"{self._service} does not take the file ({response.status})"
                    )
        except (OutcomeUnknown, aiohttp.ClientError, TimeoutError) as error:
            raise NotConnected(f"the file was not taken: {error!r}") from error
        return get

    async def _request_slot(self, file: OutboundFile) -> tuple[str, dict[str, str], str]:
        size = str(len(file.data))
        request = make_element("request", _UPLOAD, filename=file.name, size=size)
        request.set("content-type", _CONTENT_TYPE)
        answer = await self._stream.request(request, to=self._service)
        slot = answer.find(tag("slot", _UPLOAD))
        put = None if slot is None else slot.find(tag("put", _UPLOAD))
        get = None if slot is None else slot.find(tag("get", _UPLOAD))
        if put is None or get is None:
            raise SendRejected(f"{self._service} gave no place for the file")
        headers = {"Content-Type": _CONTENT_TYPE}
        for each in put.iterfind(tag("header", _UPLOAD)):
            name, value = each.get("name", ""), each.text or ""
            if name.lower() in _ALLOWED_HEADERS:
                headers[name] = value.replace("\r", "").replace("\n", "")
        return put.get("url", ""), headers, get.get("url", "")


# MERGED holdfast.platforms.xmpp.finding: Finding: whether a delivery has arrived, asked of the archive that it would be in.
async def find_in_archive(
    delivery_id: DeliveryId,
    archive: MessageArchive,
    *,
    chat: str | None,
    is_ours: Callable[[XmppMessage], bool],
    settle_seconds: float,
) -> Receipt | None:
    """Looks through the last five hundred messages of that chat; of a room, where `chat` is None.
    What was sent before so many others is taken for lost, and sent again. `settled` are the seconds
    after which what a server was given is in its archive, or never will be."""
    await asyncio.sleep(settle_seconds)
    try:
        async for kept in archive.newest_first(chat=chat):
            if kept.message.id == delivery_id and is_ours(kept.message):
                return Receipt(platform_message_id=delivery_id)
    except StanzaRejected as error:  # nothing is known by that, and it may be asked again
        raise NotConnected(str(error)) from error
    return None


# MERGED holdfast.platforms.xmpp.sending: Sending: our messages, changes and signs as stanzas.
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
