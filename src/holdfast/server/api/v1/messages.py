"""Messages over HTTP: send to a session, with attachments; steer; look up; stop the turn."""

import asyncio
import base64
import binascii
from collections.abc import Sequence
from typing import Annotated

import msgspec
from aiohttp import web

from holdfast.core.config.settings import PlatformSettings, route_of
from holdfast.core.ids import InboxId, SessionId
from holdfast.core.messages.events import MessageEnded
from holdfast.core.messages.inbox import Accepted, BusyMode, Inbound, InboxRow
from holdfast.core.messages.outbox import Address
from holdfast.core.messages.source import Author, Source, is_shared, parse_route
from holdfast.core.messages.transcript import Image, detect_image
from holdfast.core.people.approval import OPERATOR
from holdfast.core.ports.store import StoreReader
from holdfast.core.ports.store_queries import GetInboxRow, GetLastSource
from holdfast.core.sessions.session import SessionRow
from holdfast.core.text.translation import current_language
from holdfast.core.turns.subagent import INTERNAL_PLATFORM
from holdfast.documents.reader import render_documents
from holdfast.gateway.app import Gateway
from holdfast.gateway.inbound.attachments import is_accepted_type
from holdfast.runner.workspace import CannotSaveFile, Workspace
from holdfast.server.api.context import ApiContext
from holdfast.server.api.endpoint import ApiCall, Endpoint, NoQuery
from holdfast.server.api.errors import EndpointError, bad_request, conflict, not_found
from holdfast.server.api.views.sessions import (
    AcceptedView,
    AttachmentUpload,
    MessageView,
    NewMessage,
    NewSteer,
    StopResult,
)

_TOKEN_PLATFORMS = ("web", "api")  # platforms whose messages come in with the token of the gateway
_OPERATOR = "operator"


async def current_session_source(gateway: Gateway, store: StoreReader, row: SessionRow) -> Source:
    """The source of a message to this session; refused if the message would not reach it."""
    pointed = gateway.lanes.session_of(row.route)
    if not row.current or (pointed is not None and pointed != row.id):
        raise conflict(
            "Session {session} was suspended: it can be read, not written to. POST "
            "/api/v1/sessions/{session}/resume makes it current again."
            if row.suspended
            else "Session {session} has ended, and its chat uses another one: it can be read, not "
            "written to. POST /api/v1/sessions/{session}/resume makes it current again.",
            session=row.id,
            code="not_current",
        )
    return await session_source(gateway, store, row)


async def session_source(gateway: Gateway, store: StoreReader, row: SessionRow) -> Source:
    """The source of a session, also of one that its chat has left. In a chat of another platform
    the message is the operator's, and marked so."""
    platform, account, kind, chat = parse_route(row.route)
    if platform == INTERNAL_PLATFORM:
        raise conflict(
            "Session {session} belongs to a subagent or a job. Use the session that started it.",
            session=row.id,
            code="not_addressable",
        )
    if platform in _TOKEN_PLATFORMS:
        user, author = "owner", Author.PERSON
    else:
        user, author = _user_of(row, platform, account), Author.OPERATOR
    plain = Source(
        platform=platform,
        account=account,
        chat_id=chat,
        chat_type=kind,
        user_id=user,
        author=author,
        language=current_language() if platform in _TOKEN_PLATFORMS else "",
    )
    return _check_source(
        gateway,
        row,
        plain
        if platform in _TOKEN_PLATFORMS
        else await _operator_source(gateway, store, row.id, plain),
    )


async def accept_message(gateway: Gateway, inbound: Inbound, *, into: SessionId) -> Accepted:
    """Durable when this returns; passes the same admission as every message. `into`: the session
    that was addressed."""
    intake = gateway.intake
    if inbound.source.author is Author.OPERATOR:
        return await intake.accept_from_operator(inbound, into=into)
    return await intake.accept(inbound)


def _user_of(row: SessionRow, platform: str, account: str) -> str:
    whose = (row.principal or "").removeprefix(f"{platform}:{account}:")
    return whose or _OPERATOR


async def _operator_source(
    gateway: Gateway, store: StoreReader, session_id: SessionId, plain: Source
) -> Source:
    """The source of the last message there, which has the thread and the user. In a shared session
    the operator speaks for no user. Without a stored message it is the source of the route."""
    known = await store.read(GetLastSource(session_id=session_id))
    if known is None:
        return plain
    source = msgspec.structs.replace(known, author=Author.OPERATOR, message_id=None)
    settings = gateway.settings.sessions
    groups, threads = settings.group_sessions_per_user, settings.thread_sessions_per_user
    if is_shared(known, groups, threads):
        return msgspec.structs.replace(source, user_id=_OPERATOR, user_name=None)
    return source


