"""Sending over HTTP: a message to a chat where nobody has asked for one, and what became of it."""

import asyncio
from hashlib import sha256
from typing import Annotated, BinaryIO

import msgspec
from aiohttp import web

from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import PendingFile
from holdfast.gateway.notify.chat_addresses import ChatAddressBook, NoSuchChat
from holdfast.gateway.notify.proactive import ProactiveSendRequest, Undeliverable
from holdfast.gateway.outbound.files import MAX_FILE_BYTES
from holdfast.gateway.outbound.receipts import has_ended
from holdfast.runner.workspace import safe_name
from holdfast.server.api.endpoint import ApiCall, NoQuery
from holdfast.server.api.errors import EndpointError, bad_request, conflict, not_found
from holdfast.server.api.room import ApiContext
from holdfast.server.api.views.sending_views import OutgoingFileView, SendParams, delivery_view
from holdfast.system.uploads import UploadedFiles

_CHUNK_SIZE = 256 * 1024


class UploadQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=500)]


class DeliveryQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`wait`: so many seconds, until it has ended."""

    wait: Annotated[float, msgspec.Meta(ge=0, le=600)] = 0


async def upload_file(context: ApiContext, call: ApiCall[UploadQuery, None]) -> web.Response:
    """Kept until it has been sent; one that nobody sends is forgotten after a month."""
    files, key, name = (
        UploadedFiles(context.home),
        context.new_id("out"),
        safe_name(call.query.name),
    )
    await asyncio.to_thread(files.remove_expired, now=context.clock.now())
    file = await asyncio.to_thread(files.create, key, name)
    try:
        size = await _receive(call.request, file, name)
        await asyncio.to_thread(files.save, key, file)
    except BaseException:  # whoever hands it in may also just hang up
        file.close()
        files.remove(key)
        raise
    return context.respond(OutgoingFileView(file=key, name=name, size=size), status=201)


async def _receive(request: web.Request, file: BinaryIO, name: str) -> int:
    size = 0
    async for piece in request.content.iter_chunked(_CHUNK_SIZE):
        size += len(piece)
        if size > MAX_FILE_BYTES:
            text = f"{name!r} is larger than {MAX_FILE_BYTES // 2**20} MB."
            raise EndpointError(413, text, code="too_large", param="name")
        await asyncio.to_thread(file.write, piece)
    return size


async def create_delivery(context: ApiContext, call: ApiCall[NoQuery, SendParams]) -> web.Response:
    """What is refused takes the file with it that was handed in for it."""
    try:
        return await _deliver(context, call.body)
    except EndpointError:
        await asyncio.to_thread(UploadedFiles(context.home).remove, call.body.file)
        raise


async def _deliver(context: ApiContext, given: SendParams) -> web.Response:
    house = context.gateway.services
    if not given.text.strip() and not given.file:
        raise bad_request("text: there is nothing to send.", param="text")
    message = await _build_message(context, given)
    try:
        await house.proactive_sender.check(message)
    except Undeliverable as error:
        raise bad_request(f"{error}.", param=error.param) from None
    fresh = await house.proactive_sender.send(await _claim_file(context, message))
    row = await context.store.delivery(message.id)
    assert row is not None, "it is there since the line above"
    if not fresh and has_ended(row):  # nobody will come for this copy
        await asyncio.to_thread(UploadedFiles(context.home).remove, message.id)
    if (row.address, row.text) != (message.to, message.text):
        raise conflict(
            f"key {given.key!r} was used for another message; give each its own.",
            code="key_reused",
        )
    return context.respond(delivery_view(row), status=202 if fresh else 200)


async def _build_message(context: ApiContext, given: SendParams) -> ProactiveSendRequest:
    chats = ChatAddressBook(context.gateway.services.platforms)
    try:
        address = chats.find(given.to, account=given.account, thread=given.thread)
    except NoSuchChat as error:
        raise bad_request(str(error), param=error.param) from None
    file = await _find_file(context, given.file)
    return ProactiveSendRequest(
        id=_delivery_id(context, given.key), to=address, text=given.text, file=file
    )


async def read_delivery(context: ApiContext, call: ApiCall[DeliveryQuery, None]) -> web.Response:
    delivery_id = DeliveryId(call.path_param("id"))
    receipts, wait = context.gateway.delivery_waiters, call.query.wait
    row = await receipts.wait_for_end(delivery_id, reads=context.store, wait=wait)
    if row is None:
        raise not_found(f"there is no delivery {delivery_id!r}, or it was forgotten since.")
    return context.respond(delivery_view(row))


async def _find_file(context: ApiContext, key: str) -> PendingFile | None:
    if not key:
        return None
    path = await asyncio.to_thread(UploadedFiles(context.home).find, key)
    if path is None:
        raise bad_request(
            f"file: nothing was handed in as {key!r}; POST /outgoing does.", param="file"
        )
    return PendingFile(workspace=None, path=path)


async def _claim_file(context: ApiContext, message: ProactiveSendRequest) -> ProactiveSendRequest:
    """With its file as its own: another that names the same one finds it gone."""
    if message.file is None:
        return message
    claim = UploadedFiles(context.home).assign
    path = await asyncio.to_thread(claim, message.file.path, message.id)
    return msgspec.structs.replace(message, file=PendingFile(workspace=None, path=path))


def _delivery_id(context: ApiContext, key: str) -> DeliveryId:
    if not key:
        return DeliveryId(context.new_id("dlv"))
    return DeliveryId(f"dlv_{sha256(key.encode()).hexdigest()[:27]}")
