"""Client of `/api/v1`: typed calls, and a follower of a session's events that reconnects.

Imports nothing heavy.
"""

import http.client
import queue
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from contextvars import copy_context
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from holdfast.core.secrets import Secret
from holdfast.core.text.translation import _, current_language
from holdfast.server.api.views.gateway import CommandView
from holdfast.server.api.views.sessions import (
    AcceptedView,
    EndedEvent,
    LiveState,
    MessageView,
    NewMessage,
    NewSession,
    RecordView,
    RetryEvent,
    SessionDetail,
    SessionView,
    StopResult,
    TextEvent,
    ToolEvent,
    VoidEvent,
)
from holdfast.server.local.control_client import (
    GatewayDown,
    GatewayRefused,
    GatewayStoreUnavailable,
    describe_connection_error,
    gateway_refused,
)
from holdfast.system.lock import read_holder
from holdfast.system.paths import Paths

CALL_TIMEOUT = 15.0
_CHUNK_SIZE = 65536

T = TypeVar("T")
Query = Mapping[str, str | int | float]


class ApiClient:
    """Calls the gateway of one home; each call has its own connection.

    The address is read for each call, because a restart may change it. A gateway that is down,
    starting or stopping raises `GatewayDown`; an error response raises `GatewayRefused`.
    """

    def __init__(self, paths: Paths, *, token: Secret, timeout: float = CALL_TIMEOUT) -> None:
        self._paths = paths
        self._token = token
        self._timeout = timeout

    def open_session(self, name: str | None) -> SessionView:
        """The session of that name, made if there is none; None: a fresh one."""
        return self.post("/sessions", NewSession(name=name), SessionView)

    def read_session(self, session_id: str, *, limit: int) -> SessionDetail:
        return self.get(f"/sessions/{quote(session_id, safe='')}", SessionDetail, {"limit": limit})

    def send_message(self, session_id: str, message: NewMessage) -> AcceptedView:
        """Returns once it is durable; sent again, it is the same message."""
        return self.post(f"/sessions/{quote(session_id, safe='')}/messages", message, AcceptedView)

    def read_message(self, message_id: int, *, wait: float = 0) -> MessageView:
        """The outcome of a message; waits up to `wait` seconds until it has ended."""
        path = f"/messages/{message_id}"
        return self.get(path, MessageView, {"wait": wait} if wait else {}, extra_timeout=wait)

    def stop(self, session_id: str) -> StopResult:
        return self.post(f"/sessions/{quote(session_id, safe='')}/stop", {}, StopResult)

    def list_commands(self) -> list[CommandView]:
        return self.get("/commands", list[CommandView])

    def get(
        self,
        path: str,
        response_type: type[T],
        query: Query | None = None,
        *,
        extra_timeout: float = 0,
    ) -> T:
        target = f"{path}?{urlencode(query)}" if query else path
        return _decode_as(self.request("GET", target, extra_timeout=extra_timeout), response_type)

    def post(self, path: str, body: object, response_type: type[T]) -> T:
        return _decode_as(self.request("POST", path, msgspec.json.encode(body)), response_type)

    def request(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        *,
        content_type: str = "application/json",
        extra_timeout: float = 0,
    ) -> bytes:
        """One call, read to its end."""
        headers = {"Content-Type": content_type} if body is not None else {}
        timeout = self._timeout + extra_timeout
        connection, response = self.open_response(
            method, target, body, headers=headers, timeout=timeout
        )
        try:
            return response.read()
        except (OSError, http.client.HTTPException) as error:
            raise _connection_lost(method, target, error) from None
        finally:
            connection.close()

    def stream_bytes(self, target: str) -> Iterator[bytes]:
        """A response of any length in chunks; one that was cut off raises `GatewayDown`."""
        connection, response = self.open_response("GET", target)
        try:
            while chunk := response.read(_CHUNK_SIZE):
                yield chunk
        except (OSError, http.client.HTTPException) as error:
            raise _connection_lost("GET", target, error) from None
        finally:
            connection.close()

    def open_response(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Make a call and read the head of its response; the caller closes the connection."""
        connection = self._connection(timeout or self._timeout)
        bearer = {
            "Authorization": f"Bearer {self._token.reveal()}",
            "Accept-Language": current_language(),
            **(headers or {}),
        }
        try:
            connection.request(method, f"/api/v1{target}", body, bearer)
            response = connection.getresponse()
            if response.status >= 400:
                raise _error_from_response(response.read(), response.status)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise _connection_lost(method, target, error) from None
        except BaseException:
            connection.close()
            raise
        return connection, response

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        holder = read_holder(self._paths.home)
        if holder is None or holder.purpose != "gateway":
            home = self._paths.home
            raise GatewayDown(
                "No gateway is running for {home}. Start it with `holdfast run`.", home=home
            )
        if not holder.address:
            raise GatewayDown(
                "The gateway of {home} is starting. Try again.", home=self._paths.home
            )
        address = urlsplit(holder.address)
        assert address.hostname is not None, "the lock names where the gateway listens"
        return http.client.HTTPConnection(address.hostname, address.port, timeout=timeout)


def _decode_as(content: bytes, response_type: type[T]) -> T:
    try:
        return msgspec.json.decode(content, type=response_type)
    except msgspec.MsgspecError as error:
        raise gateway_refused(
            _("It answered in an unknown format: {error}").format(error=error), 200
        ) from None


def _error_from_response(content: bytes, status: int) -> Exception:
    message, code = _error_message(content)
    if status == 503:
        kind = GatewayStoreUnavailable if code == "store_unavailable" else GatewayDown
        return kind("The gateway cannot answer at the moment: {reason}", reason=message)
    if status == 401:
        return gateway_refused(
            _(
                "The token is not the gateway's. The gateway was started with another "
                "configuration than this shell has; compare `holdfast config show` in both."
            ),
            status,
        )
    return gateway_refused(message, status)


def _error_message(content: bytes) -> tuple[str, str]:
    """The message for a person, and the error code, if there is one."""
    try:
        error: Any = msgspec.json.decode(content)["error"]
        return str(error["message"]), str(error.get("code", ""))
    except (msgspec.MsgspecError, KeyError, TypeError):
        return content.decode("utf-8", "replace").strip(), ""


def _connection_lost(method: str, target: str, error: Exception) -> GatewayDown:
    path = target.partition("?")[0]
    return GatewayDown(
        "The gateway did not answer {method} {path}: {reason}.",
        method=method,
        path=path,
        reason=describe_connection_error(error),
    )


# Seconds before each attempt to connect again; the last one repeats.
_RETRY_DELAYS = (0.1, 0.2, 0.4, 0.8)
_IDLE_TIMEOUT = 45.0  # an idle stream has a comment every 15 seconds


class ReceivedEvent(msgspec.Struct, frozen=True):
    """An event: its kind, its data as the type of that kind, and its raw data."""

    kind: str
    body: Any
    data: bytes = b""


class StreamLost(msgspec.Struct, frozen=True):
    """The connection was lost; the follower reconnects."""

    error: GatewayDown


class FollowEnded(msgspec.Struct, frozen=True):
    """The gateway refused the stream: it is not retried."""

    error: GatewayRefused


FollowerItem = ReceivedEvent | StreamLost | FollowEnded
_EVENT_TYPES: Mapping[str, Any] = {
    "record": RecordView,
    "live": LiveState | None,
    "text": TextEvent,
    "reasoning": TextEvent,
    "tool": ToolEvent,
    "void": VoidEvent,
    "retry": RetryEvent,
    "ended": EndedEvent,
    "session": SessionView,
}


class SessionFollower:
    """Owns a thread and its connection while its context is open.

    `take` returns what was received; `wake` is called, in that thread, when there is something to
    take. It is a thread because the program that reads the keyboard must not wait for a socket.
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
        # In a copy of the context: `wake` may show texts in the language of the caller.
        self._thread = threading.Thread(
            target=copy_context().run, args=(self._follow,), name=f"follow {session_id}"
        )
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
        """What was received since the last call; waits for the first up to `timeout` seconds."""
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
                self._put(StreamLost(GatewayDown("The gateway ended the stream.")))
            except GatewayDown as down:
                self._put(StreamLost(down))
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
            raise GatewayDown(
                "The connection to the gateway was lost: {reason}",
                reason=describe_connection_error(error),
            ) from None
        finally:
            connection.close()

    def _put(self, item: FollowerItem) -> None:
        if not self._closed.is_set():
            self._received.put(item)
            self._wake()


def parse_events(lines: Iterable[bytes]) -> Iterator[ReceivedEvent]:
    """Server-sent events as they come; unknown kinds are skipped.

    Raises `GatewayRefused` for data of the wrong type.
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
            _("Its `{kind}` event has an unknown format: {error}").format(kind=kind, error=error),
            200,
        ) from None


def _lines(response: http.client.HTTPResponse) -> Iterator[bytes]:
    rest = b""
    while chunk := response.read1(_CHUNK_SIZE):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines
