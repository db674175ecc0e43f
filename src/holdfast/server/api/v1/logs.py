"""The log over HTTP: its newest lines, a page back from there, and those that come."""

import asyncio
import json
import logging
from contextlib import suppress
from typing import Annotated, Any, Literal

import msgspec
from aiohttp import web

from holdfast.server.api.endpoint import Call
from holdfast.server.api.errors import bad
from holdfast.server.api.room import Room
from holdfast.server.api.v1.log_views import LogLineView, LogPage, MissedEvent
from holdfast.server.api.v1.streams import Write, stream
from holdfast.system.recent_log import KeptLine, LogReader, WantedLines

_AT_ONCE = 200  # lines of one write: what is encoded then holds the event loop up
_NAMED = frozenset({"time", "level", "logger", "message", "exception"})

Number = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Words = Annotated[str, msgspec.Meta(max_length=200)]


class LogFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`level`: this and what is worse. `session`: an id, or how it begins. `q`: words anywhere in
    the line."""

    level: Literal["debug", "info", "warning", "error"] = "debug"
    session: Words = ""
    q: Words = ""

    @property
    def wanted(self) -> WantedLines:
        level = logging.getLevelNamesMapping()[self.level.upper()]
        return WantedLines(level=level, session=self.session, words=self.q)


class LogQuery(LogFilter, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`before`: only what was written before the line of that number."""

    before: Number | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 200


class LogEventsQuery(LogFilter, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`after`: the number of the last line that is known; without it, only what comes from now on.
    A browser's `Last-Event-ID` goes before it."""

    after: Number | None = None


async def log_lines(room: Room, call: Call[LogQuery, None]) -> web.Response:
    asked = call.query
    # In a thread: two thousand lines are looked through, and may be as long as they like.
    page = await asyncio.to_thread(_page, room, asked)
    return room.say(page)


def _page(room: Room, asked: LogQuery) -> LogPage:
    newest = room.log.newest
    found = room.log.before(asked.before, asked.wanted, limit=asked.limit + 1)
    more = len(found) > asked.limit
    return LogPage(lines=[_view(line) for line in found[more:]], more=more, newest=newest)


async def log_events(room: Room, call: Call[LogEventsQuery, None]) -> web.StreamResponse:
    loop, feeds = asyncio.get_running_loop(), room.gateway.house.feeds
    after = _after(call.request, call.query.after)
    with feeds.attend() as attending, room.pulse.kept(attending):

        def news() -> None:
            # The log's thread may be about to call when the loop ends, and its readers with it.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(attending.wake.set)

        start = room.log.newest if after is None else after
        with room.log.read(call.query.wanted, after=start, news=news) as reader:
            attending.wake.set()  # what came between that line and now
            return await stream(call.request, attending, lambda write: _tell(room, reader, write))


async def _tell(room: Room, reader: LogReader, write: Write) -> None:
    """All there is. A client that takes its time holds up nobody but itself."""
    reader.told = True
    while reader.told:
        known = reader.after
        found, missed = reader.take(limit=_AT_ONCE)
        said = [_event(b"missed", room.encode(MissedEvent(after=known)))] if missed else []
        said += [b"id: %d\n" % line.number + _line(room, line) for line in found]
        if said:
            await write(b"".join(said))


def _line(room: Room, line: KeptLine) -> bytes:
    return _event(b"line", room.encode(_view(line)))


def _event(name: bytes, data: bytes) -> bytes:
    return b"event: " + name + b"\ndata: " + data + b"\n\n"


def _view(line: KeptLine) -> LogLineView:
    fields: dict[str, Any] = json.loads(line.text)
    return LogLineView(
        number=line.number,
        time=fields["time"],
        level=fields["level"],
        logger=fields["logger"],
        message=fields["message"],
        exception=fields.get("exception", ""),
        fields={name: value for name, value in fields.items() if name not in _NAMED},
    )


def _after(request: web.Request, after: int | None) -> int | None:
    given = request.headers.get("Last-Event-ID")
    if not given:
        return after
    if not (given.isascii() and given.isdigit() and len(given) < 17):
        raise bad("Last-Event-ID must be the number of a line.", param="Last-Event-ID")
    return int(given)
