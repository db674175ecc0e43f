"""The gateway over HTTP: status, commands, search, store check, charts, restarts and stop."""

import asyncio
from typing import Annotated, Any, Literal

import msgspec
from aiohttp import web

from holdfast.core.commands import CommandSpec
from holdfast.core.errors import RestartRefused, StoreError
from holdfast.core.ids import SessionId
from holdfast.core.ops.stats import MINUTE_SECONDS, DurationSum, MinuteStats, aggregate_minutes
from holdfast.core.people.api_tokens import TokenScope
from holdfast.core.ports.store_queries import CheckIntegrity, GetSearchStatus, ListLastStops
from holdfast.core.sessions import search as core_search
from holdfast.core.text.translation import _
from holdfast.core.turns.pricing import Prices, total_cost
from holdfast.core.turns.stop import StopKind, StopOrder, StopRequester, StopRow
from holdfast.core.turns.subagent import platform_from_label
from holdfast.core.turns.turn import NO_USAGE, Usage
from holdfast.server.api import openapi
from holdfast.server.api.context import ApiContext
from holdfast.server.api.endpoint import ApiCall, Endpoint, NoQuery, Reach
from holdfast.server.api.errors import conflict
from holdfast.server.api.views.gateway import (
    CommandView,
    RestartMode,
    RestartParams,
    SearchHitView,
    SearchIndexView,
    StatusView,
    StopAccepted,
    StopParams,
    StoreView,
    search_index_view,
)
from holdfast.server.status.minute_stats import DAY


class WhoamiView(msgspec.Struct, frozen=True, kw_only=True):
    """`name`: of the token; empty for the owner."""

    scope: TokenScope
    name: str


