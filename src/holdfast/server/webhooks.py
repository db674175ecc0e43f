"""Routes the webhooks of platforms (`/hooks/…`) to the accounts that are configured when they come."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from aiohttp import web

from holdfast.core.ports.platform import HttpPlatform, Platform

PREFIX = "/hooks/"


class WebhookRoutes:
    """Knows the doors, and asks them for each post: accounts come and go while the listener
    stands. Each of their routes checks its own credentials.

    What a door wants elsewhere than under `/hooks/`, or by a pattern, is mounted when the listener
    is made: a door that comes later can be posted to only where one like it was then.
    """

    def __init__(self, platforms: Iterable[Platform], *, excluded: Platform) -> None:
        """`but`: who has its routes mounted by itself."""
        self._platforms = platforms
        self._excluded = excluded

    def routes(self) -> list[web.RouteDef]:
        apart = [each for each in self._all_routes() if not _is_plain_hook(each)]
        return [
            *(
                web.route(each.method, each.path, partial(self._serve_mounted, each))
                for each in apart
            ),
            web.route("*", f"{PREFIX}{{rest:.*}}", self._serve_hook),
        ]

    async def _serve_hook(self, request: web.Request) -> web.StreamResponse:
        here = [
            each
            for each in self._all_routes()
            if _is_plain_hook(each) and each.path == request.path
        ]
        return await self._serve(here, request)

    async def _serve_mounted(
        self, mounted: web.RouteDef, request: web.Request
    ) -> web.StreamResponse:
        here = [each for each in self._all_routes() if each.path == mounted.path]
        return await self._serve(here, request)

    async def _serve(
        self, candidates: Sequence[web.RouteDef], request: web.Request
    ) -> web.StreamResponse:
        if not candidates:
            raise web.HTTPNotFound
        for each in candidates:
            if each.method in (request.method, "*"):
                return await each.handler(request)
        raise web.HTTPMethodNotAllowed(request.method, [each.method for each in candidates])

    def _all_routes(self) -> Iterator[web.RouteDef]:
        for door in self._platforms:
            if door is not self._excluded and isinstance(door, HttpPlatform):
                yield from door.routes()


def _is_plain_hook(route: web.RouteDef) -> bool:
    return route.path.startswith(PREFIX) and "{" not in route.path
