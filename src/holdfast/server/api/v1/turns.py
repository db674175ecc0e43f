"""Turns over HTTP: those of a session or of all, and the timeline of one, also while it runs."""

from typing import Annotated, Literal

import msgspec
from aiohttp import web

from holdfast.core.ids import SessionId, TurnId
from holdfast.core.messages.source import parse_route
from holdfast.core.turns.timeline import TurnDetails, TurnInput, TurnOutline, TurnQuery
from holdfast.core.turns.turn import LaneState, TurnState
from holdfast.server.api.endpoint import ApiCall
from holdfast.server.api.errors import not_found
from holdfast.server.api.room import ApiContext
from holdfast.server.api.v1.outbox import delivery_detail
from holdfast.server.api.v1.spending import usage_cost
from holdfast.server.api.v1.turn_views import (
    RecentTurns,
    TimelineView,
    TurnInputView,
    TurnList,
    TurnListItem,
    TurnSummaryView,
)
from holdfast.server.api.v1.waterfall import build_spans

Limit = Annotated[int, msgspec.Meta(ge=1, le=100)]
Steps = Annotated[int, msgspec.Meta(ge=1, le=1000)]
Seq = Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)]
Name = Annotated[str, msgspec.Meta(max_length=200)]


class TurnsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`before`: only turns that began before that one."""

    limit: Limit = 20
    before: Name = ""


class AllTurnsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`before`: only turns that are older than that one. `order`: `slowest` has, of the newest,
    those first that took longest."""

    limit: Limit = 20
    before: Name = ""
    state: Literal["", "open", "answered", "interrupted", "superseded", "failed"] = ""
    order: Literal["newest", "slowest"] = "newest"


class TimelineQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`after`: only what follows that step."""

    after: Seq = 0
    limit: Steps = 500


async def list_turns(context: ApiContext, call: ApiCall[TurnsQuery, None]) -> web.Response:
    row, asked = await context.find_session(call.path_param("id")), call.query
    before = TurnId(asked.before) if asked.before else None
    found = await context.store.turns(row.id, limit=asked.limit + 1, before=before)
    lines = [await _summary_view(context, outline) for outline in found[: asked.limit]]
    return context.respond(TurnList(turns=lines, more=len(found) > asked.limit))


async def list_all_turns(context: ApiContext, call: ApiCall[AllTurnsQuery, None]) -> web.Response:
    asked = call.query
    choice = TurnQuery(
        limit=asked.limit + 1,
        state=TurnState(asked.state) if asked.state else None,
        before=TurnId(asked.before) if asked.before else None,
        slowest=asked.order == "slowest",
    )
    found = await context.store.recent_turns(choice)
    lines = [await _list_item(context, outline) for outline in found[: asked.limit]]
    return context.respond(RecentTurns(turns=lines, more=len(found) > asked.limit))


async def read_turn(context: ApiContext, call: ApiCall[TimelineQuery, None]) -> web.Response:
    turn_id, asked = TurnId(call.path_param("id")), call.query
    course = await context.store.turn_details(turn_id, after=asked.after, limit=asked.limit)
    if course is None:
        raise not_found(f"there is no turn {turn_id!r}; GET /api/v1/sessions/ID/turns lists them.")
    prices = context.gateway.services.settings.prices
    view = TimelineView(
        turn=await _summary_view(context, course.outline),
        inputs=[_turn_input(course, message) for message in course.inputs],
        spans=build_spans(course, prices=prices, running=_is_running(context, course)),
        deliveries=[delivery_detail(context, row) for row in course.deliveries],
        more=course.more,
        previous=course.previous,
        next=course.next,
    )
    return context.respond(view)


def _is_running(context: ApiContext, timeline: TurnDetails) -> bool:
    turn = timeline.outline.turn
    lane = context.gateway.lanes.get(turn.session_id)
    if lane is None or lane.state is not LaneState.RUNNING or lane.running_turn is None:
        return False
    return turn.ended_at is None and lane.running_turn.turn_id == turn.id


async def _list_item(context: ApiContext, summary: TurnOutline) -> TurnListItem:
    line = await _summary_view(context, summary)
    row = await context.shared_reads.session(summary.turn.session_id)
    platform = "" if row is None else parse_route(row.route)[0]
    title = "" if row is None else row.title
    return TurnListItem(title=title, platform=platform, **msgspec.structs.asdict(line))


async def _summary_view(context: ApiContext, summary: TurnOutline) -> TurnSummaryView:
    turn = summary.turn
    return TurnSummaryView(
        id=turn.id,
        session_id=turn.session_id,
        state=turn.state,
        reason=turn.reason,
        started_at=turn.started_at,
        ended_at=turn.ended_at,
        steps=summary.steps,
        usage=summary.usage,
        cost=await _cost(context, turn.id),
        resumed=summary.resumed,
        exit_reason=summary.exit_reason,
        waiting_for_approval=turn.ended_at is None
        and _lane_state(context, turn.session_id) is LaneState.WAITING,
    )


def _lane_state(context: ApiContext, session_id: SessionId) -> LaneState | None:
    lane = context.gateway.lanes.get(session_id)
    return None if lane is None else lane.state


async def _cost(context: ApiContext, turn_id: TurnId) -> float | None:
    """Where nobody has set a price, no step is read for it."""
    prices = context.gateway.services.settings.prices
    return usage_cost(await context.store.turn_usage_by_model(turn_id), prices) if prices else None


def _turn_input(timeline: TurnDetails, message: TurnInput) -> TurnInputView:
    """What ended before its turn did was a word to a turn that ran: it was taken by that write."""
    turn = timeline.outline.turn
    steered = message.ended_at is not None and message.ended_at != turn.ended_at
    taken_at = message.ended_at if steered and message.ended_at else turn.started_at
    return TurnInputView(
        id=message.id,
        principal=message.principal,
        state=message.state,
        accepted_at=message.accepted_at,
        taken_at=taken_at,
        steered=steered,
    )