async def whoami(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    return context.respond(WhoamiView(scope=call.principal.scope, name=call.principal.name))


Name = Annotated[str, msgspec.Meta(max_length=200)]


class TranscriptSearchQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`session`, `platform` and `since` (seconds since the epoch) narrow the search."""

    q: Annotated[str, msgspec.Meta(min_length=1, max_length=core_search.MAX_QUERY_LENGTH)]
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 20
    session: Name = ""
    platform: Name = ""
    since: Annotated[float, msgspec.Meta(ge=0)] = 0


async def read_status(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    snapshot = (await context.status.fresh_snapshot()).for_person()
    report = await asyncio.to_thread(context.status.report, snapshot)
    view = StatusView(
        pid=report.pid,
        version=report.version,
        home=report.home,
        started_at=report.started_at,
        uptime=report.uptime,
        loop=report.loop,
        machine=report.machine.for_person(),
        problems=report.problems,
        **msgspec.structs.asdict(snapshot),
    )
    return context.respond(view)


async def list_commands(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    listed = context.gateway.dispatcher.available()
    return context.respond([_command_view(command) for command in listed])


def _command_view(command: CommandSpec) -> CommandView:
    return CommandView(
        name=command.name,
        help=_(command.help),
        arguments=command.arguments,
        aliases=command.aliases,
        allowed_mid_turn=command.allowed_mid_turn,
    )


async def search_transcripts(
    context: ApiContext, call: ApiCall[TranscriptSearchQuery, None]
) -> web.Response:
    asked = call.query
    found = await context.store.read(
        core_search.SearchQuery(
            words=asked.q,
            limit=asked.limit,
            session_id=SessionId(asked.session) if asked.session else None,
            platform=platform_from_label(asked.platform),
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
    return context.respond(search_index_view(state))


async def check_store(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    problems = await context.store.read(CheckIntegrity())
    try:
        state = await context.store.read(GetSearchStatus())
    except StoreError as error:
        nothing = SearchIndexView(messages=0, pending_sessions=0, bytes=0)
        return context.respond(
            StoreView(problems=problems, search=nothing, search_problem=str(error))
        )
    return context.respond(StoreView(problems=problems, search=search_index_view(state)))


class DurationView(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds."""

    mean: float
    worst: float


class ChartPoint(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of one bucket. `cost` is null where a model has no price; `lag` and `memory` are the
    worst of it, and 0 where they were not measured."""

    at: int
    accepted: int
    turns: int
    failed: int
    first_token: DurationView | None
    duration: DurationView | None
    usage: Usage
    cost: float | None
    hits: int
    misses: int
    lag: float
    memory: int


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """`bucket_seconds`: of one point; a bucket in which the gateway did not run has no point."""

    span: str
    since: int
    until: float
    bucket_seconds: int
    points: list[ChartPoint]


_HOUR = 60 * MINUTE_SECONDS
_SPANS = {"hour": (_HOUR, MINUTE_SECONDS), "day": (DAY, 15 * MINUTE_SECONDS)}


class ChartQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    span: Literal["hour", "day"] = "hour"


async def read_chart(context: ApiContext, call: ApiCall[ChartQuery, None]) -> web.Response:
    length, bucket = _SPANS[call.query.span]
    now = context.runtime.clock.now()
    first = int(now) // bucket * bucket - length + bucket
    prices = context.gateway.settings.prices
    minutes = aggregate_minutes(context.status.minute_history.since(first), per=bucket)
    points = [_chart_point(minute, prices) for minute in minutes]
    return context.respond(
        Chart(span=call.query.span, since=first, bucket_seconds=bucket, until=now, points=points)
    )


def _chart_point(stats: MinuteStats, prices: Prices) -> ChartPoint:
    used = sum(stats.usage_by_model.values(), NO_USAGE)
    return ChartPoint(
        at=stats.at,
        accepted=stats.accepted,
        turns=stats.turns,
        failed=stats.failed,
        first_token=_duration_view(stats.first_token),
        duration=_duration_view(stats.duration),
        usage=used,
        cost=total_cost(stats.usage_by_model, prices),
        hits=stats.hits,
        misses=stats.misses,
        lag=stats.lag,
        memory=stats.memory,
    )


def _duration_view(stats: DurationSum) -> DurationView | None:
    mean = stats.mean
    return None if mean is None else DurationView(mean=mean, worst=stats.worst)


class RestartsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`before`: the `id` of a stop; only earlier ones."""

    before: Annotated[str, msgspec.Meta(max_length=100)] = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 20


class RestartList(msgspec.Struct, frozen=True, kw_only=True):
    """The newest first. One without `ready_at` is under way, or no process followed it."""

    restarts: list[StopRow]
    more: bool


async def list_restarts(context: ApiContext, call: ApiCall[RestartsQuery, None]) -> web.Response:
    """`before` a deleted stop there are none: the oldest are deleted first."""
    asked = call.query
    found = await context.store.read(
        ListLastStops(limit=asked.limit + 1, before=asked.before or None)
    )
    return context.respond(
        RestartList(restarts=found[: asked.limit], more=len(found) > asked.limit)
    )


async def restart_gateway(
    context: ApiContext, call: ApiCall[NoQuery, RestartParams]
) -> web.Response:
    mode = call.body.mode
    order = _stop_order(context, StopKind.RESTART, now=mode is RestartMode.NOW)
    try:
        await context.lifecycle.restart(order, when_idle=mode is RestartMode.WHEN_IDLE)
    except RestartRefused as refused:
        raise conflict(refused, code="restart_refused") from None
    return context.respond(
        StopAccepted(kind=order.kind, when_idle=mode is RestartMode.WHEN_IDLE), status=202
    )


async def stop_gateway(context: ApiContext, call: ApiCall[NoQuery, StopParams]) -> web.Response:
    order = _stop_order(context, StopKind.STOP, now=call.body.now)
    context.lifecycle.stop(order)
    return context.respond(StopAccepted(kind=order.kind, when_idle=False), status=202)


def _stop_order(context: ApiContext, kind: StopKind, *, now: bool) -> StopOrder:
    return StopOrder(kind=kind, by=StopRequester.PAGE, at=context.runtime.clock.now(), now=now)


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/status",
        summary="The status of the gateway.",
        handler=read_status,
        read_only=True,
        response_type=StatusView,
    ),
    Endpoint(
        method="GET",
        path="/whoami",
        summary="The role of the caller.",
        handler=whoami,
        read_only=True,
        reach=Reach.PRINCIPAL,
        response_type=WhoamiView,
    ),
    Endpoint(
        method="GET",
        path="/chart",
        summary="Statistics of the last hour or day.",
        handler=read_chart,
        read_only=True,
        query=ChartQuery,
        response_type=Chart,
    ),
    Endpoint(
        method="POST",
        path="/restart",
        summary="Restart the gateway; turns resume. Refused if a successor could not start.",
        handler=restart_gateway,
        read_only=False,
        request_type=RestartParams,
        response_type=StopAccepted,
        statuses=(202,),
        error_statuses=(409,),
    ),
    Endpoint(
        method="GET",
        path="/restarts",
        summary="How earlier processes of this gateway ended, and the state of their turns.",
        handler=list_restarts,
        read_only=True,
        query=RestartsQuery,
        response_type=RestartList,
    ),
    Endpoint(
        method="POST",
        path="/stop",
        summary="Stop the gateway; it stays down until it is started.",
        handler=stop_gateway,
        read_only=False,
        request_type=StopParams,
        response_type=StopAccepted,
        statuses=(202,),
    ),
    Endpoint(
        method="GET",
        path="/commands",
        summary="The slash commands.",
        handler=list_commands,
        read_only=True,
        response_type=list[CommandView],
    ),
    Endpoint(
        method="GET",
        path="/search",
        summary="Search all transcripts, the best match first.",
        handler=search_transcripts,
        read_only=True,
        query=TranscriptSearchQuery,
        response_type=list[SearchHitView],
    ),
    Endpoint(
        method="GET",
        path="/store",
        summary="Whether the database and the search index are sound; every page is read.",
        handler=check_store,
        read_only=True,
        response_type=StoreView,
    ),
    Endpoint(
        method="POST",
        path="/search/rebuild",
        summary="Delete and rebuild the search index; answered when it is complete.",
        handler=rebuild_search,
        read_only=False,
        response_type=SearchIndexView,
    ),
    Endpoint(
        method="GET",
        path="/openapi.json",
        summary="The OpenAPI report.",
        handler=openapi.read_openapi,
        read_only=True,
        reach=Reach.PRINCIPAL,
        response_type=dict[str, Any],
    ),
)
