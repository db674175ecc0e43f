"""A stop or a restart of the gateway itself, asked for over HTTP."""

from aiohttp import web

from holdfast.core.errors import RestartRefused
from holdfast.core.turns.stop import AskedBy, StopKind, StopOrder
from holdfast.server.api.endpoint import Call, NoQuery
from holdfast.server.api.errors import conflict
from holdfast.server.api.room import Room
from holdfast.server.api.views.departing_views import (
    Departing,
    RestartAsked,
    RestartMode,
    StopAsked,
)


async def restart_gateway(room: Room, call: Call[NoQuery, RestartAsked]) -> web.Response:
    mode = call.body.mode
    order = _order(room, StopKind.RESTART, now=mode is RestartMode.NOW)
    try:
        await room.lifecycle.restart(order, when_idle=mode is RestartMode.WHEN_IDLE)
    except RestartRefused as refused:
        raise conflict(str(refused), code="restart_refused") from None
    return room.say(Departing(kind=order.kind, waits=mode is RestartMode.WHEN_IDLE), status=202)


async def stop_gateway(room: Room, call: Call[NoQuery, StopAsked]) -> web.Response:
    order = _order(room, StopKind.STOP, now=call.body.now)
    room.lifecycle.stop(order)
    return room.say(Departing(kind=order.kind, waits=False), status=202)


def _order(room: Room, kind: StopKind, *, now: bool) -> StopOrder:
    return StopOrder(kind=kind, by=AskedBy.PAGE, at=room.clock.now(), now=now)
