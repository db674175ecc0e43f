"""Mounts `/api/v1` as one route; the endpoints are imported by the first request, in a thread."""

import asyncio
from typing import TYPE_CHECKING

from aiohttp import web

from holdfast.server.api.context import ApiContext

if TYPE_CHECKING:
    from holdfast.server.api.router import ApiRouter

PREFIX = "/api/v1"


def routes(context: ApiContext) -> list[web.RouteDef]:
    return [web.route("*", f"{PREFIX}/{{rest:[\\s\\S]*}}", LazyRouter(context).serve)]


class LazyRouter:
    """Owns the router from the first request on.

    Importing every endpoint would take a good part of each start, also of gateways whose API is
    not used for weeks. The first request waits for it instead; the event loop does not, because
    the import runs in a thread.
    """

    def __init__(self, context: ApiContext) -> None:
        self._context = context
        self._loading = asyncio.Lock()
        self._router: ApiRouter | None = None

    async def serve(self, request: web.Request) -> web.StreamResponse:
        router = self._router or await self._load()
        return await router.serve(request)

    async def _load(self) -> "ApiRouter":
        async with self._loading:
            if self._router is None:
                make = await asyncio.to_thread(_import_router)
                self._router = make(self._context)
            return self._router


def _import_router() -> "type[ApiRouter]":
    from holdfast.server.api.router import ApiRouter  # noqa: PLC0415 - see `LazyRouter`

    return ApiRouter
