"""Hooks: what platforms are posted to, by whoever stands at the door when the post comes."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from aiohttp import web

from holdfast.core.ports.protocols import HttpPlatform, Platform

PREFIX = "/hooks/"


class Hooks:
    """Knows the doors, and asks them for each post: accounts come and go while the listener
    stands. Each of their routes checks its own credentials.

    What a door wants elsewhere than under `/hooks/`, or by a pattern, is mounted when the listener
    is made: a door that comes later can be posted to only where one like it was then.
    """

    def __init__(self, doors: Iterable[Platform], *, but: Platform) -> None:
        """`but`: who has its routes mounted by itself."""
        self._doors = doors
        self._but = but

    def routes(self) -> list[web.RouteDef]:
        apart = [each for each in self._every() if not _plain(each)]
        return [
            *(web.route(each.method, each.path, partial(self._apart, each)) for each in apart),
            web.route("*", f"{PREFIX}{{rest:.*}}", self._posted),
        ]

    async def _posted(self, request: web.Request) -> web.StreamResponse:
        here = [each for each in self._every() if _plain(each) and each.path == request.path]
        return await self._serve(here, request)

    async def _apart(self, mounted: web.RouteDef, request: web.Request) -> web.StreamResponse:
        here = [each for each in self._every() if each.path == mounted.path]
        return await self._serve(here, request)

    async def _serve(
        self, here: Sequence[web.RouteDef], request: web.Request
    ) -> web.StreamResponse:
        if not here:
            raise web.HTTPNotFound
        for each in here:
            if each.method in (request.method, "*"):
                return await each.handler(request)
        raise web.HTTPMethodNotAllowed(request.method, [each.method for each in here])

    def _every(self) -> Iterator[web.RouteDef]:
        for door in self._doors:
            if door is not self._but and isinstance(door, HttpPlatform):
                yield from door.routes()


def _plain(route: web.RouteDef) -> bool:
    return route.path.startswith(PREFIX) and "{" not in route.path
