"""Server-sent events: a session as it lives, and which sessions change."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import msgspec
from aiohttp import web

from holdfast.core.errors import StoreError
from holdfast.core.ids import SessionId
from holdfast.core.messages.events import (
    Event,
    MessageEnded,
    ReasoningStreamed,
    StreamVoided,
    TextStreamed,
    ToolProgressed,
)
from holdfast.core.messages.message import Record
from holdfast.core.ops.account import AccountState
from holdfast.core.turns.subagent import HOUSE
from holdfast.core.turns.turn import LaneState
from holdfast.gateway.live.feeds import Changes, Feed
from holdfast.server.api.endpoint import Call, Media, NoQuery
from holdfast.server.api.errors import bad
from holdfast.server.api.pulse import Reader
from holdfast.server.api.room import Room
from holdfast.server.api.v1.live import live_of
from holdfast.server.api.v1.transcripts import PAGE
from holdfast.server.api.views.event_views import (
    DeletedEvent,
    EndedEvent,
    GatewayEvent,
    TextEvent,
    ToolEvent,
    VoidEvent,
)
from holdfast.server.api.views.session_views import record_view
from holdfast.server.status.problems import refusal_of

log = logging.getLogger(__name__)

PATIENCE = 120.0  # seconds for which a client may take nothing of what is sent
_HEADERS = {
    "Content-Type": f"{Media.EVENTS}; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # nginx would hold pieces back
}
_COME_BACK = b"retry: 1000\n\n"
_STILL_HERE = b": still here\n\n"

Write = Callable[[bytes], Awaitable[None]]
_encode = msgspec.json.Encoder().encode


class EventsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`after`: the last seq that is known already; a browser's `Last-Event-ID` goes before it."""

    after: Annotated[int, msgspec.Meta(ge=0, le=2**62)] = 0


async def session_events(room: Room, call: Call[EventsQuery, None]) -> web.StreamResponse:
    row = await room.session(call.part("id"))
    story = Story(room, row.id, after=_last_event(call.request, call.query.after))
    feeds = room.gateway.house.feeds
    with feeds.read(row.id) as feed, room.pulse.kept(feed):
        # Everything is news to who has just come, and is told in this order.
        feed.committed = feed.changed = True
        feed.look_again()
        feed.wake.set()
        return await stream(call.request, feed, lambda write: story.tell(feed, write))


async def all_events(room: Room, call: Call[NoQuery, None]) -> web.StreamResponse:
    with room.gateway.house.feeds.read_changes() as changes, room.pulse.kept(changes):
        return await stream(call.request, changes, lambda write: _tell(room, changes, write))


async def stream(
    request: web.Request,
    reader: Reader,
    tell: Callable[[Write], Awaitable[None]],
) -> web.StreamResponse:
    """Tell the reader's news whenever there are any, until it leaves or is let go."""
    response = web.StreamResponse(headers=_HEADERS)

    async def write(data: bytes) -> None:
        async with asyncio.timeout(PATIENCE):
            await response.write(data)

    with _broken_off(request):
        await response.prepare(request)
        await write(_COME_BACK)
        while not reader.closed:
            await reader.wake.wait()
            reader.wake.clear()
            await tell(write)
            if reader.breathe:
                reader.breathe = False
                await write(_STILL_HERE)
        await response.write_eof()
    return response


@contextmanager
def _broken_off(request: web.Request) -> Iterator[None]:
    """A stream that cannot go on breaks off: too late for a status, and it is asked for again
    from where it was."""
    try:
        yield
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
    except ConnectionError:
        pass  # whoever was there has left
    except StoreError as error:
        log.warning("A stream ended: %s", error, extra={"action": "stream_ended"})
        if request.transport is not None:
            request.transport.close()


