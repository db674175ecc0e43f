"""Who asks: for a page that shows a viewer no buttons, and for whoever tries a token."""

import msgspec
from aiohttp import web

from holdfast.server.api.endpoint import ApiCall, NoQuery
from holdfast.server.api.room import ApiContext
from holdfast.server.auth.visitor import HttpRole


class WhoamiView(msgspec.Struct, frozen=True, kw_only=True):
    """`name`: of a viewer's token; the owner's has none."""

    role: HttpRole
    name: str


async def whoami(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    return context.respond(WhoamiView(role=call.principal.role, name=call.principal.name))
