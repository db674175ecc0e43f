"""What can be done to a session over HTTP: each by what a person in its chat would type."""

import asyncio
from typing import Annotated

import msgspec
from aiohttp import web

from holdfast.core.ids import SessionId
from holdfast.core.messages.events import MessageEnded
from holdfast.core.messages.inbox import Inbound
from holdfast.core.messages.source import Source
from holdfast.core.people.approval import OPERATOR
from holdfast.core.sessions.session import SessionRow
from holdfast.server.api.endpoint import Call, NoQuery
from holdfast.server.api.errors import Refused, conflict
from holdfast.server.api.room import Room
from holdfast.server.api.v1.voice import current_source, hand_in, source_of

_PATIENCE = 30.0  # seconds; the command is carried out all the same


class ForkAsked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`title`: of the copy; without one, the session's own with "(fork)" behind it."""

    title: Annotated[str, msgspec.Meta(max_length=200)] = ""


async def suspend(room: Room, call: Call[NoQuery, None]) -> web.Response:
    """What runs goes on to its end; what is said next happens in a fresh session."""
    row = await room.session(call.part("id"))
    if row.ended_at is not None:
        raise conflict(f"session {row.id} is over already.", code="not_current")
    if not await room.gateway.sessions.suspend(row.id, by=OPERATOR):
        raise conflict(f"session {row.id} was suspended already.", code="suspended")
    return room.say(await room.view(row.id))


async def resume(room: Room, call: Call[NoQuery, None]) -> web.Response:
    """Its chat goes on in it; the one that is left is kept."""
    row = await room.session(call.part("id"))
    if row.current:
        raise conflict(f"session {row.id} is the one that its chat is in.", code="current")
    ended = await _typed(room, row, await source_of(room.gateway, row), f"/resume {row.id}")
    view = await room.view(row.id)
    if not view.current:
        raise conflict(_told(ended), code="not_resumed")
    return room.say(view)


async def reset(room: Room, call: Call[NoQuery, None]) -> web.Response:
    """A fresh session takes its place; what runs in it is stopped, and it is kept."""
    row = await room.session(call.part("id"))
    ended = await _typed(room, row, await current_source(room.gateway, row), "/new")
    return await _followed(room, row, ended)


async def fork(room: Room, call: Call[NoQuery, ForkAsked]) -> web.Response:
    """Its chat goes on in a copy of it."""
    row = await room.session(call.part("id"))
    text = f"/fork {' '.join(call.body.title.split())}".strip()
    ended = await _typed(room, row, await current_source(room.gateway, row), text)
    return await _followed(room, row, ended)


async def _followed(room: Room, row: SessionRow, ended: MessageEnded) -> web.Response:
    """The session in which its chat goes on now."""
    now = room.gateway.lanes.session_of(row.route) or await room.store.route(row.route)
    if now is None or now == row.id:
        raise conflict(_told(ended), code="not_done")
    return room.say(await room.view(SessionId(now)), status=201)


async def _typed(room: Room, row: SessionRow, source: Source, text: str) -> MessageEnded:
    """The end of a command, which is in the inbox like any other, and answered in its chat."""
    name = room.new_id("cmd")
    inbound = Inbound(source=source, event_id=f"v1/{row.id}/{name}", message_id=name, text=text)
    accepted = await hand_in(room.gateway, inbound)
    try:
        async with asyncio.timeout(_PATIENCE):
            ended = await room.gateway.intake.end_of(accepted.row.id)
    except TimeoutError:
        ended = None
    if ended is None:
        text = (
            f"{text} is carried out, and has not ended yet; GET /api/v1/messages/{accepted.row.id}."
        )
        raise Refused(503, text, code="not_ended")
    return ended


def _told(ended: MessageEnded) -> str:
    return ended.text or ended.reason or "it was not carried out."
