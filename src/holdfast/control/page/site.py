"""The page's files over HTTP: read once, sent with their type and a tag, never guessed at."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from aiohttp import hdrs, web

STATIC = Path(__file__).parent / "static"

# Named here and not asked of the system, whose own table differs from machine to machine; a
# file of another kind is not part of the page.
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
}


class PageFile:
    """One file of the page, held in memory with the tag by which a browser knows it again."""

    def __init__(self, path: Path) -> None:
        self._body = path.read_bytes()
        self._tag = hashlib.sha256(self._body).hexdigest()[:24]
        self._type = _TYPES[path.suffix]

    async def serve(self, request: web.Request) -> web.Response:
        """The file, or 304 for a browser that has this very version."""
        known = request.if_none_match or ()
        if any(tag.value in (self._tag, "*") for tag in known):
            return web.Response(status=304, headers=self._headers())
        headers = self._headers() | {hdrs.CONTENT_TYPE: self._type}
        return web.Response(body=self._body, headers=headers)

    def _headers(self) -> dict[str, str]:
        # no-cache is "ask each time": after an upgrade no page mixes two versions.
        return {hdrs.ETAG: f'"{self._tag}"', hdrs.CACHE_CONTROL: "no-cache"}


def routes() -> list[web.RouteDef]:
    """`/` is the page, `/page/…` what it loads. They need no login: the API does."""
    return [web.get("/", PageFile(STATIC / "index.html").serve), *_files()]


def _files() -> Iterator[web.RouteDef]:
    for path in sorted(STATIC.rglob("*")):
        if path.suffix in _TYPES and path.name != "index.html":
            name = path.relative_to(STATIC).as_posix()
            yield web.get(f"/page/{name}", PageFile(path).serve)
