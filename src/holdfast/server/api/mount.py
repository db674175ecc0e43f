"""Mounting `/api/v1`: one route for all of it, and behind it the table, once somebody asks."""

import asyncio
from typing import TYPE_CHECKING

from aiohttp import web

from holdfast.server.api.room import Room

if TYPE_CHECKING:
    from holdfast.server.api.switchboard import Switchboard

PREFIX = "/api/v1"


def routes(room: Room) -> list[web.RouteDef]:
    return [web.route("*", f"{PREFIX}/{{rest:.*}}", Entrance(room).serve)]


class Entrance:
    """Owns the switchboard from the first request on.

    To import every endpoint and to mount it by itself would be a good part of each start, of
    gateways that nobody may look at for weeks. The first who asks waits for it instead, and
    nobody else does: it is imported in a thread.
    """

    def __init__(self, room: Room) -> None:
        self._room = room
        self._opening = asyncio.Lock()
        self._switchboard: Switchboard | None = None

    async def serve(self, request: web.Request) -> web.StreamResponse:
        switchboard = self._switchboard or await self._opened()
        return await switchboard.serve(request)

    async def _opened(self) -> "Switchboard":
        async with self._opening:
            if self._switchboard is None:
                make = await asyncio.to_thread(_switchboard_class)
                self._switchboard = make(self._room)
            return self._switchboard


def _switchboard_class() -> "type[Switchboard]":
    from holdfast.server.api.switchboard import Switchboard  # noqa: PLC0415 - see `Entrance`

    return Switchboard
