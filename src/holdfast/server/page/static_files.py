"""Serves the files of the page with their media type, an ETag and a versioned address."""

import asyncio
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from aiohttp import hdrs, web

STATIC_DIRECTORY = Path(__file__).parent / "static"
_INDEX = ""  # the name of the page itself, which has no other address than /

# Named here and not asked of the system, whose own table differs from machine to machine; a
# file of another kind is not part of the page.
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
}

# Before the name of a file in its address: all that the page loads is of the version it names, and
# a browser that has it does not ask again. Sixty questions are most of what it takes to open it.
_VERSION_MARK = "~"
_IMMUTABLE = "max-age=31536000, immutable"
_REVALIDATE = "no-cache"


class PageFile:
    """One file of the page, held in memory with the tag by which a browser knows it again."""

    def __init__(self, body: bytes, type: str) -> None:
        self._body = body
        self._type = type
        self.etag = hashlib.sha256(body).hexdigest()[:24]

    async def serve(self, request: web.Request, *, cache_control: str) -> web.Response:
        """The file, or 304 for a browser that has this very version."""
        headers = {hdrs.ETAG: f'"{self.etag}"', hdrs.CACHE_CONTROL: cache_control}
        known = request.if_none_match or ()
        if any(tag.value in (self.etag, "*") for tag in known):
            return web.Response(status=304, headers=headers)
        return web.Response(body=self._body, headers=headers | {hdrs.CONTENT_TYPE: self._type})

    def with_versioned_links(self, version: str) -> "PageFile":
        """The page, with what it loads under the address of that version."""
        body = self._body.replace(b'="/page/', f'="/page/{_VERSION_MARK}{version}/'.encode())
        return PageFile(body, self._type)


class PageBundle(NamedTuple):
    """The files of one version, by their names."""

    version: str
    files: Mapping[str, PageFile]


class StaticFiles:
    """Owns the files of the page, from when somebody first asks for one.

    All are read at that instant, and in a thread: what a browser gets is of one version, even
    where a package is replaced under a gateway that runs, and a start neither reads them nor
    mounts each by itself.
    """

    def __init__(self, folder: Path = STATIC_DIRECTORY) -> None:
        self._folder = folder
        self._loading = asyncio.Lock()
        self._bundle: PageBundle | None = None

    async def index(self, request: web.Request) -> web.Response:
        shelf = self._bundle or await self._load()
        return await shelf.files[_INDEX].serve(request, cache_control=_REVALIDATE)

    async def file(self, request: web.Request) -> web.Response:
        """Under another version than this one, which a page names that was open over an upgrade,
        it is what there is now."""
        shelf, name, version = self._bundle or await self._load(), request.match_info["name"], ""
        if name.startswith(_VERSION_MARK):
            version, _, name = name.removeprefix(_VERSION_MARK).partition("/")
        file = shelf.files.get(name) if name != _INDEX else None
        if file is None:
            raise web.HTTPNotFound
        lasts = version == shelf.version
        return await file.serve(request, cache_control=_IMMUTABLE if lasts else _REVALIDATE)

    async def _load(self) -> PageBundle:
        async with self._loading:
            if self._bundle is None:
                self._bundle = await asyncio.to_thread(_read_bundle, self._folder)
            return self._bundle


def routes() -> list[web.RouteDef]:
    """`/` is the page, `/page/…` what it loads. They need no login: the API does."""
    site = StaticFiles()
    return [web.get("/", site.index), web.get("/page/{name:.+}", site.file)]


def _read_bundle(folder: Path) -> PageBundle:
    files = {
        path.relative_to(folder).as_posix(): PageFile(path.read_bytes(), _TYPES[path.suffix])
        for path in sorted(folder.rglob("*"))
        if path.suffix in _TYPES
    }
    tags = "".join(f"{name}{file.etag}" for name, file in files.items())
    version = hashlib.sha256(tags.encode()).hexdigest()[:16]
    page = files.pop("index.html").with_versioned_links(version)
    return PageBundle(version, {_INDEX: page, **files})
