"""Following a session: its events, in order and without a gap, across any loss of connection."""

import http.client
import queue
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import msgspec

from holdfast.server.api.api_client import ApiClient
from holdfast.server.api.views.event_views import EndedEvent, TextEvent, ToolEvent, VoidEvent
from holdfast.server.api.views.session_views import LiveState, RecordView, SessionView
from holdfast.server.local.client import GatewayDown, GatewayRefused, gateway_refused
from holdfast.server.local.cut_line import describe_connection_error

_RETRY_DELAYS = (
    0.1,
    0.2,
    0.4,
    0.8,
)  # seconds before each attempt to connect again; the last repeats
_IDLE_TIMEOUT = 45.0  # an idle stream has a comment every 15 seconds
_CHUNK_SIZE = 65536


class ReceivedEvent(msgspec.Struct, frozen=True):
    """An event as it came: its kind, what it says (typed by the kind), and its raw data."""

    kind: str
    body: Any
    data: bytes = b""


class StreamLost(msgspec.Struct, frozen=True):
    """The connection is gone and is being made again; `why` is for people."""

    reason: str


class FollowEnded(msgspec.Struct, frozen=True):
    """There is nothing to follow any more: the gateway said no for good."""

    error: GatewayRefused


FollowerItem = ReceivedEvent | StreamLost | FollowEnded
_EVENT_TYPES: Mapping[str, Any] = {
    "record": RecordView,
    "live": LiveState | None,
    "text": TextEvent,
    "reasoning": TextEvent,
    "tool": ToolEvent,
    "void": VoidEvent,
    "ended": EndedEvent,
    "session": SessionView,
}


class SessionFollower:
    """Owns a thread and its connection while its context is open.

    What happens is taken with `take`; `wake` is called, in that thread, when there is something
    to take. A thread, because whoever reads a keyboard must not wait for a socket as well.
    """

    def __init__(
        self, api: ApiClient, session_id: str, *, after: int, wake: Callable[[], None]
    ) -> None:
        self._api = api
        self._path = f"/sessions/{quote(session_id, safe='')}/events"
        self._after = after
        self._wake = wake
        self._received: queue.SimpleQueue[FollowerItem] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._connection: http.client.HTTPConnection | None = None
        self._thread = threading.Thread(target=self._follow, name=f"follow {session_id}")
        self._thread.daemon = True  # a stuck connection must not keep the program

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closed.set()
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with suppress(OSError):  # the other side was quicker
                connection.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(1.0)

    def take(self, *, timeout: float | None = 0) -> Iterator[FollowerItem]:
        """What has happened since the last look; waits for the first up to `timeout` seconds."""
        try:
            yield self._received.get(timeout != 0, timeout or None)
            while True:
                yield self._received.get_nowait()
        except queue.Empty:
            return

    def _follow(self) -> None:
        waits = iter(_RETRY_DELAYS)
        while not self._closed.is_set():
            try:
                for event in self._events():
                    waits = iter(_RETRY_DELAYS)
                    self._put(event)
                self._put(StreamLost("the gateway ended the stream"))
            except GatewayDown as down:
                self._put(StreamLost(str(down)))
            except GatewayRefused as refused:
                self._put(FollowEnded(refused))
                return
            self._closed.wait(next(waits, _RETRY_DELAYS[-1]))

    def _events(self) -> Iterator[ReceivedEvent]:
        target = f"{self._path}?after={self._after}"
        connection, response = self._api.open_response("GET", target, timeout=_IDLE_TIMEOUT)
        self._connection = connection
        try:
            for event in parse_events(_lines(response)):
                if isinstance(event.body, RecordView):
                    self._after = event.body.seq
                yield event
        except (OSError, http.client.HTTPException) as error:
            raise GatewayDown(f"the gateway is away: {describe_connection_error(error)}") from None
        finally:
            connection.close()

    def _put(self, item: FollowerItem) -> None:
        if not self._closed.is_set():
            self._received.put(item)
            self._wake()


def parse_events(lines: Iterable[bytes]) -> Iterator[ReceivedEvent]:
    """Server-sent events as they come; kinds that this program does not know are passed over.

    Raises `GatewayRefused` for data that is not of its kind's form.
    """
    kind, data = "", list[bytes]()
    for raw in lines:
        line = raw.rstrip(b"\r")
        if not line:
            if data and kind in _EVENT_TYPES:
                yield _parse_event(kind, b"\n".join(data))
            kind, data = "", []
            continue
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"event":
            kind = value.decode()
        elif name == b"data":
            data.append(value)


def _parse_event(kind: str, data: bytes) -> ReceivedEvent:
    try:
        return ReceivedEvent(kind, msgspec.json.decode(data, type=_EVENT_TYPES[kind]), data)
    except msgspec.MsgspecError as error:
        raise gateway_refused(
            f"its `{kind}` event is of no form that is known here: {error}", 200
        ) from None


def _lines(response: http.client.HTTPResponse) -> Iterator[bytes]:
    rest = b""
    while piece := response.read1(_CHUNK_SIZE):
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
