"""The gateway as a whole over HTTP: how it is, what it understands, and what was ever said."""

import asyncio
from typing import Annotated

import msgspec
from aiohttp import web

from holdfast.core.errors import StoreError
from holdfast.core.ids import SessionId
from holdfast.core.people.commands import CommandSpec
from holdfast.core.sessions import search as core_search
from holdfast.server.api.endpoint import Call, NoQuery
from holdfast.server.api.room import Room
from holdfast.server.api.views.overall_views import CommandView, Status, StoreView
from holdfast.server.api.views.search_views import Found, SearchView

Name = Annotated[str, msgspec.Meta(max_length=200)]


class SearchQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`session`, `platform` and `since` (seconds since the epoch) leave out what is elsewhere."""

    q: Annotated[str, msgspec.Meta(min_length=1, max_length=core_search.MOST_WORDS)]
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 20
    session: Name = ""
    platform: Name = ""
    since: Annotated[float, msgspec.Meta(ge=0)] = 0


async def status(room: Room, call: Call[NoQuery, None]) -> web.Response:
    snapshot = await room.fresh()
    document = await asyncio.to_thread(room.document, snapshot)
    view = Status(
        pid=document.pid,
        version=document.version,
        home=document.home,
        started_at=document.started_at,
        uptime=document.uptime,
        loop=document.loop,
        machine=document.machine,
        problems=document.problems,
        **msgspec.structs.asdict(snapshot),
    )
    return room.say(view)


async def commands(room: Room, call: Call[NoQuery, None]) -> web.Response:
    listed = room.gateway.desk.listed()
    return room.say([_shown(command) for command in listed])


def _shown(command: CommandSpec) -> CommandView:
    return CommandView(
        name=command.name,
        help=command.help,
        arguments=command.arguments,
        aliases=command.aliases,
        mid_turn=command.mid_turn,
    )


async def search(room: Room, call: Call[SearchQuery, None]) -> web.Response:
    asked = call.query
    found = await room.store.search(
        core_search.SearchQuery(
            words=asked.q,
            limit=asked.limit,
            session_id=SessionId(asked.session) if asked.session else None,
            platform=asked.platform,
            since=asked.since,
        )
    )
    return room.say([_found(room, each) for each in found])


def _found(room: Room, found: core_search.FoundRecord) -> Found:
    return Found(
        session=room.view_of(found.session),
        seq=found.seq,
        role=found.role,
        at=found.created_at,
        snippet=found.snippet,
        marked=list(found.pieces),
    )


async def rebuild_search(room: Room, call: Call[NoQuery, None]) -> web.Response:
    state = await room.store.rebuild_search()
    return room.say(SearchView(**msgspec.structs.asdict(state)))


async def store(room: Room, call: Call[NoQuery, None]) -> web.Response:
    problems = await room.store.check()
    try:
        state = await room.store.search_state()
    except StoreError as error:
        nothing = SearchView(messages=0, behind=0, bytes=0)
        return room.say(StoreView(problems=problems, search=nothing, search_problem=str(error)))
    return room.say(
        StoreView(problems=problems, search=SearchView(**msgspec.structs.asdict(state)))
    )
