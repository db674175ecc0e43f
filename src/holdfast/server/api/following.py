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
from holdfast.server.api.views.session_views import Live, RecordView, SessionView
from holdfast.server.local.client import ControlRefused, GatewayDown, refusal
from holdfast.server.local.cut_line import why_cut

_WAITS = (0.1, 0.2, 0.4, 0.8)  # seconds before each attempt to connect again; the last repeats
_SILENCE = 45.0  # an idle stream has a comment every 15 seconds
_PIECE = 65536


class Happened(msgspec.Struct, frozen=True):
    """An event as it came: its kind, what it says (typed by the kind), and its raw data."""

    kind: str
    body: Any
    data: bytes = b""


class Lost(msgspec.Struct, frozen=True):
    """The connection is gone and is being made again; `why` is for people."""

    why: str


class Ended(msgspec.Struct, frozen=True):
    """There is nothing to follow any more: the gateway said no for good."""

    error: ControlRefused


Followed = Happened | Lost | Ended
_BODIES: Mapping[str, Any] = {
    "record": RecordView,
    "live": Live | None,
    "text": TextEvent,
    "reasoning": TextEvent,
    "tool": ToolEvent,
    "void": VoidEvent,
    "ended": EndedEvent,
    "session": SessionView,
}


class Follower:
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
        self._happened: queue.SimpleQueue[Followed] = queue.SimpleQueue()
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

    def take(self, *, timeout: float | None = 0) -> Iterator[Followed]:
        """What has happened since the last look; waits for the first up to `timeout` seconds."""
        try:
            yield self._happened.get(timeout != 0, timeout or None)
            while True:
                yield self._happened.get_nowait()
        except queue.Empty:
            return

    def _follow(self) -> None:
        waits = iter(_WAITS)
        while not self._closed.is_set():
            try:
                for event in self._events():
                    waits = iter(_WAITS)
                    self._tell(event)
                self._tell(Lost("the gateway ended the stream"))
            except GatewayDown as down:
                self._tell(Lost(str(down)))
            except ControlRefused as refused:
                self._tell(Ended(refused))
                return
            self._closed.wait(next(waits, _WAITS[-1]))

    def _events(self) -> Iterator[Happened]:
        target = f"{self._path}?after={self._after}"
        connection, response = self._api.begin("GET", target, timeout=_SILENCE)
        self._connection = connection
        try:
            for event in read_events(_lines(response)):
                if isinstance(event.body, RecordView):
                    self._after = event.body.seq
                yield event
        except (OSError, http.client.HTTPException) as error:
            raise GatewayDown(f"the gateway is away: {why_cut(error)}") from None
        finally:
            connection.close()

    def _tell(self, what: Followed) -> None:
        if not self._closed.is_set():
            self._happened.put(what)
            self._wake()


def read_events(lines: Iterable[bytes]) -> Iterator[Happened]:
    """Server-sent events as they come; kinds that this program does not know are passed over.

    Raises `ControlRefused` for data that is not of its kind's form.
    """
    kind, data = "", list[bytes]()
    for raw in lines:
        line = raw.rstrip(b"\r")
        if not line:
            if data and kind in _BODIES:
                yield _happened(kind, b"\n".join(data))
            kind, data = "", []
            continue
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"event":
            kind = value.decode()
        elif name == b"data":
            data.append(value)


def _happened(kind: str, data: bytes) -> Happened:
    try:
        return Happened(kind, msgspec.json.decode(data, type=_BODIES[kind]), data)
    except msgspec.MsgspecError as error:
        raise refusal(
            f"its `{kind}` event is of no form that is known here: {error}", 200
        ) from None


def _lines(response: http.client.HTTPResponse) -> Iterator[bytes]:
    rest = b""
    while piece := response.read1(_PIECE):
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
