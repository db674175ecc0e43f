"""Serves the files of the page with their media type, an ETag and a versioned address.

The texts of the page are such a file, too: one for each language, chosen by the browser's.
"""

import asyncio
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
from aiohttp import hdrs, web

from holdfast.core.text.translation import current_language
from holdfast.system.languages import LOCALE_FOLDER

STATIC_DIRECTORY = Path(__file__).parent / "static"
_INDEX = ""  # the name of the page itself, which has no other address than /
_CATALOGUE = "catalogue.json"  # the name of its texts, of which there is a file for each language

# Named here, because the table of the system differs from machine to machine; a file of another
# kind is not part of the page.
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
}

# In front of the file name in an address: everything the page loads is of the version it names, so
# a browser caches it for good. Sixty revalidations are most of the time of opening the page.
_VERSION_MARK = "~"
_IMMUTABLE = "max-age=31536000, immutable"
_REVALIDATE = "no-cache"


class PageFile:
    """One file of the page, in memory, with its ETag."""

    def __init__(self, body: bytes, type: str) -> None:
        self._body = body
        self._type = type
        self.etag = hashlib.sha256(body).hexdigest()[:24]

    async def serve(self, request: web.Request, *, cache_control: str) -> web.Response:
        """The file, or 304 if the browser has this version."""
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
    """The files of one version, by their names, and the texts by their languages."""

    version: str
    files: Mapping[str, PageFile]
    catalogues: Mapping[str, PageFile]

    def find(self, name: str) -> PageFile | None:
        if name == _CATALOGUE:
            language = current_language()
            return self.catalogues.get(language) or _empty_catalogue(language)
        return self.files.get(name) if name != _INDEX else None


class StaticFiles:
    """Owns the files of the page, from the first request on.

    All are read at once, in a thread: a browser gets files of one version, even if the package is
    replaced under a running gateway, and a start neither reads nor mounts them.
    """

    def __init__(self, folder: Path = STATIC_DIRECTORY, locale: Path = LOCALE_FOLDER) -> None:
        self._folder = folder
        self._locale = locale
        self._loading = asyncio.Lock()
        self._bundle: PageBundle | None = None

    async def index(self, request: web.Request) -> web.Response:
        bundle = self._bundle or await self._load()
        return await bundle.files[_INDEX].serve(request, cache_control=_REVALIDATE)

    async def file(self, request: web.Request) -> web.Response:
        """An address of another version, named by a page that was open over an upgrade, gets the
        current file."""
        bundle, name, version = self._bundle or await self._load(), request.match_info["name"], ""
        if name.startswith(_VERSION_MARK):
            version, _, name = name.removeprefix(_VERSION_MARK).partition("/")
        file = bundle.find(name)
        if file is None:
            raise web.HTTPNotFound
        current = version == bundle.version
        cache_control = _IMMUTABLE if current else _REVALIDATE
        response = await file.serve(request, cache_control=cache_control)
        if name == _CATALOGUE:
            response.headers[hdrs.VARY] = hdrs.ACCEPT_LANGUAGE
        return response

    async def _load(self) -> PageBundle:
        async with self._loading:
            if self._bundle is None:
                self._bundle = await asyncio.to_thread(_read_bundle, self._folder, self._locale)
            return self._bundle


def routes(locale: Path = LOCALE_FOLDER) -> list[web.RouteDef]:
    """`/` is the page, `/page/…` what it loads. They need no login; the API does."""
    site = StaticFiles(locale=locale)
    return [web.get("/", site.index), web.get("/page/{name:.+}", site.file)]


def _read_bundle(folder: Path, locale: Path) -> PageBundle:
    files = {
        path.relative_to(folder).as_posix(): PageFile(path.read_bytes(), _TYPES[path.suffix])
        for path in sorted(folder.rglob("*"))
        if path.suffix in _TYPES
    }
    catalogues = {
        path.parent.name.replace("_", "-"): PageFile(path.read_bytes(), _TYPES[path.suffix])
        for path in sorted(locale.glob("*/page.json"))
    }
    tags = "".join(f"{name}{file.etag}" for name, file in (*files.items(), *catalogues.items()))
    version = hashlib.sha256(tags.encode()).hexdigest()[:16]
    page = files.pop("index.html").with_versioned_links(version)
    return PageBundle(version, {_INDEX: page, **files}, catalogues)


def _empty_catalogue(language: str) -> PageFile:
    """For English, which needs no translation, and for the pseudo-locale, which the page makes."""
    content = {"language": language, "plurals": "", "texts": {}}
    return PageFile(msgspec.json.encode(content), _TYPES[".json"])