class Story:
    """How far one reader of a session has been told its records."""

    def __init__(self, room: Room, session_id: SessionId, *, after: int) -> None:
        self._room = room
        self._session_id = session_id
        self._seq = after

    async def tell(self, feed: Feed, write: Write) -> None:
        """Records, then what is live, then ends: an end is told after its records."""
        if feed.committed:
            await self._catch_up(feed, write)
        # No await from here to the write: what is live is read as of the records just told.
        said = [*self._live(feed), *map(_ended, feed.ends)]
        feed.ends.clear()
        if said:
            await write(b"".join(said))
        if feed.changed:
            feed.changed = False
            row = await self._room.shared.session(self._session_id)
            if row is not None:  # it may have been deleted in this moment
                await write(_event(b"session", self._room.encode(self._room.view_of(row))))

    async def _catch_up(self, feed: Feed, write: Write) -> None:
        while feed.committed:
            feed.committed = False
            while records := await self._records():
                self._seq = records[-1].seq
                encode = self._room.encode
                lines = (_record(r.seq, encode(record_view(r))) for r in records)
                await write(b"".join(lines))
                if len(records) < PAGE:
                    break
        feed.look_again()

    def _live(self, feed: Feed) -> list[bytes]:
        if feed.stale:
            feed.take_pieces()
            feed.stale = False
            live = self._room.encode(live_of(self._room, self._session_id))
            return [_event(b"live", live)]
        return [_piece(piece) for piece in feed.take_pieces()] if feed.pieces else []

    async def _records(self) -> list[Record]:
        return await self._room.store.records(self._session_id, limit=PAGE, after=self._seq)


async def _tell(room: Room, changes: Changes, write: Write) -> None:
    gone, changes.deleted = changes.deleted, []
    changed, changes.sessions = changes.sessions, set()
    said = [_event(b"deleted", _encode(DeletedEvent(id=session_id))) for session_id in gone]
    if changes.gateway:
        changes.gateway = False
        said.append(_event(b"gateway", _encode(_gateway(room))))
    if changes.audit:
        changes.audit = False
        said.append(_event(b"audit", b"{}"))
    for session_id in changed:
        row = await room.shared.session(session_id)
        if row is None or row.route.startswith(f"{HOUSE}:"):
            continue  # not in the log yet, or not any more; or a child, which nobody lists
        said.append(_event(b"session", room.encode(room.view_of(row))))
    if said:
        await write(b"".join(said))


def _gateway(room: Room) -> GatewayEvent:
    now = room.now()
    return GatewayEvent(
        state=now.state,
        phase=now.phase,
        turns=now.turns.get(LaneState.RUNNING, 0),
        pending=now.pending is not None,
        refused=tuple(
            refusal_of(each) for each in now.platforms if each.state is AccountState.PARKED
        ),
    )


def _piece(piece: Event) -> bytes:
    match piece:
        case TextStreamed():
            return _event(b"text", _encode(TextEvent(text=piece.text)))
        case ReasoningStreamed():
            return _event(b"reasoning", _encode(TextEvent(text=piece.text)))
        case ToolProgressed():
            return _event(b"tool", _encode(ToolEvent(call_id=piece.call_id, text=piece.text)))
        case StreamVoided():
            return _event(b"void", _encode(VoidEvent(why=piece.why)))
    raise AssertionError(f"{piece} is no piece of a step")


def _ended(ended: MessageEnded) -> bytes:
    view = EndedEvent(id=ended.inbox_id, state=ended.state, reason=ended.reason)
    return _event(b"ended", _encode(view))


def _event(name: bytes, data: bytes) -> bytes:
    return b"event: " + name + b"\ndata: " + data + b"\n\n"


def _record(seq: int, data: bytes) -> bytes:
    return b"id: %d\nevent: record\ndata: %b\n\n" % (seq, data)


def _last_event(request: web.Request, after: int) -> int:
    given = request.headers.get("Last-Event-ID")
    if not given:
        return after
    if not (given.isascii() and given.isdigit() and len(given) < 19):
        raise bad("Last-Event-ID must be the seq of a record.", param="Last-Event-ID")
    return int(given)
