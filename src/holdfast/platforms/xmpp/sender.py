"""Sends messages, edits, files and reactions as stanzas, waits for their receipts, and looks up
deliveries in the archive."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from xml.etree.ElementTree import Element

import aiohttp
import msgspec

from holdfast.core.errors import (
    ConnectError,
    FileTooLarge,
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
    UPLOAD,
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

# Characters: a server need not accept stanzas of more than 10 kB, and most accept 64 kB.
MAX_LENGTH = 8000
_REPEAT_NOTICE = "*(This may have reached you before.)*\n\n"
REPEAT_NOTICE_LENGTH = len(_REPEAT_NOTICE)
_MAX_REMEMBERED = 500  # messages of rooms
_DEFAULT_RETRY_AFTER = 5.0  # seconds: a server says "wait" without a time
_STATES = "http://jabber.org/protocol/chatstates"  # XEP-0085
_HINTS = "urn:xmpp:hints"  # XEP-0334
_REACTIONS = "urn:xmpp:reactions:0"  # XEP-0444
_STYLING = "urn:xmpp:styling:0"  # XEP-0393
_INFO = "http://jabber.org/protocol/disco#info"
_ITEMS = "http://jabber.org/protocol/disco#items"
_DISCOVERY_TIMEOUT = 5.0  # seconds
_UPLOAD_TIMEOUT = aiohttp.ClientTimeout(total=120.0, sock_connect=10.0)
_ALLOWED_HEADERS = frozenset({"authorization", "cookie", "expires"})  # that a service may request
_CONTENT_TYPE = "application/octet-stream"


class RoomMessageRef(msgspec.Struct, frozen=True, kw_only=True):
    sender: str
    stanza_id: str  # assigned by the room; replies and reactions refer to it


class RecentRoomMessages:
    """Owns the ids of the latest room messages. An answer to an older one has no reference."""

    def __init__(self) -> None:
        self._messages: OrderedDict[tuple[str, str], RoomMessageRef] = OrderedDict()

    def add(self, room: str, message_id: str, ref: RoomMessageRef) -> None:
        self._messages[room, message_id] = ref
        if len(self._messages) > _MAX_REMEMBERED:
            self._messages.popitem(last=False)

    def get(self, room: str, message_id: str) -> RoomMessageRef | None:
        return self._messages.get((room, message_id))


class NotInRoom(SendRejected):
    """The room says that we are not in it, although we entered it."""


class XmppReceipts:
    """Owns the pending receipts, by room and message id. The receipt of a room is the reflected
    message, and that of a direct chat the ack of the server."""

    def __init__(self, *, timeout: float) -> None:
        self._timeout = timeout  # seconds
        self._waiting: dict[tuple[str, str], asyncio.Future[None]] = {}

    @asynccontextmanager
    async def wait_for(self, message_id: str, *, room: str = "") -> AsyncIterator[None]:
        """Send inside this block: it ends when there is a receipt. Raises a `SendError`."""
        key = room, message_id
        waiting = self._waiting[key] = asyncio.get_running_loop().create_future()
        try:
            yield
            async with asyncio.timeout(self._timeout):
                await waiting
        except TimeoutError as error:
            raise OutcomeUnknown(
                "no receipt within {timeout:.0f} s", timeout=self._timeout
            ) from error
        finally:
            del self._waiting[key]
            if not waiting.cancel() and not waiting.cancelled():
                waiting.exception()  # marks it as retrieved

    def acknowledged(self, message_id: str) -> None:
        """The server has acknowledged the message."""
        self._settle(("", message_id), None)

    def reflected(self, message_id: str, *, room: str) -> None:
        """The room has sent the message to its occupants."""
        self._settle((room, message_id), None)

    def rejected(self, message_id: str, stanza_error: StanzaError, *, by: str) -> None:
        error = _to_send_error(stanza_error, by)
        self._settle(("", message_id), error)
        self._settle((by, message_id), error)

    def connection_lost(self, reason: ConnectError) -> None:
        """The connection is lost: no receipt will come."""
        for waiting in self._waiting.values():
            if not waiting.done():
                error = OutcomeUnknown(
                    "the connection was lost before the receipt: {reason}", reason=reason
                )
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
    message = f"{by} did not accept the message: {stanza_error.description}"
    if stanza_error.kind == "wait":
        return Throttled(message, retry_after=_DEFAULT_RETRY_AFTER)
    if stanza_error.condition in NOT_IN_ROOM_ERRORS:
        return NotInRoom(message)
    return SendRejected(message)


async def find_upload_service(stream: XmppStream, domain: str) -> str | None:
    """The upload service of the server, discovered as in XEP-0030. None if there is none, or none
    that answers in time: an account is also useful without files."""
    try:
        async with asyncio.timeout(_DISCOVERY_TIMEOUT):
            addresses = [each async for each in _discover_services(stream, domain)]
            accepted = await asyncio.gather(*(_accepts_uploads(stream, each) for each in addresses))
    except TimeoutError:
        return None
    return next((each for each, takes in zip(addresses, accepted, strict=True) if takes), None)


async def _accepts_uploads(stream: XmppStream, address: str) -> bool:
    try:
        answer = await stream.request(make_element("query", _INFO), to=address)
    except (StanzaRejected, OutcomeUnknown):
        return False
    features = answer.iterfind(f"{tag('query', _INFO)}/{tag('feature', _INFO)}")
    return any(each.get("var") == UPLOAD for each in features)


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
    """Uploads files to one service; recipients get the link.

    https://xmpp.org/extensions/xep-0363.html"""

    def __init__(self, stream: XmppStream, http: aiohttp.ClientSession, *, service: str) -> None:
        self._stream = stream
        self._http = http
        self._service = service

    async def upload(self, file: OutboundFile) -> str:
        """Returns the link. Nothing is visible to users yet, so a failed upload can be retried:
        raises `NotConnected`, or `SendRejected` if the server does not accept the file."""
        try:
            put, headers, get = await self._request_slot(file)
            async with self._http.put(
                put, data=file.data, headers=headers, timeout=_UPLOAD_TIMEOUT, allow_redirects=False
            ) as response:
                if response.status >= 500:
                    raise NotConnected(
                        "could not upload the file ({status})", status=response.status
                    )
                if response.status == 413:
                    raise FileTooLarge(
                        "{service} accepts no file of this size (413)", service=self._service
                    )
                if response.status >= 300:
                    raise SendRejected(
                        "{service} does not accept the file ({status})",
                        service=self._service,
                        status=response.status,
                    )
        except (OutcomeUnknown, aiohttp.ClientError, TimeoutError) as error:
            raise NotConnected("could not upload the file: {error!r}", error=error) from error
        return get

    async def _request_slot(self, file: OutboundFile) -> tuple[str, dict[str, str], str]:
        size = str(len(file.data))
        request = make_element("request", UPLOAD, filename=file.name, size=size)
        request.set("content-type", _CONTENT_TYPE)
        try:
            answer = await self._stream.request(request, to=self._service)
        except StanzaRejected as error:
            if not error.error.file_too_large:
                raise
            raise FileTooLarge("{error}", error=error) from error
        slot = answer.find(tag("slot", UPLOAD))
        put = None if slot is None else slot.find(tag("put", UPLOAD))
        get = None if slot is None else slot.find(tag("get", UPLOAD))
        if put is None or get is None:
            raise SendRejected("{service} returned no upload slot", service=self._service)
        headers = {"Content-Type": _CONTENT_TYPE}
        for each in put.iterfind(tag("header", UPLOAD)):
            name, value = each.get("name", ""), each.text or ""
            if name.lower() in _ALLOWED_HEADERS:
                headers[name] = value.replace("\r", "").replace("\n", "")
        return put.get("url", ""), headers, get.get("url", "")


