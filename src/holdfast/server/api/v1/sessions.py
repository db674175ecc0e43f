"""Sessions over HTTP: list, open, read, rename, delete, suspend, resume, reset, fork."""

import asyncio
from math import isfinite
from typing import Annotated, Literal

import msgspec
from aiohttp import web

from holdfast.core.ids import SessionId
from holdfast.core.messages.events import MessageEnded
from holdfast.core.messages.inbox import Inbound
from holdfast.core.messages.source import Source, build_session_key
from holdfast.core.messages.transcript import TranscriptRecord
from holdfast.core.people.api_tokens import TokenScope
from holdfast.core.people.approval import OPERATOR
from holdfast.core.people.audit import AuditEntry, AuditKind
from holdfast.core.ports.store_commands import OpenSession, RenameSession
from holdfast.core.ports.store_queries import GetRouteSession, GetTurn, ListRecords, ListSessions
from holdfast.core.sessions.search import MAX_QUERY_LENGTH, SearchQuery
from holdfast.core.sessions.session import SessionFilter, SessionRow
from holdfast.core.text.translation import _
from holdfast.core.turns.subagent import platform_from_label
from holdfast.core.turns.turn_state import LaneState
from holdfast.gateway.access import Action, GatewayResource
from holdfast.platforms.web import platform as web_platform
from holdfast.server.api.context import ApiContext
from holdfast.server.api.endpoint import ApiCall, Endpoint, NoQuery, Reach
from holdfast.server.api.errors import EndpointError, bad_request, conflict
from holdfast.server.api.v1.messages import accept_message, current_session_source, session_source
from holdfast.server.api.v1.streams import live_state
from holdfast.server.api.v1.transcript_stats import with_summaries
from holdfast.server.api.v1.transcripts import OutputLimit
from holdfast.server.api.views.sessions import (
    NewSession,
    SessionChange,
    SessionDetail,
    SessionList,
    SessionView,
    TurnView,
    record_view,
    turn_view,
)
from holdfast.server.auth.tokens import HttpPrincipal


def make_cursor(row: SessionRow) -> str:
    """By last activity and id, so that sessions that move to the top do not shift the pages."""
    return f"{row.active_at!r}~{row.id}"


def parse_cursor(text: str) -> tuple[float, SessionId]:
    active, mark, session_id = text.partition("~")
    try:
        at = float(active)
    except ValueError:
        at = float("nan")
    if not mark or not isfinite(at):
        raise bad_request("after: must be the `next` of an earlier page.", param="after")
    return at, SessionId(session_id)


SessionStateFilter = Literal["", "running", "waiting", "queued", "idle", "suspended", "ended"]

_MAX_HITS = 200  # search matches that are considered, the best first


async def narrow_filter(
    context: ApiContext, base: SessionFilter, *, state: SessionStateFilter, text: str, platform: str
) -> SessionFilter:
    """`base`, narrowed to sessions that contain the text and are in the state."""
    if text.strip():
        base = _restrict_to(base, set(await _sessions_with_text(context, text, platform)))
    return _filter_by_state(context, state, base)


async def _sessions_with_text(
    context: ApiContext, text: str, platform: str
) -> tuple[SessionId, ...]:
    query = SearchQuery(words=text, limit=_MAX_HITS, platform=platform_from_label(platform))
    found = await context.store.read(query)
    return tuple(dict.fromkeys(each.session.id for each in found))


