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
from holdfast.server.api.endpoint import Call, NoQuery
from holdfast.server.api.errors import bad, conflict, not_found
from holdfast.server.api.room import Room
from holdfast.server.api.v1.uploads import received
from holdfast.server.api.v1.voice import current_source, hand_in
from holdfast.server.api.views.message_views import (
    AcceptedView,
    MessageView,
    NewMessage,
    NewSteer,
    Stopped,
)


class WaitQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`wait`: so many seconds, until the message has ended."""

    wait: Annotated[float, msgspec.Meta(ge=0, le=600)] = 0


async def say(room: Room, call: Call[NoQuery, NewMessage]) -> web.Response:
    return await _say(room, await room.session(call.part("id")), call.body)


async def steer(room: Room, call: Call[NoQuery, NewSteer]) -> web.Response:
    """Told to the turn that runs before its next step. Where it ends just then, it runs next."""
    row, said = await room.session(call.part("id")), call.body
    lane = room.gateway.lanes.get(row.id)
    if lane is None or lane.turn is None:
        raise conflict(f"nothing runs in session {row.id}: say it as a message.", code="idle")
    message = NewMessage(text=said.text, message_id=said.message_id, mode=BusyMode.STEER)
    return await _say(room, row, message)


async def _say(room: Room, row: SessionRow, said: NewMessage) -> web.Response:
    source = await current_source(room.gateway, row)
    if not said.text.strip() and not said.attachments:
        raise bad("text: there is nothing to say.", param="text")
    given = await received(room, row.id, said, source)
    inbound = Inbound(
        source=source,
        # A session's own: the same id in another session is another message.
        event_id=f"v1/{row.id}/{said.message_id}",
        message_id=said.message_id,
        text=given.text,
        images=given.images,
        documents=given.documents,
        busy_mode=said.mode,
    )
    accepted = await hand_in(room.gateway, inbound)
    kept = accepted.row.inbound
    if accepted.duplicate and (kept.text, kept.images) != (given.text, given.images):
        raise conflict(
            f"message_id {said.message_id!r} was used for another message; give each its own.",
            code="message_id_reused",
        )
    view = AcceptedView(
        id=accepted.row.id,
        message_id=said.message_id,
        session_id=row.id,
        duplicate=accepted.duplicate,
        state=accepted.row.state,
    )
    return room.say(view, status=200 if accepted.duplicate else 202)


async def read_message(room: Room, call: Call[WaitQuery, None]) -> web.Response:
    inbox_id = _inbox_id(call.part("id"))
    row = await _row(room, inbox_id)
    ended = await _end(room, inbox_id, call.query.wait)
    if ended is not None:
        row = await _row(room, inbox_id)
    view = MessageView(
        id=inbox_id,
        session_id=row.session_id or (ended.session_id if ended else None),
        state=row.state,
        text=ended.text if ended else "",
        reason=row.reason,
        usage=ended.usage if ended else MessageEnded(inbox_id, row.state, "").usage,
    )
    return room.say(view)


async def stop(room: Room, call: Call[NoQuery, None]) -> web.Response:
    row, gateway = await room.session(call.part("id")), room.gateway
    return room.say(Stopped(stopped=await gateway.insisting.stop(row.id, by=OPERATOR)))


def _inbox_id(text: str) -> InboxId:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise not_found(f"there is no message {text!r}.")
    return InboxId(int(text))


async def _row(room: Room, inbox_id: InboxId) -> InboxRow:
    row = await room.store.inbox_row(inbox_id)
    if row is None:
        raise not_found(f"there is no message {inbox_id}.")
    return row


async def _end(room: Room, inbox_id: InboxId, wait: float) -> MessageEnded | None:
    """How the message ended, waited for; None: it has not, or the gateway stops."""
    row = await _row(room, inbox_id)
    if row.ended_at is None and not wait:
        return None
    try:
        async with asyncio.timeout(wait or None), room.gateway.intake.watch(inbox_id) as events:
            async for event in events:
                if isinstance(event, MessageEnded):
                    return event
    except TimeoutError:
        return None
    return None
