"""Files of a workspace over HTTP: listed and fetched, and never shown as a page of ours."""

import asyncio
import mimetypes
import os
from typing import Annotated
from urllib.parse import quote

import msgspec
from aiohttp import web

from holdfast.runner.workspace import NoSuchFile, Workspace
from holdfast.server.api.endpoint import ApiCall, Media
from holdfast.server.api.errors import not_found
from holdfast.server.api.room import ApiContext

_CHUNK_SIZE = 256 * 1024
_IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


class FileView(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    size: int
    modified_at: float


class FilesQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: Annotated[str, msgspec.Meta(max_length=500)] = ""


async def read_files(context: ApiContext, call: ApiCall[FilesQuery, None]) -> web.StreamResponse:
    row, path = await context.find_session(call.path_param("id")), call.query.path
    try:
        found = await asyncio.to_thread(Workspace(context.home, row.id).list_or_open, path)
    except NoSuchFile as error:
        if not path:
            return context.respond([])  # nothing was ever done in this session
        raise not_found(f"{error}.") from None
    if isinstance(found, int):
        return await _send_file(call.request, found, path)
    views = [FileView(path=e.path, size=e.size, modified_at=e.modified_at) for e in found]
    return context.respond(views)


async def _send_file(request: web.Request, fd: int, path: str) -> web.StreamResponse:
    """As much of the file as there was at the beginning; it may grow or shrink meanwhile."""
    with os.fdopen(fd, "rb") as file:
        left = os.fstat(fd).st_size
        response = web.StreamResponse(headers=_headers(path))
        response.content_length = left
        await response.prepare(request)
        while left and (piece := await asyncio.to_thread(file.read, min(left, _CHUNK_SIZE))):
            left -= len(piece)
            await response.write(piece)
        if left and request.transport is not None:
            request.transport.abort()  # shorter than was said: not to be taken for whole
            return response
        await response.write_eof()
    return response


def _headers(path: str) -> dict[str, str]:
    # An agent may have written anything: saved, not opened, and without rights if opened.
    name = quote(path.rpartition("/")[2], safe="", errors="replace")
    return {
        "Content-Type": _content_type(path),
        "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
        "Content-Security-Policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
        "Cache-Control": "no-store",
    }


def _content_type(path: str) -> str:
    guessed = mimetypes.guess_type(path)[0] or ""
    if guessed in _IMAGE_TYPES:
        return guessed
    return "text/plain; charset=utf-8" if guessed.startswith("text/") else Media.FILE