def _filter_by_state(
    context: ApiContext, state: SessionStateFilter, base: SessionFilter
) -> SessionFilter:
    """Whether a session runs or waits, only its lane knows."""
    live = {lane.session_id: lane.state for lane in context.gateway.lanes}
    waiting = {each for each, state_now in live.items() if state_now is LaneState.WAITING}
    running = {
        each for each, state_now in live.items() if state_now is not LaneState.IDLE
    } - waiting
    match state:
        case "running":
            return _restrict_to(base, running)
        case "waiting":
            return _restrict_to(base, waiting)
        case "queued":
            return _restrict_to(
                base, {lane.session_id for lane in context.gateway.lanes if lane.waiting_messages}
            )
        case "suspended":
            return msgspec.structs.replace(base, suspended=True)
        case "ended":
            return msgspec.structs.replace(base, ended=True, suspended=False)
        case "idle":
            busy = tuple(running | waiting)
            return msgspec.structs.replace(base, ended=False, suspended=False, exclude=busy)
    return base


def _restrict_to(base: SessionFilter, session_ids: set[SessionId]) -> SessionFilter:
    both = session_ids if base.include is None else session_ids.intersection(base.include)
    return msgspec.structs.replace(base, include=tuple(both))


Limit = Annotated[int, msgspec.Meta(ge=1, le=1000)]
Offset = Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)]
ShortText = Annotated[str, msgspec.Meta(max_length=200)]
# As many as fit into a URL.
Ids = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._,-]*$", max_length=1600)]


class SessionListQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`q`: part of the title; `text`: words that the transcript contains, by the search index;
    `user`: part of the id of the owner; `subagents`: include sessions of subagents; `ids`: only
    these, separated by commas; `after`: the `next` of the previous page; `summary`: with the last
    text and the usage."""

    limit: Limit = 50
    offset: Offset = 0
    q: ShortText = ""
    platform: ShortText = ""
    text: Annotated[str, msgspec.Meta(max_length=MAX_QUERY_LENGTH)] = ""
    state: SessionStateFilter = ""
    user: ShortText = ""
    subagents: bool = False
    ids: Ids = ""
    after: ShortText = ""
    summary: bool = False


class SessionDetailQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`max_tool_output`: the most characters of the output of each tool."""

    limit: Limit = 200
    max_tool_output: OutputLimit | None = None


async def list_sessions(context: ApiContext, call: ApiCall[SessionListQuery, None]) -> web.Response:
    asked = call.query
    rows = await context.store.read(
        ListSessions(
            limit=asked.limit + 1,
            offset=asked.offset,
            q=asked.q,
            platform=platform_from_label(asked.platform),
            include_subagents=asked.subagents,
            where=await _session_filter(context, asked, call.principal),
        )
    )
    listed, more = rows[: asked.limit], len(rows) > asked.limit
    views = (
        await with_summaries(context, listed)
        if asked.summary
        else [context.session_view(row) for row in listed]
    )
    cursor = make_cursor(listed[-1]) if more else None
    return context.respond(SessionList(sessions=views, more=more, next=cursor))


async def _session_filter(
    context: ApiContext, asked: SessionListQuery, principal: HttpPrincipal
) -> SessionFilter:
    """All criteria but the title and the platform."""
    session_filter = SessionFilter(
        user=asked.user,
        include=tuple(SessionId(each) for each in asked.ids.split(",")) if asked.ids else None,
        after=parse_cursor(asked.after) if asked.after else None,
    )
    session_filter = await _readable(context, principal, session_filter)
    return await narrow_filter(
        context, session_filter, state=asked.state, text=asked.text, platform=asked.platform
    )


async def _readable(
    context: ApiContext, principal: HttpPrincipal, base: SessionFilter
) -> SessionFilter:
    """`base`, narrowed to what the principal may read."""
    client = principal.client
    if client is None or context.gateway.access.allows(
        principal.principal, Action.READ, GatewayResource()
    ):
        return base
    if client.scope is TokenScope.TALK:
        return msgspec.structs.replace(base, user=client.principal)
    found = [await context.store.read(GetRouteSession(key=each)) for each in client.named_routes()]
    return _restrict_to(base, {each for each in found if each is not None})