async def find_in_archive(
    delivery_id: DeliveryId,
    archive: MessageArchive,
    *,
    chat: str | None,
    is_ours: Callable[[XmppMessage], bool],
    settle_seconds: float,
) -> Receipt | None:
    """Searches the last five hundred messages of the chat, or of the room if `chat` is None. An
    older delivery counts as lost, and is sent again. Waits `settle_seconds` first: by then, a
    message that the server accepted is in its archive."""
    await asyncio.sleep(settle_seconds)
    try:
        async for archived in archive.newest_first(chat=chat):
            if archived.message.id == delivery_id and is_ours(archived.message):
                return Receipt(platform_message_id=delivery_id)
    except StanzaRejected as error:  # unknown; it can be asked again
        raise NotConnected("{error}", error=error) from error
    return None


class XmppSender:
    """All methods raise a `SendError` that says what is known about the outcome. Owns which
    deliveries may have arrived already, in chats without an archive."""

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
        self.uploads: XmppUploads | None = None  # None if the server accepts no files
        self._new_id = new_id
        self._unknown_outcomes: set[DeliveryId] = set()

    def mark_outcome_unknown(self, delivery_id: DeliveryId) -> None:
        """The delivery may have arrived, and cannot be looked up: a repetition says so."""
        self._unknown_outcomes.add(delivery_id)

    async def send(self, outbound: Outbound) -> Receipt:
        url = ""
        if outbound.file is not None:
            if self.uploads is None:
                raise SendRejected("the server accepts no files")
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
        """A correction is a message that refers to the original one, however often that was
        corrected before."""
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
        """Sets all our reactions to the message, so none removes ours. In a room, a message is
        referred to by the id that the room gave it; without such an id it cannot be reacted to."""
        kind, target_id = self._message_type(address), message_id
        if kind == "groupchat":
            known = self._recent_messages.get(address.chat_id, message_id)
            if known is None:
                raise SendRejected("{chat_id} gave that message no id", chat_id=address.chat_id)
            target_id = known.stanza_id
        message = make_element("message", CLIENT, type=kind, to=address.chat_id)
        message.set("id", self._new_id("sign"))
        reactions = add_child(message, "reactions", _REACTIONS, id=target_id)
        if emoji is not None:
            add_child(reactions, "reaction", _REACTIONS, emoji)
        add_child(message, "store", _HINTS)  # also for recipients who are offline now
        self._stream.post_message(message)

    def _make_message(self, address: Address, message_id: str, text: str, url: str = "") -> Element:
        message = make_element(
            "message", CLIENT, type=self._message_type(address), to=address.chat_id, id=message_id
        )
        rendered = render(text) if text.strip() or not url else None
        body = "\n".join(filter(None, (rendered.body if rendered is not None else "", url)))
        add_child(message, "body", CLIENT, body)
        add_child(message, "origin-id", STANZA_ID, id=message_id)
        add_child(message, "active", _STATES)
        if rendered is not None and not rendered.styled:
            add_child(message, "unstyled", _STYLING)
        if url:
            add_child(add_child(message, "x", OOB), "url", OOB, url)
        return message

    def _message_type(self, address: Address) -> str:
        """Raises if the address is invalid, or a room that we are not in."""
        if not address.chat_id.isprintable():
            raise SendRejected("{chat_id!r} is not a valid XMPP address", chat_id=address.chat_id)
        room = self._rooms.get(address.chat_id)
        if room is None:
            return "chat"
        if not room.nick:
            if room.closed_reason:
                raise SendRejected(room.closed_reason)
            raise NotConnected(
                "the account is not in {address} yet; nothing was sent", address=room.address
            )
        return "groupchat"

    def _add_reply(self, message: Element, address: Address) -> None:
        """Refers to the answered message. In a room, by the id that the room gave it."""
        if address.reply_to is None:
            return
        if address.chat_id not in self._rooms:
            add_child(message, "reply", REPLY, to=address.chat_id, id=address.reply_to)
        elif (known := self._recent_messages.get(address.chat_id, address.reply_to)) is not None:
            add_child(message, "reply", REPLY, to=known.sender, id=known.stanza_id)

    async def _send_and_confirm(self, message: Element, address: Address) -> None:
        message_id = message.get("id", "")
        room = self._rooms.get(address.chat_id)
        try:
            async with self._receipts.wait_for(
                message_id, room="" if room is None else room.address
            ):
                self._stream.post_message(message)
                if room is None and not self._stream.has_acks:
                    await self._confirm_by_ping(message_id)
        except NotInRoom as error:
            if room is None or room.closed_reason:
                raise SendRejected("{error}", error=error) from error
            room.mark_lost()
            raise NotConnected("{error}", error=error) from error

    async def _confirm_by_ping(self, message_id: str) -> None:
        """The server answers the ping after it has processed the message, and would have sent an
        error before."""
        try:
            await self._stream.request(make_ping())
        except NotConnected as error:
            raise OutcomeUnknown("no receipt: {error}", error=error) from error
        except StanzaRejected:
            pass  # also an answer
        self._receipts.acknowledged(message_id)
