"""Sending over HTTP: a message to a chat where nobody has asked for one, and what became of it."""

import asyncio
from hashlib import sha256
from typing import Annotated, BinaryIO

import msgspec
from aiohttp import web

from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import OwedFile
from holdfast.gateway.notify.chat_addresses import NamedChats, NoSuchChat
from holdfast.gateway.notify.proactive import Message, Undeliverable
from holdfast.gateway.outbound.files import LARGEST
from holdfast.gateway.outbound.receipts import has_ended
from holdfast.runner.workspace import safe_name
from holdfast.server.api.endpoint import Call, NoQuery
from holdfast.server.api.errors import Refused, bad, conflict, not_found
from holdfast.server.api.room import Room
from holdfast.server.api.views.sending_views import NewSending, OutgoingFile, delivery_view
from holdfast.system.uploads import HandedIn

_PIECE = 256 * 1024


class FileQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=500)]


class ReceiptQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`wait`: so many seconds, until it has ended."""

    wait: Annotated[float, msgspec.Meta(ge=0, le=600)] = 0


async def hand_in(room: Room, call: Call[FileQuery, None]) -> web.Response:
    """Kept until it has been sent; one that nobody sends is forgotten after a month."""
    files, key, name = HandedIn(room.home), room.new_id("out"), safe_name(call.query.name)
    await asyncio.to_thread(files.sweep, now=room.clock.now())
    file = await asyncio.to_thread(files.begin, key, name)
    try:
        size = await _received(call.request, file, name)
        await asyncio.to_thread(files.keep, key, file)
    except BaseException:  # whoever hands it in may also just hang up
        file.close()
        files.drop(key)
        raise
    return room.say(OutgoingFile(file=key, name=name, size=size), status=201)


async def _received(request: web.Request, file: BinaryIO, name: str) -> int:
    size = 0
    async for piece in request.content.iter_chunked(_PIECE):
        size += len(piece)
        if size > LARGEST:
            text = f"{name!r} is larger than {LARGEST // 2**20} MB."
            raise Refused(413, text, code="too_large", param="name")
        await asyncio.to_thread(file.write, piece)
    return size


async def send(room: Room, call: Call[NoQuery, NewSending]) -> web.Response:
    """What is refused takes the file with it that was handed in for it."""
    try:
        return await _sent(room, call.body)
    except Refused:
        await asyncio.to_thread(HandedIn(room.home).drop, call.body.file)
        raise


async def _sent(room: Room, given: NewSending) -> web.Response:
    house = room.gateway.house
    if not given.text.strip() and not given.file:
        raise bad("text: there is nothing to send.", param="text")
    message = await _message(room, given)
    try:
        await house.messenger.check(message)
    except Undeliverable as error:
        raise bad(f"{error}.", param=error.param) from None
    fresh = await house.messenger.bring(await _claimed(room, message))
    row = await room.store.delivery(message.id)
    assert row is not None, "it is there since the line above"
    if not fresh and has_ended(row):  # nobody will come for this copy
        await asyncio.to_thread(HandedIn(room.home).drop, message.id)
    if (row.address, row.text) != (message.to, message.text):
        raise conflict(
            f"key {given.key!r} was used for another message; give each its own.",
            code="key_reused",
        )
    return room.say(delivery_view(row), status=202 if fresh else 200)


async def _message(room: Room, given: NewSending) -> Message:
    chats = NamedChats(room.gateway.house.doors)
    try:
        address = chats.find(given.to, account=given.account, thread=given.thread)
    except NoSuchChat as error:
        raise bad(str(error), param=error.param) from None
    file = await _file(room, given.file)
    return Message(id=_id(room, given.key), to=address, text=given.text, file=file)


async def read_delivery(room: Room, call: Call[ReceiptQuery, None]) -> web.Response:
    delivery_id = DeliveryId(call.part("id"))
    receipts, wait = room.gateway.receipts, call.query.wait
    row = await receipts.of(delivery_id, library=room.store, wait=wait)
    if row is None:
        raise not_found(f"there is no delivery {delivery_id!r}, or it was forgotten since.")
    return room.say(delivery_view(row))


async def _file(room: Room, key: str) -> OwedFile | None:
    if not key:
        return None
    path = await asyncio.to_thread(HandedIn(room.home).find, key)
    if path is None:
        raise bad(f"file: nothing was handed in as {key!r}; POST /outgoing does.", param="file")
    return OwedFile(workspace=None, path=path)


async def _claimed(room: Room, message: Message) -> Message:
    """With its file as its own: another that names the same one finds it gone."""
    if message.file is None:
        return message
    claim = HandedIn(room.home).claim
    path = await asyncio.to_thread(claim, message.file.path, message.id)
    return msgspec.structs.replace(message, file=OwedFile(workspace=None, path=path))


def _id(room: Room, key: str) -> DeliveryId:
    if not key:
        return DeliveryId(room.new_id("dlv"))
    return DeliveryId(f"dlv_{sha256(key.encode()).hexdigest()[:27]}")