async def open_session(context: ApiContext, call: ApiCall[NoQuery, NewSession]) -> web.Response:
    source = web_platform.web_source(call.body.name or context.runtime.new_id("chat"))
    fresh = SessionId(context.runtime.new_id("s"))
    route, at = build_session_key(source), context.runtime.clock.now()
    session_id = await context.store.write(OpenSession(session_id=fresh, route=route, at=at))
    return context.respond(
        await context.load_session_view(session_id), status=201 if session_id == fresh else 200
    )


async def read_session(
    context: ApiContext, call: ApiCall[SessionDetailQuery, None]
) -> web.Response:
    row, limit = await context.find_session(call.path_param("id")), call.query.limit
    records = await context.store.read(ListRecords(session_id=row.id, limit=limit + 1))
    newest = records[-limit:]
    return context.respond(
        SessionDetail(
            session=context.session_view(row),
            turns=await _turn_views(context, newest),
            records=[record_view(record, call.query.max_tool_output) for record in newest],
            more=len(records) > limit,
            live=live_state(context, row.id),
        )
    )


async def change_session(
    context: ApiContext, call: ApiCall[NoQuery, SessionChange]
) -> web.Response:
    row = await context.find_session(call.path_param("id"))
    title = " ".join(call.body.title.split())
    act = AuditEntry(
        kind=AuditKind.SESSION_RENAMED,
        actor=OPERATOR,
        at=context.runtime.clock.now(),
        session_id=row.id,
        subject=row.id,
        words={"title": title},
    )
    await context.store.write(RenameSession(session_id=row.id, title=title), audit=act)
    return context.respond(await context.load_session_view(row.id))


