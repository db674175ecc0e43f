"""Sessions over HTTP: listed, opened, read, renamed and deleted."""

from typing import Annotated

import msgspec
from aiohttp import web

from holdfast.core.ids import SessionId
from holdfast.core.messages.message import Record
from holdfast.core.messages.source import build_session_key
from holdfast.core.people.approval import OPERATOR
from holdfast.core.people.audit import Act, AuditKind
from holdfast.core.sessions.search import MOST_WORDS
from holdfast.core.sessions.session import SessionFilter
from holdfast.gateway.sessions import leaving
from holdfast.platforms.web import platform as web_platform
from holdfast.server.api.endpoint import Call, NoQuery
from holdfast.server.api.room import Room
from holdfast.server.api.v1.choosing import Standing, chosen
from holdfast.server.api.v1.figures import with_gists
from holdfast.server.api.v1.listing import place_behind, place_named
from holdfast.server.api.v1.live import live_of
from holdfast.server.api.v1.transcripts import Cut
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
Words = Annotated[str, msgspec.Meta(max_length=200)]
# As many as an address has room for.
Ids = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._,-]*$", max_length=1600)]


class ListQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`q`: only those that have it in their title; `text`: in which all these words were said
    together, by the search index; `user`: whose owner has it in their id; `children`: also those
    of child agents; `ids`: of these alone, by commas; `after`: behind the page whose `next` it is;
    `gist`: with what was said last, and what it took."""

    limit: Limit = 50
    offset: Offset = 0
    q: Words = ""
    platform: Words = ""
    text: Annotated[str, msgspec.Meta(max_length=MOST_WORDS)] = ""
    state: Standing = ""
    user: Words = ""
    children: bool = False
    ids: Ids = ""
    after: Words = ""
    gist: bool = False


class DetailQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`cut`: so many characters of what each tool has printed."""

    limit: Limit = 200
    cut: Cut | None = None


async def list_sessions(room: Room, call: Call[ListQuery, None]) -> web.Response:
    asked = call.query
    rows = await room.store.sessions(
        limit=asked.limit + 1,
        offset=asked.offset,
        q=asked.q,
        platform=asked.platform,
        children=asked.children,
        among=await _among(room, asked),
    )
    listed, more = rows[: asked.limit], len(rows) > asked.limit
    views = await with_gists(room, listed) if asked.gist else [room.view_of(row) for row in listed]
    behind = place_behind(listed[-1]) if more else None
    return room.say(SessionList(sessions=views, more=more, next=behind))


async def _among(room: Room, asked: ListQuery) -> SessionFilter:
    """What of the question the title and the platform do not answer."""
    wanted = SessionFilter(
        user=asked.user,
        only=tuple(SessionId(each) for each in asked.ids.split(",")) if asked.ids else None,
        beyond=place_named(asked.after) if asked.after else None,
    )
    return await chosen(room, wanted, state=asked.state, text=asked.text, platform=asked.platform)


async def open_session(room: Room, call: Call[NoQuery, NewSession]) -> web.Response:
    source = web_platform.source(call.body.name or room.new_id("chat"))
    fresh = SessionId(room.new_id("s"))
    route, at = build_session_key(source), room.clock.now()
    session_id = await room.store.open_session(fresh, route=route, at=at)
    if session_id == fresh:
        room.gateway.house.feeds.changed(fresh)
    return room.say(await room.view(session_id), status=201 if session_id == fresh else 200)


async def read_session(room: Room, call: Call[DetailQuery, None]) -> web.Response:
    row, limit = await room.session(call.part("id")), call.query.limit
    records = await room.store.records(row.id, limit=limit + 1)
    newest = records[-limit:]
    return room.say(
        SessionDetail(
            session=room.view_of(row),
            turns=await _turns(room, newest),
            records=[record_view(record, call.query.cut) for record in newest],
            more=len(records) > limit,
            live=live_of(room, row.id),
        )
    )


async def change_session(room: Room, call: Call[NoQuery, SessionChange]) -> web.Response:
    row = await room.session(call.part("id"))
    title = " ".join(call.body.title.split())
    act = Act(
        kind=AuditKind.SESSION_RENAMED,
        actor=OPERATOR,
        at=room.clock.now(),
        session_id=row.id,
        subject=row.id,
        words={"title": title},
    )
    await room.store.acting(act).rename_session(row.id, title)
    room.gateway.house.feeds.changed(row.id)
    return room.say(await room.view(row.id))


async def delete_session(room: Room, call: Call[NoQuery, None]) -> web.Response:
    row = await room.session(call.part("id"))
    gateway = room.gateway
    await leaving.delete(gateway.house, gateway.lanes, gateway.closing, row.id, by=OPERATOR)
    return web.Response(status=204)


async def _turns(room: Room, records: list[Record]) -> list[TurnView]:
    """The turns that wrote these records, oldest first."""
    wanted = dict.fromkeys(record.turn_id for record in records if record.turn_id is not None)
    rows = [await room.store.turn(turn_id) for turn_id in wanted]
    return [turn_view(row) for row in rows if row is not None]
