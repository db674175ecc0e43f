"""Server-sent events: one session with its live turn, and the changes of all sessions."""

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
    MessageEnded,
    ReasoningStreamed,
    RetryScheduled,
    StreamVoided,
    TextStreamed,
    ToolProgressed,
    TurnEvent,
)
from holdfast.core.messages.transcript import TranscriptRecord
from holdfast.core.ops.account import AccountState
from holdfast.core.turns.subagent import INTERNAL_PLATFORM
from holdfast.core.turns.turn_state import LaneState
from holdfast.gateway.live.feeds import GatewayChanges, News, PieceState, SessionFeed, Subscription
from holdfast.gateway.turns.lane import Lane
from holdfast.server.api.context import ApiContext
from holdfast.server.api.endpoint import ApiCall, Endpoint, Media, NoQuery, Reach
from holdfast.server.api.errors import bad_request
from holdfast.server.api.v1.approvals import approval_view
from holdfast.server.api.v1.transcripts import PAGE_SIZE
from holdfast.server.api.views.sessions import (
    DeletedEvent,
    EndedEvent,
    GatewayEvent,
    LiveCall,
    LiveState,
    QueuedMessage,
    RetryEvent,
    TextEvent,
    ToolEvent,
    VoidEvent,
    record_view,
)
from holdfast.server.status.problems import describe_blocked_account

log = logging.getLogger(__name__)


def live_state(context: ApiContext, session_id: SessionId) -> LiveState | None:
    """None: no turn runs or waits, and no subagent asks for approval. Read it after the records, so
    that nothing is shown twice."""
    lane = context.gateway.lanes.get(session_id)
    if lane is None or (lane.running_turn is None and lane.state is not LaneState.WAITING):
        return _idle_with_approvals(context, session_id)
    turn = lane.running_turn
    if turn is None:
        return _waiting_turn(context, lane)
    step = turn.context.output.live
    return LiveState(
        turn_id=turn.turn_id,
        resumed=turn.context.resumed,
        text=step.text,
        reasoning=step.reasoning,
        retry=None if step.retry is None else _retry_event(step.retry),
        calls=[
            LiveCall(call_id=call.id, name=call.name, arguments=call.arguments, output=call.output)
            for call in step.calls
        ],
        queued=_queued_messages(lane),
        approvals=[
            approval_view(each) for each in context.gateway.approvals.pending_in(session_id)
        ],
    )


def _idle_with_approvals(context: ApiContext, session_id: SessionId) -> LiveState | None:
    """Approvals of background subagents appear in the session they work for, whatever it does
    meanwhile."""
    asked = [approval_view(each) for each in context.gateway.approvals.pending_in(session_id)]
    return LiveState(turn_id="", approvals=asked, idle=True) if asked else None


def _waiting_turn(context: ApiContext, lane: Lane) -> LiveState:
    """A turn that waits for a person has no live step: all of it is committed."""
    return LiveState(
        turn_id="" if lane.turn is None else lane.turn.turn_id,
        queued=_queued_messages(lane),
        approvals=[
            approval_view(each) for each in context.gateway.approvals.pending_in(lane.session_id)
        ],
    )


def _queued_messages(lane: Lane) -> list[QueuedMessage]:
    return [
        QueuedMessage(id=row.id, message_id=row.inbound.message_id, text=row.inbound.text)
        for row in lane.waiting_messages
    ]


WRITE_TIMEOUT = 120.0  # seconds in which a client must read what is sent
_HEADERS = {
    "Content-Type": f"{Media.EVENTS}; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # nginx would buffer the stream
}
_RETRY_HINT = b"retry: 1000\n\n"
_KEEPALIVE = b": still here\n\n"

Write = Callable[[bytes], Awaitable[None]]
_encode = msgspec.json.Encoder().encode


class EventsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`after`: the last seq that is known already; a browser's `Last-Event-ID` goes before it."""

    after: Annotated[int, msgspec.Meta(ge=0, le=2**62)] = 0


async def stream_session(
    context: ApiContext, call: ApiCall[EventsQuery, None]
) -> web.StreamResponse:
    row = await context.find_session(call.path_param("id"))
    session_stream = SessionStream(
        context, row.id, after=_last_event_id(call.request, call.query.after)
    )
    feeds = context.gateway.feeds
    with feeds.read_session(row.id) as feed, context.keepalive.track(feed):
        # A new client gets everything, in this order.
        feed.mark_stale()
        feed.tell(News.RECORDS | News.SESSION)
        return await stream(
            call.request, feed, lambda write: session_stream.write_updates(feed, write)
        )