async def delete_session(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    row = await context.find_session(call.path_param("id"))
    await context.gateway.delete_session(row.id, by=OPERATOR)
    return web.Response(status=204)


async def _turn_views(context: ApiContext, records: list[TranscriptRecord]) -> list[TurnView]:
    """The turns that wrote these records, oldest first."""
    session_filter = dict.fromkeys(
        record.turn_id for record in records if record.turn_id is not None
    )
    rows = [await context.store.read(GetTurn(turn_id=turn_id)) for turn_id in session_filter]
    return [turn_view(row) for row in rows if row is not None]


_COMMAND_TIMEOUT = 30.0  # seconds; the command is carried out anyway


class ForkParams(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`title`: of the copy; empty: that of the session, followed by "(fork)"."""

    title: Annotated[str, msgspec.Meta(max_length=200)] = ""


async def suspend_session(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    """A running turn continues to its end; the next message starts a new session."""
    row = await context.find_session(call.path_param("id"))
    if row.ended_at is not None:
        raise conflict("Session {session} has already ended.", session=row.id, code="not_current")
    if not await context.gateway.sessions.suspend(row.id, by=OPERATOR):
        raise conflict("Session {session} is already suspended.", session=row.id, code="suspended")
    return context.respond(await context.load_session_view(row.id))


async def resume_session(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    """Make it the current session of its chat; the previous one is kept."""
    row = await context.find_session(call.path_param("id"))
    if row.current:
        raise conflict(
            "Session {session} is already the chat's current session.",
            session=row.id,
            code="current",
        )
    ended = await _run_command(
        context, row, await session_source(context.gateway, context.store, row), f"/resume {row.id}"
    )
    view = await context.load_session_view(row.id)
    if not view.current:
        raise conflict(_reply_or_reason(ended), code="not_resumed")
    return context.respond(view)


async def reset_session(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    """Start a new session in its place; its turn is stopped, and it is kept."""
    row = await context.find_session(call.path_param("id"))
    ended = await _run_command(
        context, row, await current_session_source(context.gateway, context.store, row), "/new"
    )
    return await _successor_response(context, row, ended)


async def fork_session(context: ApiContext, call: ApiCall[NoQuery, ForkParams]) -> web.Response:
    """Continue its chat in a copy of it."""
    row = await context.find_session(call.path_param("id"))
    text = f"/fork {' '.join(call.body.title.split())}".strip()
    ended = await _run_command(
        context, row, await current_session_source(context.gateway, context.store, row), text
    )
    return await _successor_response(context, row, ended)


async def _successor_response(
    context: ApiContext, row: SessionRow, ended: MessageEnded
) -> web.Response:
    """The session that its chat uses now."""
    now = context.gateway.lanes.session_of(row.route) or await context.store.read(
        GetRouteSession(key=row.route)
    )
    if now is None or now == row.id:
        raise conflict(_reply_or_reason(ended), code="not_done")
    return context.respond(await context.load_session_view(SessionId(now)), status=201)


async def _run_command(
    context: ApiContext, row: SessionRow, source: Source, text: str
) -> MessageEnded:
    """Send a command through the inbox, like a message in its chat, and wait for its end."""
    name = context.runtime.new_id("cmd")
    inbound = Inbound(source=source, event_id=f"v1/{row.id}/{name}", message_id=name, text=text)
    accepted = await accept_message(context.gateway, inbound, into=row.id)
    try:
        async with asyncio.timeout(_COMMAND_TIMEOUT):
            ended = await context.gateway.intake.wait_for_end(accepted.row.id)
    except TimeoutError:
        ended = None
    if ended is None:
        raise EndpointError(
            503,
            "{command} has not ended yet; follow it with GET /api/v1/messages/{message}.",
            command=text,
            message=accepted.row.id,
            code="not_ended",
        )
    return ended


def _reply_or_reason(ended: MessageEnded) -> str:
    return ended.text or ended.reason or _("The command was not carried out.")


_SESSION = "/sessions/{id}"

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/sessions",
        summary="The conversations, the most recently active first.",
        handler=list_sessions,
        read_only=True,
        reach=Reach.PRINCIPAL,
        query=SessionListQuery,
        response_type=SessionList,
    ),
    Endpoint(
        method="POST",
        path="/sessions",
        summary="Open a conversation, or find the one of that name.",
        handler=open_session,
        read_only=False,
        request_type=NewSession,
        response_type=SessionView,
        statuses=(201, 200),
    ),
    Endpoint(
        method="GET",
        path=_SESSION,
        summary="A conversation with its newest records.",
        handler=read_session,
        read_only=True,
        reach=Reach.SESSION,
        query=SessionDetailQuery,
        response_type=SessionDetail,
    ),
    Endpoint(
        method="PATCH",
        path=_SESSION,
        summary="Give a conversation another title.",
        handler=change_session,
        read_only=False,
        request_type=SessionChange,
        response_type=SessionView,
    ),
    Endpoint(
        method="DELETE",
        path=_SESSION,
        summary="Delete a conversation with its rows, its workspace, its runner and processes.",
        handler=delete_session,
        read_only=False,
        statuses=(204,),
    ),
    Endpoint(
        method="POST",
        path=f"{_SESSION}/suspend",
        summary="Suspend a conversation: the next message in its chat begins a new one.",
        handler=suspend_session,
        read_only=False,
        response_type=SessionView,
        error_statuses=(409,),
    ),
    Endpoint(
        method="POST",
        path=f"{_SESSION}/resume",
        summary="Switch its chat back to an earlier conversation.",
        handler=resume_session,
        read_only=False,
        response_type=SessionView,
        error_statuses=(409,),
    ),
    Endpoint(
        method="POST",
        path=f"{_SESSION}/reset",
        summary="Begin a fresh conversation in its chat; this one is stopped and kept.",
        handler=reset_session,
        read_only=False,
        response_type=SessionView,
        statuses=(201,),
        error_statuses=(409,),
    ),
    Endpoint(
        method="POST",
        path=f"{_SESSION}/fork",
        summary="Switch its chat to a copy of a conversation.",
        handler=fork_session,
        read_only=False,
        request_type=ForkParams,
        response_type=SessionView,
        statuses=(201,),
        error_statuses=(409,),
    ),
)
