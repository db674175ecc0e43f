"""The gateway as a whole over HTTP: how it is, what it understands, and what was ever said."""

import asyncio
from typing import Annotated

import msgspec
from aiohttp import web

from holdfast.core.errors import StoreError
from holdfast.core.ids import SessionId
from holdfast.core.people.commands import CommandSpec
from holdfast.core.sessions import search as core_search
from holdfast.server.api.endpoint import ApiCall, NoQuery
from holdfast.server.api.room import ApiContext
from holdfast.server.api.views.overall_views import CommandView, StatusView, StoreView
from holdfast.server.api.views.search_views import SearchHitView, SearchIndexView

Name = Annotated[str, msgspec.Meta(max_length=200)]


class TranscriptSearchQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`session`, `platform` and `since` (seconds since the epoch) leave out what is elsewhere."""

    q: Annotated[str, msgspec.Meta(min_length=1, max_length=core_search.MAX_QUERY_LENGTH)]
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 20
    session: Name = ""
    platform: Name = ""
    since: Annotated[float, msgspec.Meta(ge=0)] = 0


async def read_status(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    snapshot = await context.fresh_snapshot()
    document = await asyncio.to_thread(context.status_report, snapshot)
    view = StatusView(
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
    return context.respond(view)


async def list_commands(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    listed = context.gateway.dispatcher.available()
    return context.respond([_command_view(command) for command in listed])


def _command_view(command: CommandSpec) -> CommandView:
    return CommandView(
        name=command.name,
        help=command.help,
        arguments=command.arguments,
        aliases=command.aliases,
        allowed_mid_turn=command.allowed_mid_turn,
    )


async def search_transcripts(
    context: ApiContext, call: ApiCall[TranscriptSearchQuery, None]
) -> web.Response:
    asked = call.query
    found = await context.store.search(
        core_search.SearchQuery(
            words=asked.q,
            limit=asked.limit,
            session_id=SessionId(asked.session) if asked.session else None,
            platform=asked.platform,
            since=asked.since,
        )
    )
    return context.respond([_search_hit(context, each) for each in found])


def _search_hit(context: ApiContext, found: core_search.SearchMatch) -> SearchHitView:
    return SearchHitView(
        session=context.session_view(found.session),
        seq=found.seq,
        role=found.role,
        at=found.created_at,
        snippet=found.snippet,
        parts=list(found.pieces),
    )


async def rebuild_search(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    state = await context.store.rebuild_search_index()
    return context.respond(SearchIndexView(**msgspec.structs.asdict(state)))


async def check_store(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    problems = await context.store.check()
    try:
        state = await context.store.search_state()
    except StoreError as error:
        nothing = SearchIndexView(messages=0, pending_sessions=0, bytes=0)
        return context.respond(
            StoreView(problems=problems, search=nothing, search_problem=str(error))
        )
    return context.respond(
        StoreView(problems=problems, search=SearchIndexView(**msgspec.structs.asdict(state)))
    )
