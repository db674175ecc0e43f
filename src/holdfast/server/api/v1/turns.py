"""Turns over HTTP: those of a session or of all, and the timeline of one, also while it runs."""

from typing import Annotated, Literal

import msgspec
from aiohttp import web

from holdfast.core.ids import SessionId, TurnId
from holdfast.core.messages.source import place_of
from holdfast.core.turns.timeline import Course, TakenMessage, TurnChoice, TurnOutline
from holdfast.core.turns.turn import LaneState, TurnState
from holdfast.server.api.endpoint import Call
from holdfast.server.api.errors import not_found
from holdfast.server.api.room import Room
from holdfast.server.api.v1.outbox import shown_delivery
from holdfast.server.api.v1.spending import spent
from holdfast.server.api.v1.turn_views import (
    TakenView,
    Timeline,
    TurnEntries,
    TurnEntry,
    TurnLine,
    TurnList,
)
from holdfast.server.api.v1.waterfall import waterfall

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


async def list_turns(room: Room, call: Call[TurnsQuery, None]) -> web.Response:
    row, asked = await room.session(call.part("id")), call.query
    before = TurnId(asked.before) if asked.before else None
    found = await room.store.turns(row.id, limit=asked.limit + 1, before=before)
    lines = [await _line(room, outline) for outline in found[: asked.limit]]
    return room.say(TurnList(turns=lines, more=len(found) > asked.limit))


async def list_all_turns(room: Room, call: Call[AllTurnsQuery, None]) -> web.Response:
    asked = call.query
    choice = TurnChoice(
        limit=asked.limit + 1,
        state=TurnState(asked.state) if asked.state else None,
        before=TurnId(asked.before) if asked.before else None,
        slowest=asked.order == "slowest",
    )
    found = await room.store.recent_turns(choice)
    lines = [await _entry(room, outline) for outline in found[: asked.limit]]
    return room.say(TurnEntries(turns=lines, more=len(found) > asked.limit))


async def read_turn(room: Room, call: Call[TimelineQuery, None]) -> web.Response:
    turn_id, asked = TurnId(call.part("id")), call.query
    course = await room.store.course(turn_id, after=asked.after, limit=asked.limit)
    if course is None:
        raise not_found(f"there is no turn {turn_id!r}; GET /api/v1/sessions/ID/turns lists them.")
    prices = room.gateway.house.settings.prices
    view = Timeline(
        turn=await _line(room, course.outline),
        messages=[_taken(course, message) for message in course.messages],
        spans=waterfall(course, prices=prices, asks=_is_at_work(room, course)),
        deliveries=[shown_delivery(room, row) for row in course.deliveries],
        more=course.more,
        previous=course.previous,
        next=course.next,
    )
    return room.say(view)


def _is_at_work(room: Room, course: Course) -> bool:
    turn = course.outline.turn
    lane = room.gateway.lanes.get(turn.session_id)
    if lane is None or lane.state is not LaneState.RUNNING or lane.turn is None:
        return False
    return turn.ended_at is None and lane.turn.turn_id == turn.id


async def _entry(room: Room, outline: TurnOutline) -> TurnEntry:
    line = await _line(room, outline)
    row = await room.shared.session(outline.turn.session_id)
    platform = "" if row is None else place_of(row.route)[0]
    title = "" if row is None else row.title
    return TurnEntry(title=title, platform=platform, **msgspec.structs.asdict(line))


async def _line(room: Room, outline: TurnOutline) -> TurnLine:
    turn = outline.turn
    return TurnLine(
        id=turn.id,
        session_id=turn.session_id,
        state=turn.state,
        reason=turn.reason,
        started_at=turn.started_at,
        ended_at=turn.ended_at,
        steps=outline.steps,
        usage=outline.usage,
        cost=await _cost(room, turn.id),
        resumed=outline.resumed,
        left_as=outline.left_as,
        waits=turn.ended_at is None and _stands(room, turn.session_id) is LaneState.WAITING,
    )


def _stands(room: Room, session_id: SessionId) -> LaneState | None:
    lane = room.gateway.lanes.get(session_id)
    return None if lane is None else lane.state


async def _cost(room: Room, turn_id: TurnId) -> float | None:
    """Where nobody has set a price, no step is read for it."""
    prices = room.gateway.house.settings.prices
    return spent(await room.store.turn_used(turn_id), prices) if prices else None


def _taken(course: Course, message: TakenMessage) -> TakenView:
    """What ended before its turn did was a word to a turn that ran: it was taken by that write."""
    turn = course.outline.turn
    steered = message.ended_at is not None and message.ended_at != turn.ended_at
    taken_at = message.ended_at if steered and message.ended_at else turn.started_at
    return TakenView(
        id=message.id,
        principal=message.principal,
        state=message.state,
        accepted_at=message.accepted_at,
        taken_at=taken_at,
        steered=steered,
    )
