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
from holdfast.server.api.endpoint import ApiCall, NoQuery
from holdfast.server.api.errors import EndpointError, conflict
from holdfast.server.api.room import ApiContext
from holdfast.server.api.v1.voice import accept_message, current_session_source, session_source

_COMMAND_TIMEOUT = 30.0  # seconds; the command is carried out all the same


class ForkParams(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`title`: of the copy; without one, the session's own with "(fork)" behind it."""

    title: Annotated[str, msgspec.Meta(max_length=200)] = ""


async def suspend_session(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    """What runs goes on to its end; what is said next happens in a fresh session."""
    row = await context.find_session(call.path_param("id"))
    if row.ended_at is not None:
        raise conflict(f"session {row.id} is over already.", code="not_current")
    if not await context.gateway.sessions.suspend(row.id, by=OPERATOR):
        raise conflict(f"session {row.id} was suspended already.", code="suspended")
    return context.respond(await context.load_session_view(row.id))


async def resume_session(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    """Its chat goes on in it; the one that is left is kept."""
    row = await context.find_session(call.path_param("id"))
    if row.current:
        raise conflict(f"session {row.id} is the one that its chat is in.", code="current")
    ended = await _run_command(
        context, row, await session_source(context.gateway, row), f"/resume {row.id}"
    )
    view = await context.load_session_view(row.id)
    if not view.current:
        raise conflict(_reply_or_reason(ended), code="not_resumed")
    return context.respond(view)


async def reset_session(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    """A fresh session takes its place; what runs in it is stopped, and it is kept."""
    row = await context.find_session(call.path_param("id"))
    ended = await _run_command(
        context, row, await current_session_source(context.gateway, row), "/new"
    )
    return await _successor_response(context, row, ended)


async def fork_session(context: ApiContext, call: ApiCall[NoQuery, ForkParams]) -> web.Response:
    """Its chat goes on in a copy of it."""
    row = await context.find_session(call.path_param("id"))
    text = f"/fork {' '.join(call.body.title.split())}".strip()
    ended = await _run_command(
        context, row, await current_session_source(context.gateway, row), text
    )
    return await _successor_response(context, row, ended)


async def _successor_response(
    context: ApiContext, row: SessionRow, ended: MessageEnded
) -> web.Response:
    """The session in which its chat goes on now."""
    now = context.gateway.lanes.session_of(row.route) or await context.store.route(row.route)
    if now is None or now == row.id:
        raise conflict(_reply_or_reason(ended), code="not_done")
    return context.respond(await context.load_session_view(SessionId(now)), status=201)


async def _run_command(
    context: ApiContext, row: SessionRow, source: Source, text: str
) -> MessageEnded:
    """The end of a command, which is in the inbox like any other, and answered in its chat."""
    name = context.new_id("cmd")
    inbound = Inbound(source=source, event_id=f"v1/{row.id}/{name}", message_id=name, text=text)
    accepted = await accept_message(context.gateway, inbound)
    try:
        async with asyncio.timeout(_COMMAND_TIMEOUT):
            ended = await context.gateway.intake.wait_for_end(accepted.row.id)
    except TimeoutError:
        ended = None
    if ended is None:
        text = (
            f"{text} is carried out, and has not ended yet; GET /api/v1/messages/{accepted.row.id}."
        )
        raise EndpointError(503, text, code="not_ended")
    return ended


def _reply_or_reason(ended: MessageEnded) -> str:
    return ended.text or ended.reason or "it was not carried out."
