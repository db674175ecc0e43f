"""Charts over HTTP: what the gateway did and how it was, over the last hour or day."""

from typing import Literal

import msgspec
from aiohttp import web

from holdfast.core.ops.minute import MINUTE_SECONDS, DurationSum, MinuteStats, aggregate_minutes
from holdfast.core.turns.pricing import Prices, total_cost
from holdfast.core.turns.turn import NO_USAGE
from holdfast.server.api.endpoint import ApiCall
from holdfast.server.api.room import ApiContext
from holdfast.server.api.v1.chart_views import Chart, ChartPoint, DurationView
from holdfast.server.status.minutes import DAY

_HOUR = 60 * MINUTE_SECONDS
_SPANS = {"hour": (_HOUR, MINUTE_SECONDS), "day": (DAY, 15 * MINUTE_SECONDS)}


class ChartQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    span: Literal["hour", "day"] = "hour"


async def read_chart(context: ApiContext, call: ApiCall[ChartQuery, None]) -> web.Response:
    whole, per = _SPANS[call.query.span]
    now = context.clock.now()
    first = int(now) // per * per - whole + per
    prices = context.gateway.services.settings.prices
    minutes = aggregate_minutes(context.minute_history.since(first), per=per)
    points = [_chart_point(minute, prices) for minute in minutes]
    return context.respond(
        Chart(span=call.query.span, since=first, bucket_seconds=per, until=now, points=points)
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
