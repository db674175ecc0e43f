"""The endpoint that serves the OpenAPI document."""

from aiohttp import web

from holdfast.server.api.endpoint import ApiCall, NoQuery
from holdfast.server.api.room import ApiContext


async def read_openapi(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    # The document is made of the table, which names this very function.
    from holdfast.server.api.openapi import build_document  # noqa: PLC0415 - and made when asked for
    from holdfast.server.api.table import ENDPOINTS  # noqa: PLC0415 - see above

    return context.respond(build_document(ENDPOINTS))
