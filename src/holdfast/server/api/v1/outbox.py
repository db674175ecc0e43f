"""Outbox and inbox over HTTP: deliveries, retries, accepted messages, proactive messages."""

import asyncio
from hashlib import sha256
from typing import Annotated, BinaryIO, Literal

import msgspec
from aiohttp import web

from holdfast.core.ids import DeliveryId
from holdfast.core.messages.inbox import InboxState, InboxSummary
from holdfast.core.messages.outbox import DeliveryRow, DeliveryState, PendingFile
from holdfast.core.ports.store_queries import CountOutbox, GetDelivery, ListInbox, ListOutbox
from holdfast.core.turns.subagent import platform_from_label, platform_label
from holdfast.gateway.notify.chat_addresses import NoSuchChat, find_chat
from holdfast.gateway.notify.proactive import ProactiveSendRequest, Undeliverable
from holdfast.gateway.outbound.delivery import has_ended
from holdfast.gateway.outbound.files import MAX_FILE_BYTES
from holdfast.gateway.outbound.operator_resend import (
    NotResent,
    resend_delivery,
    resend_refusal,
)
from holdfast.runner.workspace import safe_name
from holdfast.server.api.context import ApiContext
from holdfast.server.api.endpoint import ApiCall, Endpoint, Media, NoQuery
from holdfast.server.api.errors import EndpointError, bad_request, conflict, not_found
from holdfast.server.api.views.deliveries import (
    DeliveryDetail,
    DeliveryList,
    DeliveryOutlook,
    DeliveryView,
    InboxEntry,
    InboxList,
    OutgoingFileView,
    SendParams,
    delivery_detail_view,
    delivery_view,
)
from holdfast.system.uploads import UploadedFiles

Limit = Annotated[int, msgspec.Meta(ge=1, le=200)]
Number = Annotated[int, msgspec.Meta(ge=1, le=2**53)]


class OutboxQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`state`: only these; `unsent`: all that have not arrived. `platform`: only to its chats.
    `before`: only deliveries before that `seq`."""

    state: Literal["", "unsent", "streaming", "pending", "sending", "sent", "failed", "unknown"] = (
        ""
    )
    platform: Annotated[str, msgspec.Meta(max_length=100)] = ""
    before: Number | None = None
    limit: Limit = 50


class InboxQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`state`: only these; without it, those that have not ended."""

    state: Literal[
        "", "queued", "running", "answered", "merged", "superseded", "refused", "failed"
    ] = ""
    offset: Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)] = 0
    limit: Limit = 50


async def list_outbox(context: ApiContext, call: ApiCall[OutboxQuery, None]) -> web.Response:
    asked = call.query
    unsent = asked.state == "unsent"
    rows = await context.store.read(
        ListOutbox(
            state=DeliveryState(asked.state) if asked.state and not unsent else None,
            unsent=unsent,
            platform=platform_from_label(asked.platform),
            before=asked.before,
            limit=asked.limit + 1,
        )
    )
    counts = await context.store.read(CountOutbox())
    views = [delivery_detail(context, row) for row in rows[: asked.limit]]
    return context.respond(
        DeliveryList(deliveries=views, more=len(rows) > asked.limit, counts=dict(counts))
    )


async def retry_delivery(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    delivery_id = DeliveryId(call.path_param("id"))
    row = await context.store.read(GetDelivery(delivery_id=delivery_id))
    if row is None:
        raise not_found(
            "There is no delivery {delivery!r}, or it was deleted.", delivery=delivery_id
        )
    gateway = context.gateway
    try:
        resent = await resend_delivery(
            row,
            gateway.outbox,
            writes=context.store,
            platforms=gateway.platforms,
            clock=context.runtime.clock,
        )
    except NotResent as why:
        raise conflict(
            "Delivery {delivery} is not sent again: {reason}",
            delivery=delivery_id,
            reason=why,
            code="not_sent",
        ) from None
    return context.respond(delivery_detail(context, resent), status=202)


def delivery_detail(context: ApiContext, row: DeliveryRow) -> DeliveryDetail:
    """With its current status in the outbox."""
    gateway = context.gateway
    platform = gateway.platforms.find(row.address)
    refusal = resend_refusal(
        row, gateway.outbox, platforms=gateway.platforms, now=context.runtime.clock.now()
    )
    outlook = DeliveryOutlook(
        status=gateway.outbox.status_of(row),
        resend_refusal="" if refusal is None else refusal.for_person(),
        resolves_unknown=platform is not None and platform.capabilities.can_resolve_unknown,
    )
    return delivery_detail_view(row, outlook)


async def list_inbox(context: ApiContext, call: ApiCall[InboxQuery, None]) -> web.Response:
    asked = call.query
    state = InboxState(asked.state) if asked.state else None
    rows = await context.store.read(
        ListInbox(state=state, offset=asked.offset, limit=asked.limit + 1)
    )
    lines = [_inbox_entry(row) for row in rows[: asked.limit]]
    return context.respond(InboxList(messages=lines, more=len(rows) > asked.limit))


def _inbox_entry(row: InboxSummary) -> InboxEntry:
    fields = msgspec.structs.asdict(row)
    return InboxEntry(**fields | {"platform": platform_label(row.platform)})


_CHUNK_SIZE = 256 * 1024


class UploadQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=500)]


class DeliveryQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`wait`: seconds to wait until it has ended."""

    wait: Annotated[float, msgspec.Meta(ge=0, le=600)] = 0


async def upload_file(context: ApiContext, call: ApiCall[UploadQuery, None]) -> web.Response:
    """Kept until it has been sent; deleted after a month if it is not."""
    files, key, name = (
        UploadedFiles(context.home),
        context.runtime.new_id("out"),
        safe_name(call.query.name),
    )
    await asyncio.to_thread(files.remove_expired, now=context.runtime.clock.now())
    file = await asyncio.to_thread(files.create, key, name)
    try:
        size = await _receive(call.request, file, name)
        await asyncio.to_thread(files.save, key, file)
    except BaseException:  # also if the client hangs up
        file.close()
        files.remove(key)
        raise
    return context.respond(OutgoingFileView(file=key, name=name, size=size), status=201)


async def _receive(request: web.Request, file: BinaryIO, name: str) -> int:
    size = 0
    async for piece in request.content.iter_chunked(_CHUNK_SIZE):
        size += len(piece)
        if size > MAX_FILE_BYTES:
            raise EndpointError(
                413,
                "{file!r} is larger than {limit} MB.",
                file=name,
                limit=MAX_FILE_BYTES // 2**20,
                code="too_large",
                param="name",
            )
        await asyncio.to_thread(file.write, piece)
    return size


async def create_delivery(context: ApiContext, call: ApiCall[NoQuery, SendParams]) -> web.Response:
    """A refused request deletes its uploaded file."""
    try:
        return await _deliver(context, call.body)
    except EndpointError:
        await asyncio.to_thread(UploadedFiles(context.home).remove, call.body.file)
        raise


async def _deliver(context: ApiContext, given: SendParams) -> web.Response:
    sender = context.gateway.proactive_sender
    if not given.text.strip() and not given.file:
        raise bad_request("text: give a text or a file to send.", param="text")
    message = await _build_message(context, given)
    try:
        await sender.check(message)
    except Undeliverable as error:
        raise bad_request("{error}.", error=error, param=error.param) from None
    fresh = await sender.enqueue(await _claim_file(context, message))
    row = await context.store.read(GetDelivery(delivery_id=message.id))
    assert row is not None, "the send above has committed it"
    if not fresh and has_ended(row):  # this copy is not needed
        await asyncio.to_thread(UploadedFiles(context.home).remove, message.id)
    if (row.address, row.text) != (message.to, message.text):
        raise conflict(
            "key: {key!r} was used for another message. Use a new key for each message.",
            key=given.key,
            code="key_reused",
        )
    return context.respond(delivery_view(row), status=202 if fresh else 200)


async def _build_message(context: ApiContext, given: SendParams) -> ProactiveSendRequest:
    platforms = context.gateway.platforms
    try:
        address = find_chat(platforms, given.to, account=given.account, thread=given.thread)
    except NoSuchChat as error:
        raise bad_request(error, param=error.param) from None
    file = await _find_file(context, given.file)
    return ProactiveSendRequest(
        id=_delivery_id(context, given.key), to=address, text=given.text, file=file
    )


async def read_delivery(context: ApiContext, call: ApiCall[DeliveryQuery, None]) -> web.Response:
    delivery_id = DeliveryId(call.path_param("id"))
    receipts, wait = context.gateway.delivery_waiters, call.query.wait
    row = await receipts.wait_for_end(delivery_id, reads=context.store, wait=wait)
    if row is None:
        raise not_found(
            "There is no delivery {delivery!r}, or it was deleted.", delivery=delivery_id
        )
    return context.respond(delivery_view(row))


async def _find_file(context: ApiContext, key: str) -> PendingFile | None:
    if not key:
        return None
    path = await asyncio.to_thread(UploadedFiles(context.home).find, key)
    if path is None:
        raise bad_request(
            "file: there is no uploaded file {file!r}; upload it with POST /outgoing.",
            file=key,
            param="file",
        )
    return PendingFile(workspace=None, path=path)


async def _claim_file(context: ApiContext, message: ProactiveSendRequest) -> ProactiveSendRequest:
    """Move the file to this message. A second message that names it is refused."""
    if message.file is None:
        return message
    claim = UploadedFiles(context.home).assign
    path = await asyncio.to_thread(claim, message.file.path, message.id)
    return msgspec.structs.replace(message, file=PendingFile(workspace=None, path=path))


def _delivery_id(context: ApiContext, key: str) -> DeliveryId:
    if not key:
        return DeliveryId(context.runtime.new_id("dlv"))
    return DeliveryId(f"dlv_{sha256(key.encode()).hexdigest()[:27]}")


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="POST",
        path="/send",
        summary="Send a proactive message to a chat.",
        handler=create_delivery,
        read_only=False,
        request_type=SendParams,
        response_type=DeliveryView,
        statuses=(202, 200),
        error_statuses=(409,),
    ),
    Endpoint(
        method="POST",
        path="/outgoing",
        summary="Upload a file to send.",
        handler=upload_file,
        read_only=False,
        query=UploadQuery,
        request_type=bytes,
        request_media=Media.FILE,
        response_type=OutgoingFileView,
        statuses=(201,),
    ),
    Endpoint(
        method="GET",
        path="/deliveries/{id}",
        summary="The state of a delivery; with `wait`, once it has ended.",
        handler=read_delivery,
        read_only=True,
        query=DeliveryQuery,
        response_type=DeliveryView,
    ),
    Endpoint(
        method="GET",
        path="/outbox",
        summary="Deliveries, the newest first.",
        handler=list_outbox,
        read_only=True,
        query=OutboxQuery,
        response_type=DeliveryList,
    ),
    Endpoint(
        method="POST",
        path="/deliveries/{id}/retry",
        summary="Resend a delivery that failed or whose outcome is unknown.",
        handler=retry_delivery,
        read_only=False,
        response_type=DeliveryDetail,
        statuses=(202,),
        error_statuses=(404, 409),
    ),
    Endpoint(
        method="GET",
        path="/inbox",
        summary="The messages that have not ended, or those that ended so, the newest first.",
        handler=list_inbox,
        read_only=True,
        query=InboxQuery,
        response_type=InboxList,
    ),
)
