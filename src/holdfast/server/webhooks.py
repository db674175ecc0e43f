"""Routes webhooks (`/hooks/…`) to the accounts that are configured when a request comes."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from aiohttp import web

from holdfast.core.ports.platform import HttpPlatform, Platform
from holdfast.platforms.api.http import bearer_token
from holdfast.server.auth.rate_limit import LoginRateLimiter, is_local, retry_after_header

PREFIX = "/hooks/"


class WebhookRoutes:
    """Finds the platform of each request: accounts come and go while the listener runs. Each
    route of a platform checks its own credentials.

    A route that is not under `/hooks/`, or that has a pattern, is mounted when the listener is
    made: a platform that comes later gets such requests only if an equal route was there then.
    """

    def __init__(
        self, platforms: Iterable[Platform], *, excluded: Platform, limiter: LoginRateLimiter
    ) -> None:
        """`excluded`: the platform whose routes are mounted separately."""
        self._platforms = platforms
        self._excluded = excluded
        self._limiter = limiter

    def routes(self) -> list[web.RouteDef]:
        mounted = [each for each in self._all_routes() if not _is_plain_hook(each)]
        return [
            *(
                web.route(each.method, each.path, partial(self._serve_mounted, each))
                for each in mounted
            ),
            web.route("*", f"{PREFIX}{{rest:.*}}", self._serve_hook),
        ]

    async def _serve_hook(self, request: web.Request) -> web.StreamResponse:
        candidates = [
            each
            for each in self._all_routes()
            if _is_plain_hook(each) and each.path == request.path
        ]
        return await self._serve(candidates, request)

    async def _serve_mounted(
        self, mounted: web.RouteDef, request: web.Request
    ) -> web.StreamResponse:
        candidates = [each for each in self._all_routes() if each.path == mounted.path]
        return await self._serve(candidates, request)

    async def _serve(
        self, candidates: Sequence[web.RouteDef], request: web.Request
    ) -> web.StreamResponse:
        if not candidates:
            raise web.HTTPNotFound
        for each in candidates:
            if each.method in (request.method, "*"):
                return await self._limited(each, request)
        raise web.HTTPMethodNotAllowed(request.method, [each.method for each in candidates])

    async def _limited(self, route: web.RouteDef, request: web.Request) -> web.StreamResponse:
        """Limit wrong bearer tokens like those of the API. A wrong signature is no guess at a
        secret, and is not counted: its sender may share the address of others."""
        token = bearer_token(request)
        if not token:
            return await route.handler(request)
        blocked = self._limiter.blocked_for(request.remote)
        if blocked and not is_local(request.remote):
            return web.Response(status=429, headers=retry_after_header(blocked))
        response = await route.handler(request)
        if response.status != web.HTTPUnauthorized.status_code:
            return response
        if blocked:
            return web.Response(status=429, headers=retry_after_header(blocked))
        self._limiter.record_failure(request.remote, token)
        return response

    def _all_routes(self) -> Iterator[web.RouteDef]:
        for platform in self._platforms:
            if platform is not self._excluded and isinstance(platform, HttpPlatform):
                yield from platform.routes()


def _is_plain_hook(route: web.RouteDef) -> bool:
    return route.path.startswith(PREFIX) and "{" not in route.path
