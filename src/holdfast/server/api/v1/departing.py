"""A stop or a restart of the gateway itself, asked for over HTTP."""

from aiohttp import web

from holdfast.core.errors import RestartRefused
from holdfast.core.turns.stop import StopKind, StopOrder, StopRequester
from holdfast.server.api.endpoint import ApiCall, NoQuery
from holdfast.server.api.errors import conflict
from holdfast.server.api.room import ApiContext
from holdfast.server.api.views.departing_views import (
    RestartMode,
    RestartParams,
    StopAccepted,
    StopParams,
)


async def restart_gateway(
    context: ApiContext, call: ApiCall[NoQuery, RestartParams]
) -> web.Response:
    mode = call.body.mode
    order = _stop_order(context, StopKind.RESTART, now=mode is RestartMode.NOW)
    try:
        await context.lifecycle.restart(order, when_idle=mode is RestartMode.WHEN_IDLE)
    except RestartRefused as refused:
        raise conflict(str(refused), code="restart_refused") from None
    return context.respond(
        StopAccepted(kind=order.kind, when_idle=mode is RestartMode.WHEN_IDLE), status=202
    )


async def stop_gateway(context: ApiContext, call: ApiCall[NoQuery, StopParams]) -> web.Response:
    order = _stop_order(context, StopKind.STOP, now=call.body.now)
    context.lifecycle.stop(order)
    return context.respond(StopAccepted(kind=order.kind, when_idle=False), status=202)


def _stop_order(context: ApiContext, kind: StopKind, *, now: bool) -> StopOrder:
    return StopOrder(kind=kind, by=StopRequester.PAGE, at=context.clock.now(), now=now)