def _check_source(gateway: Gateway, row: SessionRow, source: Source) -> Source:
    address = Address(platform=source.platform, account=source.account, chat_id=source.chat_id)
    if source.platform not in _TOKEN_PLATFORMS and gateway.platforms.find(address) is None:
        raise conflict(
            "Session {session} belongs to {platform} ({account}), which is no longer configured: "
            "the answer could not be delivered. Configure the account again, or use another "
            "session.",
            session=row.id,
            platform=source.platform,
            account=source.account,
            code="not_addressable",
        )
    if route_of(source, gateway.settings.sessions) != row.route:
        raise conflict(
            "Only its own platform can send messages to session {session}. Write to it there.",
            session=row.id,
            code="not_addressable",
        )
    return source


MAX_TOTAL_SIZE = 20 * 1024 * 1024  # bytes of all attachments of one message


class SavedAttachments(msgspec.Struct, frozen=True, kw_only=True):
    """The text, with a line that names the files; the images, and the text of the documents."""

    text: str
    images: tuple[Image, ...] = ()
    documents: str = ""


class _DecodedFile(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    data: bytes


async def save_attachments(
    context: ApiContext, session_id: SessionId, message: NewMessage, source: Source
) -> SavedAttachments:
    """The files are saved before the message is accepted, so that it never names a missing file."""
    if not message.attachments:
        return SavedAttachments(text=message.text)
    settings = context.gateway.settings
    account = settings.account(source.platform, source.account) or PlatformSettings()
    for number, each in enumerate(message.attachments):
        if not await is_accepted_type(each.name, account.files):
            param = f"attachments[{number}].name"
            raise bad_request(
                "{name}: files of this type are not accepted here.", name=param, param=param
            )
    files = await asyncio.to_thread(_decode_all, message.attachments)
    found = await context.gateway.document_reader.read(files, limit=account.file_chars)
    workspace = Workspace(context.home, session_id)
    paths, images = await asyncio.to_thread(_write_files, workspace, files)
    line = f"[Attached, in the workspace: {', '.join(paths)}]"
    return SavedAttachments(
        text=f"{message.text}\n\n{line}" if message.text.strip() else line,
        images=images,
        documents=context.gateway.redact(render_documents(zip(paths, found, strict=True))),
    )


def _write_files(
    workspace: Workspace, files: Sequence[_DecodedFile]
) -> tuple[list[str], tuple[Image, ...]]:
    images = tuple(image for file in files if (image := detect_image(file.data)))
    try:
        return [workspace.save_upload(file.name, file.data) for file in files], images
    except CannotSaveFile as error:
        raise EndpointError(409, error, code="cannot_attach", param="attachments") from None


def _decode_all(attachments: Sequence[AttachmentUpload]) -> list[_DecodedFile]:
    files = [
        _DecodedFile(name=attachment.name, data=_decode_attachment(attachment, n))
        for n, attachment in enumerate(attachments)
    ]
    if sum(len(file.data) for file in files) > MAX_TOTAL_SIZE:
        raise EndpointError(
            413,
            "The attachments are larger than {limit} MB in total.",
            limit=MAX_TOTAL_SIZE // 2**20,
            code="too_large",
            param="attachments",
        )
    return files


def _decode_attachment(attachment: AttachmentUpload, number: int) -> bytes:
    try:
        return base64.b64decode(attachment.data, validate=True)
    except (binascii.Error, ValueError):
        param = f"attachments[{number}].data"
        raise bad_request("{name}: not valid base64.", name=param, param=param) from None


class WaitQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`wait`: seconds to wait until the message has ended."""

    wait: Annotated[float, msgspec.Meta(ge=0, le=600)] = 0


async def send_message(context: ApiContext, call: ApiCall[NoQuery, NewMessage]) -> web.Response:
    return await _accept(context, await context.find_session(call.path_param("id")), call.body)


async def steer_turn(context: ApiContext, call: ApiCall[NoQuery, NewSteer]) -> web.Response:
    """Given to the running turn before its next step; if the turn ends first, it runs next."""
    row, body = await context.find_session(call.path_param("id")), call.body
    lane = context.gateway.lanes.get(row.id)
    if lane is None or lane.running_turn is None:
        raise conflict(
            "No turn is running in session {session}. Send it as a message instead.",
            session=row.id,
            code="idle",
        )
    message = NewMessage(text=body.text, message_id=body.message_id, mode=BusyMode.STEER)
    return await _accept(context, row, message)


async def _accept(context: ApiContext, row: SessionRow, message: NewMessage) -> web.Response:
    source = await current_session_source(context.gateway, context.store, row)
    if not message.text.strip() and not message.attachments:
        raise bad_request("text: the message is empty.", param="text")
    given = await save_attachments(context, row.id, message, source)
    inbound = Inbound(
        source=source,
        # Unique in the session: the same id in another session is another message.
        event_id=f"v1/{row.id}/{message.message_id}",
        message_id=message.message_id,
        text=given.text,
        images=given.images,
        documents=given.documents,
        busy_mode=message.mode,
    )
    accepted = await accept_message(context.gateway, inbound, into=row.id)
    stored = accepted.row.inbound
    if accepted.duplicate and (stored.text, stored.images) != (given.text, given.images):
        raise conflict(
            "message_id {id!r} was used for another message. Use a new one for each message.",
            id=message.message_id,
            code="message_id_reused",
        )
    view = AcceptedView(
        id=accepted.row.id,
        message_id=message.message_id,
        session_id=row.id,
        duplicate=accepted.duplicate,
        state=accepted.row.state,
    )
    return context.respond(view, status=200 if accepted.duplicate else 202)


async def read_message(context: ApiContext, call: ApiCall[WaitQuery, None]) -> web.Response:
    inbox_id = _parse_inbox_id(call.path_param("id"))
    row = await _inbox_row(context, inbox_id)
    ended = await _wait_for_end(context, inbox_id, call.query.wait)
    if ended is not None:
        row = await _inbox_row(context, inbox_id)
    view = MessageView(
        id=inbox_id,
        session_id=row.session_id or (ended.session_id if ended else None),
        state=row.state,
        text=ended.text if ended else "",
        reason=row.reason,
        usage=ended.usage if ended else MessageEnded(inbox_id, row.state, "").usage,
    )
    return context.respond(view)


async def stop_turn(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    row, gateway = await context.find_session(call.path_param("id")), context.gateway
    return context.respond(StopResult(stopped=await gateway.force_stop.stop(row.id, by=OPERATOR)))


def _parse_inbox_id(text: str) -> InboxId:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise not_found("There is no message {id!r}.", id=text)
    return InboxId(int(text))


async def _inbox_row(context: ApiContext, inbox_id: InboxId) -> InboxRow:
    row = await context.store.read(GetInboxRow(inbox_id=inbox_id))
    if row is None:
        raise not_found("There is no message {id!r}.", id=inbox_id)
    return row


async def _wait_for_end(context: ApiContext, inbox_id: InboxId, wait: float) -> MessageEnded | None:
    """The end of the message, after waiting; None: it has not ended, or the gateway stops."""
    row = await _inbox_row(context, inbox_id)
    if row.ended_at is None and not wait:
        return None
    try:
        async with asyncio.timeout(wait or None), context.gateway.intake.watch(inbox_id) as events:
            async for event in events:
                if isinstance(event, MessageEnded):
                    return event
    except TimeoutError:
        return None
    return None


_SESSION = "/sessions/{id}"

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="POST",
        path=f"{_SESSION}/messages",
        summary="Say something; answered once it is durable.",
        handler=send_message,
        read_only=False,
        request_type=NewMessage,
        response_type=AcceptedView,
        statuses=(202, 200),
        error_statuses=(403, 409),
    ),
    Endpoint(
        method="POST",
        path=f"{_SESSION}/steer",
        summary="Tell something to the turn that runs, before its next step.",
        handler=steer_turn,
        read_only=False,
        request_type=NewSteer,
        response_type=AcceptedView,
        statuses=(202, 200),
        error_statuses=(403, 409),
    ),
    Endpoint(
        method="POST",
        path=f"{_SESSION}/stop",
        summary="End the running turn, and drop the messages that wait in its chat.",
        handler=stop_turn,
        read_only=False,
        response_type=StopResult,
    ),
    Endpoint(
        method="GET",
        path="/messages/{id}",
        summary="What became of a message; with `wait`, once it has ended.",
        handler=read_message,
        read_only=True,
        query=WaitQuery,
        response_type=MessageView,
    ),
)
