"""Sessions over HTTP: listed, opened, read, renamed and deleted."""

from typing import Annotated

import msgspec
from aiohttp import web

from holdfast.core.ids import SessionId
from holdfast.core.messages.message import TranscriptRecord
from holdfast.core.messages.source import build_session_key
from holdfast.core.people.approval import OPERATOR
from holdfast.core.people.audit import AuditEntry, AuditKind
from holdfast.core.sessions.search import MAX_QUERY_LENGTH
from holdfast.core.sessions.session import SessionFilter
from holdfast.gateway.sessions import leaving
from holdfast.platforms.web import platform as web_platform
from holdfast.server.api.endpoint import ApiCall, NoQuery
from holdfast.server.api.room import ApiContext
from holdfast.server.api.v1.choosing import SessionStateFilter, narrow_filter
from holdfast.server.api.v1.figures import with_summaries
from holdfast.server.api.v1.listing import make_cursor, parse_cursor
from holdfast.server.api.v1.live import live_state
from holdfast.server.api.v1.transcripts import OutputLimit
from holdfast.server.api.views.session_views import (
    NewSession,
    SessionChange,
    SessionDetail,
    SessionList,
    TurnView,
    record_view,
    turn_view,
)

Limit = Annotated[int, msgspec.Meta(ge=1, le=1000)]
Offset = Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)]
ShortText = Annotated[str, msgspec.Meta(max_length=200)]
# As many as an address has room for.
Ids = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._,-]*$", max_length=1600)]


class SessionListQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`q`: only those that have it in their title; `text`: in which all these words were said
    together, by the search index; `user`: whose owner has it in their id; `children`: also those
    of child agents; `ids`: of these alone, by commas; `after`: behind the page whose `next` it is;
    `gist`: with what was said last, and what it took."""

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
    """`cut`: so many characters of what each tool has printed."""

    limit: Limit = 200
    max_tool_output: OutputLimit | None = None


async def list_sessions(context: ApiContext, call: ApiCall[SessionListQuery, None]) -> web.Response:
    asked = call.query
    rows = await context.store.sessions(
        limit=asked.limit + 1,
        offset=asked.offset,
        q=asked.q,
        platform=asked.platform,
        include_subagents=asked.subagents,
        where=await _session_filter(context, asked),
    )
    listed, more = rows[: asked.limit], len(rows) > asked.limit
    views = (
        await with_summaries(context, listed)
        if asked.summary
        else [context.session_view(row) for row in listed]
    )
    behind = make_cursor(listed[-1]) if more else None
    return context.respond(SessionList(sessions=views, more=more, next=behind))


async def _session_filter(context: ApiContext, asked: SessionListQuery) -> SessionFilter:
    """What of the question the title and the platform do not answer."""
    wanted = SessionFilter(
        user=asked.user,
        include=tuple(SessionId(each) for each in asked.ids.split(",")) if asked.ids else None,
        after=parse_cursor(asked.after) if asked.after else None,
    )
    return await narrow_filter(
        context, wanted, state=asked.state, text=asked.text, platform=asked.platform
    )


async def open_session(context: ApiContext, call: ApiCall[NoQuery, NewSession]) -> web.Response:
    source = web_platform.web_source(call.body.name or context.new_id("chat"))
    fresh = SessionId(context.new_id("s"))
    route, at = build_session_key(source), context.clock.now()
    session_id = await context.store.open_session(fresh, route=route, at=at)
    if session_id == fresh:
        context.gateway.services.feeds.session_changed(fresh)
    return context.respond(
        await context.load_session_view(session_id), status=201 if session_id == fresh else 200
    )


async def read_session(
    context: ApiContext, call: ApiCall[SessionDetailQuery, None]
) -> web.Response:
    row, limit = await context.find_session(call.path_param("id")), call.query.limit
    records = await context.store.records(row.id, limit=limit + 1)
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
        at=context.clock.now(),
        session_id=row.id,
        subject=row.id,
        words={"title": title},
    )
    await context.store.audited(act).rename_session(row.id, title)
    context.gateway.services.feeds.session_changed(row.id)
    return context.respond(await context.load_session_view(row.id))


async def delete_session(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    row = await context.find_session(call.path_param("id"))
    gateway = context.gateway
    await leaving.delete_session(
        gateway.services, gateway.lanes, gateway.teardown, row.id, by=OPERATOR
    )
    return web.Response(status=204)


async def _turn_views(context: ApiContext, records: list[TranscriptRecord]) -> list[TurnView]:
    """The turns that wrote these records, oldest first."""
    wanted = dict.fromkeys(record.turn_id for record in records if record.turn_id is not None)
    rows = [await context.store.turn(turn_id) for turn_id in wanted]
    return [turn_view(row) for row in rows if row is not None]
