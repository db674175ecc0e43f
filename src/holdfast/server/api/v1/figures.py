"""Figures over HTTP: what a stretch of a transcript took, and the gist of listed sessions."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from aiohttp import web

from holdfast.core.messages.outbox import DeliveryRow
from holdfast.core.sessions.session import SessionRow
from holdfast.core.turns.figures import Figures, Reply, SessionGist
from holdfast.core.turns.pricing import Prices, price_of
from holdfast.core.turns.timeline import TurnOutline
from holdfast.server.api.endpoint import Call
from holdfast.server.api.errors import bad
from holdfast.server.api.room import Room
from holdfast.server.api.v1.figure_views import FiguresView, ReplyFigures, SentView, TurnFigures
from holdfast.server.api.v1.spending import spent
from holdfast.server.api.views.session_views import Gist, SessionView

LONGEST = 256  # records whose figures are read at once, while others wait

Seq = Annotated[int, msgspec.Meta(ge=1, le=2**62)]


class FiguresQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of the records `first` to `last`. `turns` false: only the replies."""

    first: Seq
    last: Seq
    turns: bool = True


async def read_figures(room: Room, call: Call[FiguresQuery, None]) -> web.Response:
    row, asked = await room.session(call.part("id")), call.query
    if not 0 <= asked.last - asked.first < LONGEST:
        raise bad(f"first to last must be 1 to {LONGEST} records; ask for less.", param="last")
    prices = room.gateway.house.settings.prices
    found = await room.store.figures(
        row.id, first=asked.first, last=asked.last, priced=bool(prices) and asked.turns
    )
    return room.say(
        FiguresView(
            replies=[_reply(each, prices) for each in found.replies],
            turns=[_turn(each, found, prices) for each in found.turns] if asked.turns else [],
        )
    )


async def with_gists(room: Room, rows: Sequence[SessionRow]) -> list[SessionView]:
    """Where nobody has set a price, no step is read for it."""
    gists = {each.session_id: each for each in await room.store.gists([row.id for row in rows])}
    return [
        msgspec.structs.replace(room.view_of(row), gist=await _gist(room, row, gists[row.id]))
        for row in rows
    ]


async def _gist(room: Room, row: SessionRow, gist: SessionGist) -> Gist:
    prices = room.gateway.house.settings.prices
    lane = room.gateway.lanes.get(row.id)
    return Gist(
        owner=row.principal,
        said=gist.said,
        by=gist.by,
        usage=gist.usage,
        cost=spent(await room.store.session_used(row.id), prices) if prices else None,
        queued=len(lane.waiting) if lane else 0,
    )


def _reply(reply: Reply, prices: Prices) -> ReplyFigures:
    price = price_of(reply.model, prices)
    return ReplyFigures(
        record=reply.record,
        model=reply.model,
        began_at=reply.began_at,
        ended_at=reply.ended_at,
        usage=reply.usage,
        cost=None if price is None else price.of(reply.usage),
    )


def _turn(outline: TurnOutline, found: Figures, prices: Prices) -> TurnFigures:
    turn = outline.turn
    used = found.used.get(turn.id)
    return TurnFigures(
        id=turn.id,
        state=turn.state,
        started_at=turn.started_at,
        ended_at=turn.ended_at,
        steps=outline.steps,
        usage=outline.usage,
        cost=None if used is None else spent(used, prices),
        resumed=outline.resumed,
        left_as=outline.left_as,
        deliveries=[_sent(row) for row in found.deliveries if row.turn_id == turn.id],
    )


def _sent(row: DeliveryRow) -> SentView:
    return SentView(
        id=row.id,
        kind=row.kind,
        platform=row.address.platform,
        state=row.state,
        doubtful=row.doubtful,
        attempts=row.attempts,
        error=row.error,
        updated_at=row.updated_at,
    )
