"""Mounts `/api/v1` as one route; the endpoints are imported by the first request, in a thread."""

import asyncio
from typing import TYPE_CHECKING

from aiohttp import web

from holdfast.server.api.context import ApiContext

if TYPE_CHECKING:
    from holdfast.server.api.router import ApiRouter

PREFIX = "/api/v1"


def routes(context: ApiContext) -> list[web.RouteDef]:
    return [web.route("*", f"{PREFIX}/{{rest:.*}}", LazyRouter(context).serve)]


class LazyRouter:
    """Owns the switchboard from the first request on.

    To import every endpoint and to mount it by itself would be a good part of each start, of
    gateways that nobody may look at for weeks. The first who asks waits for it instead, and
    nobody else does: it is imported in a thread.
    """

    def __init__(self, context: ApiContext) -> None:
        self._context = context
        self._loading = asyncio.Lock()
        self._router: ApiRouter | None = None

    async def serve(self, request: web.Request) -> web.StreamResponse:
        switchboard = self._router or await self._load()
        return await switchboard.serve(request)

    async def _load(self) -> "ApiRouter":
        async with self._loading:
            if self._router is None:
                make = await asyncio.to_thread(_import_router)
                self._router = make(self._context)
            return self._router


def _import_router() -> "type[ApiRouter]":
    from holdfast.server.api.router import ApiRouter  # noqa: PLC0415 - see `LazyRouter`

    return ApiRouter
