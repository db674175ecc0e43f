"""The endpoint that serves the OpenAPI document."""

from aiohttp import web

from holdfast.server.api.endpoint import Call, NoQuery
from holdfast.server.api.room import Room


async def describe(room: Room, call: Call[NoQuery, None]) -> web.Response:
    # The document is made of the table, which names this very function.
    from holdfast.server.api.openapi import document  # noqa: PLC0415 - and made when asked for
    from holdfast.server.api.table import ENDPOINTS  # noqa: PLC0415 - see above

    return room.say(document(ENDPOINTS))
