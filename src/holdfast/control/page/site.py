"""The page's files over HTTP: read once, sent with their type and a tag, never guessed at."""

import asyncio
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from aiohttp import hdrs, web

STATIC = Path(__file__).parent / "static"
_PAGE = ""  # the name of the page itself, which has no other address than /

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


class Site:
    """Owns the files of the page, from when somebody first asks for one.

    All are read at that instant, and in a thread: what a browser gets is of one version, even
    where a package is replaced under a gateway that runs, and a start neither reads them nor
    mounts each by itself.
    """

    def __init__(self, folder: Path = STATIC) -> None:
        self._folder = folder
        self._opening = asyncio.Lock()
        self._files: Mapping[str, PageFile] | None = None

    async def index(self, request: web.Request) -> web.Response:
        return await self._serve(_PAGE, request)

    async def file(self, request: web.Request) -> web.Response:
        return await self._serve(request.match_info["name"], request)

    async def _serve(self, name: str, request: web.Request) -> web.Response:
        file = (self._files or await self._opened()).get(name)
        if file is None:
            raise web.HTTPNotFound
        return await file.serve(request)

    async def _opened(self) -> Mapping[str, PageFile]:
        async with self._opening:
            if self._files is None:
                self._files = await asyncio.to_thread(lambda: dict(_read(self._folder)))
            return self._files


def routes() -> list[web.RouteDef]:
    """`/` is the page, `/page/…` what it loads. They need no login: the API does."""
    site = Site()
    return [web.get("/", site.index), web.get("/page/{name:.+}", site.file)]


def _read(folder: Path) -> Iterator[tuple[str, PageFile]]:
    for path in folder.rglob("*"):
        if path.suffix in _TYPES:
            name = path.relative_to(folder).as_posix()
            yield _PAGE if name == "index.html" else name, PageFile(path)
