"""Charts over HTTP: what the gateway did and how it was, over the last hour or day."""

from typing import Literal

import msgspec
from aiohttp import web

from holdfast.core.ops.minute import MINUTE, Minute, Spread, joined
from holdfast.core.turns.pricing import Prices, cost
from holdfast.core.turns.turn import NO_USAGE
from holdfast.server.api.endpoint import Call
from holdfast.server.api.room import Room
from holdfast.server.api.v1.chart_views import Chart, Point, Quantity
from holdfast.server.status.minutes import DAY

_HOUR = 60 * MINUTE
_SPANS = {"hour": (_HOUR, MINUTE), "day": (DAY, 15 * MINUTE)}


class ChartQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    span: Literal["hour", "day"] = "hour"


async def chart(room: Room, call: Call[ChartQuery, None]) -> web.Response:
    whole, per = _SPANS[call.query.span]
    now = room.clock.now()
    first = int(now) // per * per - whole + per
    prices = room.gateway.house.settings.prices
    minutes = joined(room.minutes.since(first), per=per)
    points = [_point(minute, prices) for minute in minutes]
    return room.say(Chart(span=call.query.span, since=first, per=per, until=now, points=points))


def _point(minute: Minute, prices: Prices) -> Point:
    used = sum(minute.used.values(), NO_USAGE)
    return Point(
        at=minute.at,
        accepted=minute.accepted,
        turns=minute.turns,
        failed=minute.failed,
        first=_quantity(minute.first),
        whole=_quantity(minute.whole),
        usage=used,
        cost=cost(minute.used, prices),
        hits=minute.hits,
        misses=minute.misses,
        lag=minute.lag,
        memory=minute.memory,
    )


def _quantity(spread: Spread) -> Quantity | None:
    mean = spread.mean
    return None if mean is None else Quantity(mean=mean, worst=spread.worst)
