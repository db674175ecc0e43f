"""Messages over HTTP: said to a session, looked after, and the turn that answers them stopped."""

import asyncio
from typing import Annotated

import msgspec
from aiohttp import web

from holdfast.core.ids import InboxId
from holdfast.core.messages.events import MessageEnded
from holdfast.core.messages.inbox import BusyMode, Inbound, InboxRow
from holdfast.core.people.approval import OPERATOR
from holdfast.core.sessions.session import SessionRow
from holdfast.server.api.endpoint import ApiCall, NoQuery
from holdfast.server.api.errors import bad_request, conflict, not_found
from holdfast.server.api.room import ApiContext
from holdfast.server.api.v1.uploads import save_attachments
from holdfast.server.api.v1.voice import accept_message, current_session_source
from holdfast.server.api.views.message_views import (
    AcceptedView,
    MessageView,
    NewMessage,
    NewSteer,
    StopResult,
)


class WaitQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`wait`: so many seconds, until the message has ended."""

    wait: Annotated[float, msgspec.Meta(ge=0, le=600)] = 0


async def send_message(context: ApiContext, call: ApiCall[NoQuery, NewMessage]) -> web.Response:
    return await _accept(context, await context.find_session(call.path_param("id")), call.body)


async def steer_turn(context: ApiContext, call: ApiCall[NoQuery, NewSteer]) -> web.Response:
    """Told to the turn that runs before its next step. Where it ends just then, it runs next."""
    row, said = await context.find_session(call.path_param("id")), call.body
    lane = context.gateway.lanes.get(row.id)
    if lane is None or lane.running_turn is None:
        raise conflict(f"nothing runs in session {row.id}: say it as a message.", code="idle")
    message = NewMessage(text=said.text, message_id=said.message_id, mode=BusyMode.STEER)
    return await _accept(context, row, message)


async def _accept(context: ApiContext, row: SessionRow, message: NewMessage) -> web.Response:
    source = await current_session_source(context.gateway, row)
    if not message.text.strip() and not message.attachments:
        raise bad_request("text: there is nothing to say.", param="text")
    given = await save_attachments(context, row.id, message, source)
    inbound = Inbound(
        source=source,
        # A session's own: the same id in another session is another message.
        event_id=f"v1/{row.id}/{message.message_id}",
        message_id=message.message_id,
        text=given.text,
        images=given.images,
        documents=given.documents,
        busy_mode=message.mode,
    )
    accepted = await accept_message(context.gateway, inbound)
    kept = accepted.row.inbound
    if accepted.duplicate and (kept.text, kept.images) != (given.text, given.images):
        raise conflict(
            f"message_id {message.message_id!r} was used for another message; give each its own.",
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
        raise not_found(f"there is no message {text!r}.")
    return InboxId(int(text))


async def _inbox_row(context: ApiContext, inbox_id: InboxId) -> InboxRow:
    row = await context.store.inbox_row(inbox_id)
    if row is None:
        raise not_found(f"there is no message {inbox_id}.")
    return row


async def _wait_for_end(context: ApiContext, inbox_id: InboxId, wait: float) -> MessageEnded | None:
    """How the message ended, waited for; None: it has not, or the gateway stops."""
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
