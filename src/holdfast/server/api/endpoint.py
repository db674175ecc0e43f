"""An endpoint: one line of the API's table, which mounts it, checks it and describes it."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

import msgspec
from aiohttp import web

from holdfast.core.errors import IntakeClosed, NotAllowed, RunnerError, StoreError
from holdfast.core.people.audit import AuditKind
from holdfast.server.api.errors import Refused, bad, not_found
from holdfast.server.api.room import Room
from holdfast.server.auth.login import from_own_page
from holdfast.server.auth.visitor import Visitor, VisitorRole

_LARGE = 256 * 1024  # a body that takes longer to read than the event loop should be held up
_LONGEST_SUBJECT = 200  # characters of a path that the audit has
_NAME = re.compile(r"[A-Za-z0-9._:-]{1,200}", re.ASCII)
_PLACE = re.compile(r" - at `\$\.?([^`]*)`$")

Q = TypeVar("Q")
B = TypeVar("B")


class Media(StrEnum):
    JSON = "application/json"
    LINES = "application/x-ndjson"
    CSV = "text/csv"
    EVENTS = "text/event-stream"
    FILE = "application/octet-stream"


class NoQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """For what takes no parameters: a misspelt one is told, not ignored."""


@dataclass(frozen=True, slots=True)
class Call(Generic[Q, B]):
    """A request that was let in, with what it asks for read and checked."""

    request: web.Request
    parts: Mapping[str, str]  # of the path, by the names that the table gives them
    visitor: Visitor
    query: Q
    body: B

    def part(self, name: str) -> str:
        """A part of the path. What cannot be a name of ours names nothing."""
        value = self.parts[name]
        if not _NAME.fullmatch(value):
            raise not_found(f"there is no {value!r} here.")
        return value


Handler = Callable[[Room, Call[Any, Any]], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """`gives` None: no body. `statuses`: those besides errors that every endpoint can give.

    `looks`: it changes nothing, and a viewer may use it. One that does not say is the owner's
    alone, and a test asks for the word.
    """

    method: str
    path: str
    about: str
    handler: Handler
    looks: bool | None = None
    query: type[msgspec.Struct] = NoQuery
    takes: Any = None
    takes_media: Media = Media.JSON
    gives: Any = None
    gives_media: tuple[Media, ...] = (Media.JSON,)
    statuses: tuple[int, ...] = (200,)
    refuses: tuple[int, ...] = ()

    async def serve(
        self, room: Room, request: web.Request, parts: Mapping[str, str]
    ) -> web.StreamResponse:
        async def answer(visitor: Visitor) -> web.StreamResponse:
            return await self._answer(room, request, parts, visitor)

        return await guarded(room, request, answer, looks=self.looks is True)

    async def _answer(
        self, room: Room, request: web.Request, parts: Mapping[str, str], visitor: Visitor
    ) -> web.StreamResponse:
        if not room.ready():
            raise Refused(503, "the gateway is starting or stopping; try again.", code="not_ready")
        query = _query(request, self.query)
        reads = self.takes is not None and self.takes_media is Media.JSON
        body = await _body(request, self.takes) if reads else None
        return await self.handler(room, Call(request, parts, visitor, query, body))


async def guarded(
    room: Room,
    request: web.Request,
    serve: Callable[[Visitor], Awaitable[web.StreamResponse]],
    *,
    looks: bool,
) -> web.StreamResponse:
    """Let the request in, or say why not; and say what went wrong where something does."""
    try:
        visitor = authenticate(room, request)
        if not looks:
            await _only_for_the_owner(room, request, visitor)
        with room.login.viewers.here(visitor, lambda: _hang_up(request)):
            return await serve(visitor)
    except Refused as refused:
        return refused.reply()
    except web.HTTPRequestEntityTooLarge:
        text = f"the request is larger than {request.client_max_size:,} bytes."
        return Refused(413, text, code="too_large").reply()
    except NotAllowed as error:
        return Refused(403, str(error), code="not_allowed").reply()
    except IntakeClosed as error:
        return Refused(503, str(error), code="not_accepted").reply()
    except StoreError as error:
        return Refused(503, f"the store failed: {error}", code="store").reply()
    except RunnerError as error:
        return Refused(502, str(error), code="workbench").reply()


def authenticate(room: Room, request: web.Request) -> Visitor:
    visitor = room.login.bearer(request)
    if visitor is not None:
        return visitor
    visitor = room.login.knows(request)
    if visitor is None:
        raise Refused(
            401,
            "this needs the gateway's token as `Authorization: Bearer …` (`holdfast token` prints "
            "it), or a login (`holdfast link` prints a link).",
            code="unauthorised",
        )
    if not from_own_page(request):
        raise Refused(
            403,
            "with the login cookie this must come from the gateway's own page: Origin and Host "
            "differ.",
            code="foreign_origin",
        )
    return visitor


async def _only_for_the_owner(room: Room, request: web.Request, visitor: Visitor) -> None:
    """Whoever else tries is refused, and the owner can see that they did."""
    if visitor.role is VisitorRole.OWNER:
        return
    await room.gateway.denials.note(
        AuditKind.REQUEST_REFUSED,
        f"{visitor.role}:{visitor.name}",
        place="http",
        subject=f"{request.method} {request.path}"[:_LONGEST_SUBJECT],
    )
    raise Refused(
        403,
        f"this needs the role {VisitorRole.OWNER}, and {visitor.name!r} has the role "
        f"{visitor.role}, which sees everything and changes nothing.",
        code="role",
    )


def _hang_up(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.close()


def _query(request: web.Request, kind: type[msgspec.Struct]) -> Any:
    given = dict(request.query)
    for name, value in given.items():
        if "\0" in value or not _is_text(value):
            raise bad(f"{name}: this is no text.", param=name)
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _invalid(error) from None


async def _body(request: web.Request, kind: Any) -> Any:
    body = await request.read()
    decode = msgspec.json.Decoder(kind).decode
    try:
        return decode(body) if len(body) < _LARGE else await asyncio.to_thread(decode, body)
    except msgspec.ValidationError as error:
        raise _invalid(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad(f"the body is not the JSON that is wanted here: {error}") from None


def _invalid(error: msgspec.ValidationError) -> Refused:
    text = str(error)
    place = _PLACE.search(text)
    if place is None or not place[1]:
        return bad(f"{text}.")
    return bad(f"{place[1]}: {text[: place.start()]}.", param=place[1])


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
