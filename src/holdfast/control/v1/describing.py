"""The endpoint that serves the OpenAPI document."""

from aiohttp import web

from holdfast.control.v1.endpoint import Call, NoQuery
from holdfast.control.v1.room import Room


async def describe(room: Room, call: Call[NoQuery, None]) -> web.Response:
    # The document is made of the table, which names this very function.
    from holdfast.control.v1.openapi import document  # noqa: PLC0415 - and made when asked for
    from holdfast.control.v1.table import ENDPOINTS  # noqa: PLC0415 - see above

    return room.say(document(ENDPOINTS))
