"""Who asks: for a page that shows a viewer no buttons, and for whoever tries a token."""

import msgspec
from aiohttp import web

from holdfast.server.api.endpoint import Call, NoQuery
from holdfast.server.api.room import Room
from holdfast.server.auth.visitor import VisitorRole


class Whoami(msgspec.Struct, frozen=True, kw_only=True):
    """`name`: of a viewer's token; the owner's has none."""

    role: VisitorRole
    name: str


async def whoami(room: Room, call: Call[NoQuery, None]) -> web.Response:
    return room.say(Whoami(role=call.visitor.role, name=call.visitor.name))
