"""The log over HTTP: the newest lines, earlier pages, and new lines as server-sent events."""

import asyncio
import json
import logging
from contextlib import suppress
from typing import Annotated, Any, Literal

import msgspec
from aiohttp import web

from holdfast.server.api.context import ApiContext
from holdfast.server.api.endpoint import ApiCall, Endpoint, Media
from holdfast.server.api.errors import bad_request
from holdfast.server.api.v1.streams import Write, sse_event, stream
from holdfast.system.logs import LogSubscription, RecentLogFilter, RecentLogLine


class LogLineView(msgspec.Struct, frozen=True, kw_only=True):
    """`number` grows from line to line, over restarts, too. `fields`: whatever else the line says,
    as `action` and `session`."""

    number: int
    time: str
    level: str
    logger: str
    message: str
    exception: str = ""
    fields: dict[str, Any] = {}


class LogPage(msgspec.Struct, frozen=True, kw_only=True):
    """The oldest line first. `more`: there are earlier ones, to be asked for with `before` and the
    number of the first. `newest`: of all lines, to follow the log from with `after`."""

    lines: list[LogLineView]
    more: bool
    newest: int


class LogGapEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Lines after that number are no longer in memory; the log file has them."""

    after: int


_LINES_PER_WRITE = 200  # lines of one write; encoding them blocks the event loop
_OWN_FIELDS = frozenset({"time", "level", "logger", "message", "exception"})

Number = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
ShortText = Annotated[str, msgspec.Meta(max_length=200)]


class LogCriteria(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`level`: this and what is worse. `session`: an id, or how it begins. `q`: words anywhere in
    the line."""

    level: Literal["debug", "info", "warning", "error"] = "debug"
    session: ShortText = ""
    q: ShortText = ""

    @property
    def as_line_filter(self) -> RecentLogFilter:
        level = logging.getLevelNamesMapping()[self.level.upper()]
        return RecentLogFilter(level=level, session=self.session, text=self.q)


class LogQuery(LogCriteria, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`before`: only what was written before the line of that number."""

    before: Number | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 200


class LogEventsQuery(LogCriteria, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`after`: the number of the last line that is known; without it, only what comes from now on.
    A browser's `Last-Event-ID` goes before it."""

    after: Number | None = None


async def read_log(context: ApiContext, call: ApiCall[LogQuery, None]) -> web.Response:
    asked = call.query
    # In a thread: two thousand lines of any length are searched.
    page = await asyncio.to_thread(_read_page, context, asked)
    return context.respond(page)


def _read_page(context: ApiContext, asked: LogQuery) -> LogPage:
    newest = context.status.recent_log.newest
    found = context.status.recent_log.before(
        asked.before, asked.as_line_filter, limit=asked.limit + 1
    )
    more = len(found) > asked.limit
    return LogPage(lines=[_view(line) for line in found[more:]], more=more, newest=newest)


async def stream_log(
    context: ApiContext, call: ApiCall[LogEventsQuery, None]
) -> web.StreamResponse:
    loop, feeds = asyncio.get_running_loop(), context.gateway.feeds
    after = _start_after(call.request, call.query.after)
    with feeds.listen_for_shutdown() as listener, context.keepalive.track(listener):

        def on_lines() -> None:
            # The logging thread may call this while the loop closes.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(listener.wake.set)

        start = context.status.recent_log.newest if after is None else after
        with context.status.recent_log.subscribe(
            call.query.as_line_filter, after=start, on_lines=on_lines
        ) as reader:
            listener.wake.set()  # lines between that one and now
            return await stream(
                call.request, listener, lambda write: _write_lines(context, reader, write)
            )


async def _write_lines(context: ApiContext, reader: LogSubscription, write: Write) -> None:
    """Write all lines there are. A slow client delays only itself."""
    reader.notified = True
    while reader.notified:
        known = reader.after
        found, missed = reader.take(limit=_LINES_PER_WRITE)
        events = [sse_event(b"missed", context.encode(LogGapEvent(after=known)))] if missed else []
        events += [b"id: %d\n" % line.number + _line_event(context, line) for line in found]
        if events:
            await write(b"".join(events))


def _line_event(context: ApiContext, line: RecentLogLine) -> bytes:
    return sse_event(b"line", context.encode(_view(line)))


def _view(line: RecentLogLine) -> LogLineView:
    fields: dict[str, Any] = json.loads(line.text)
    return LogLineView(
        number=line.number,
        time=fields["time"],
        level=fields["level"],
        logger=fields["logger"],
        message=fields["message"],
        exception=fields.get("exception", ""),
        fields={name: value for name, value in fields.items() if name not in _OWN_FIELDS},
    )


def _start_after(request: web.Request, after: int | None) -> int | None:
    given = request.headers.get("Last-Event-ID")
    if not given:
        return after
    if not (given.isascii() and given.isdigit() and len(given) < 17):
        raise bad_request("Last-Event-ID: must be the number of a line.", param="Last-Event-ID")
    return int(given)


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/logs",
        summary="The newest lines of the log, or those before a line.",
        handler=read_log,
        read_only=True,
        query=LogQuery,
        response_type=LogPage,
    ),
    Endpoint(
        method="GET",
        path="/logs/events",
        summary="The lines of the log as they are written, as server-sent events.",
        handler=stream_log,
        read_only=True,
        query=LogEventsQuery,
        response_type=str,
        response_media=(Media.EVENTS,),
    ),
)