async def stream_changes(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.StreamResponse:
    with context.gateway.feeds.read_changes() as changes, context.keepalive.track(changes):
        return await stream(
            call.request, changes, lambda write: _write_changes(context, changes, write)
        )


async def stream(
    request: web.Request,
    subscription: Subscription,
    write_updates: Callable[[Write], Awaitable[None]],
) -> web.StreamResponse:
    """Write updates whenever there are any, until the client leaves or the stream is closed."""
    response = web.StreamResponse(headers=_HEADERS)

    async def write(data: bytes) -> None:
        async with asyncio.timeout(WRITE_TIMEOUT):
            await response.write(data)

    with _closing_on_error(request):
        await response.prepare(request)
        await write(_RETRY_HINT)
        while not subscription.closed:
            await subscription.wake.wait()
            subscription.wake.clear()
            await write_updates(write)
            if subscription.take(News.KEEPALIVE):
                await write(_KEEPALIVE)
        await response.write_eof()
    return response


@contextmanager
def _closing_on_error(request: web.Request) -> Iterator[None]:
    """Close the connection if the stream cannot continue: it is too late for a status, and the
    client reconnects from where it was."""
    try:
        yield
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
    except ConnectionError:
        pass  # the client has left
    except StoreError as error:
        log.warning(
            "Closed an event stream, the store failed: %s", error, extra={"action": "stream_ended"}
        )
        if request.transport is not None:
            request.transport.close()


class SessionStream:
    """Owns the last seq that one client of a session has received."""

    def __init__(self, context: ApiContext, session_id: SessionId, *, after: int) -> None:
        self._context = context
        self._session_id = session_id
        self._seq = after

    async def write_updates(self, feed: SessionFeed, write: Write) -> None:
        """Records, then live state, then ends: an end comes after its records."""
        await self._catch_up(feed, write)
        # No await from here to the write: the live state matches the records just sent.
        events = [*self._live_events(feed), *map(_ended_event, feed.ends)]
        feed.ends.clear()
        if events:
            await write(b"".join(events))
        if feed.take(News.SESSION):
            row = await self._context.shared_reads.session(self._session_id)
            if row is not None:  # it may have been deleted just now
                await write(
                    sse_event(b"session", self._context.encode(self._context.session_view(row)))
                )

    async def _catch_up(self, feed: SessionFeed, write: Write) -> None:
        while feed.take(News.RECORDS):
            feed.mark_stale()
            while records := await self._records():
                self._seq = records[-1].seq
                encode = self._context.encode
                lines = (_record_event(r.seq, encode(record_view(r))) for r in records)
                await write(b"".join(lines))
                if len(records) < PAGE_SIZE:
                    break

    def _live_events(self, feed: SessionFeed) -> list[bytes]:
        if feed.state is PieceState.SENT:
            return []
        stale, pieces = feed.state is PieceState.STALE, feed.take_pieces()
        if stale:
            live = self._context.encode(live_state(self._context, self._session_id))
            return [sse_event(b"live", live)]
        return [_chunk_event(piece) for piece in pieces]

    async def _records(self) -> list[TranscriptRecord]:
        return await self._context.shared_reads.records(
            self._session_id, limit=PAGE_SIZE, after=self._seq
        )


async def _write_changes(context: ApiContext, changes: GatewayChanges, write: Write) -> None:
    deleted, changes.deleted = changes.deleted, []
    changed, changes.sessions = changes.sessions, set()
    events = [sse_event(b"deleted", _encode(DeletedEvent(id=session_id))) for session_id in deleted]
    if changes.take(News.GATEWAY):
        events.append(sse_event(b"gateway", _encode(_gateway_event(context))))
    if changes.take(News.AUDIT):
        events.append(sse_event(b"audit", b"{}"))
    for session_id in changed:
        row = await context.shared_reads.session(session_id)
        if row is None or row.route.startswith(f"{INTERNAL_PLATFORM}:"):
            continue  # not stored yet, or deleted; or a subagent, which is not listed
        events.append(sse_event(b"session", context.encode(context.session_view(row))))
    if events:
        await write(b"".join(events))


def _gateway_event(context: ApiContext) -> GatewayEvent:
    now = context.status.snapshot()
    return GatewayEvent(
        state=now.state,
        phase=now.phase,
        turns=now.turns.get(LaneState.RUNNING, 0),
        pending_restart=now.pending_restart is not None,
        blocked_accounts=tuple(
            describe_blocked_account(each)
            for each in now.platforms
            if each.state is AccountState.BLOCKED
        ),
    )


def _chunk_event(chunk: TurnEvent) -> bytes:
    match chunk:
        case TextStreamed():
            return sse_event(b"text", _encode(TextEvent(text=chunk.text)))
        case ReasoningStreamed():
            return sse_event(b"reasoning", _encode(TextEvent(text=chunk.text)))
        case ToolProgressed():
            return sse_event(b"tool", _encode(ToolEvent(call_id=chunk.call_id, text=chunk.text)))
        case StreamVoided():
            return sse_event(b"void", _encode(VoidEvent(why=chunk.why)))
        case RetryScheduled():
            return sse_event(b"retry", _encode(_retry_event(chunk)))
    raise AssertionError(f"{chunk} is not a part of a step")


def _retry_event(retry: RetryScheduled) -> RetryEvent:
    return RetryEvent(
        text=retry.describe(), attempt=retry.attempt, attempts=retry.attempts, delay=retry.delay
    )


def _ended_event(ended: MessageEnded) -> bytes:
    view = EndedEvent(id=ended.inbox_id, state=ended.state, reason=ended.reason)
    return sse_event(b"ended", _encode(view))


def sse_event(name: bytes, data: bytes) -> bytes:
    return b"event: " + name + b"\ndata: " + data + b"\n\n"


def _record_event(seq: int, data: bytes) -> bytes:
    return b"id: %d\nevent: record\ndata: %b\n\n" % (seq, data)


def _last_event_id(request: web.Request, after: int) -> int:
    given = request.headers.get("Last-Event-ID")
    if not given:
        return after
    if not (given.isascii() and given.isdigit() and len(given) < 19):
        raise bad_request("Last-Event-ID: must be the seq of a record.", param="Last-Event-ID")
    return int(given)


_SESSION = "/sessions/{id}"

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path=f"{_SESSION}/events",
        summary="A conversation as it lives, as server-sent events.",
        handler=stream_session,
        read_only=True,
        reach=Reach.SESSION,
        query=EventsQuery,
        response_type=str,
        response_media=(Media.EVENTS,),
    ),
    Endpoint(
        method="GET",
        path="/events",
        summary="Which sessions change, as server-sent events.",
        handler=stream_changes,
        read_only=True,
        response_type=str,
        response_media=(Media.EVENTS,),
    ),
)
