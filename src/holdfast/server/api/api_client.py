"""The client of `/api/v1`: typed calls to the gateway of one home, over HTTP and nothing heavy."""

import http.client
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from holdfast.core.secret import Secret
from holdfast.server.api.views.message_views import (
    AcceptedView,
    MessageView,
    NewMessage,
    StopResult,
)
from holdfast.server.api.views.overall_views import CommandView
from holdfast.server.api.views.session_views import NewSession, SessionDetail, SessionView
from holdfast.server.local.client import GatewayDown, GatewayStoreUnavailable, gateway_refused
from holdfast.server.local.cut_line import describe_connection_error
from holdfast.system.lock import read_holder
from holdfast.system.paths import Paths

CALL_TIMEOUT = 15.0
_CHUNK_SIZE = 65536

T = TypeVar("T")
Query = Mapping[str, str | int | float]


class ApiClient:
    """Asks the gateway of one home; each call is a connection of its own.

    Where the gateway listens is looked up for each, because a restart may change it. A gateway
    that is down, starting or stopping raises `GatewayDown`; one that says no, `GatewayRefused`.
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
        """Returns once it is durable; said again, it is the same message."""
        return self.post(f"/sessions/{quote(session_id, safe='')}/messages", message, AcceptedView)

    def read_message(self, message_id: int, *, wait: float = 0) -> MessageView:
        """What became of a message, `wait` seconds at the most until it has ended."""
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
        """An answer of any length, piece by piece; one that was cut raises `GatewayDown`."""
        connection, response = self.open_response("GET", target)
        try:
            while piece := response.read(_CHUNK_SIZE):
                yield piece
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
        """Make a call and read how its answer begins; the connection is the caller's to close."""
        connection = self._connection(timeout or self._timeout)
        bearer = {"Authorization": f"Bearer {self._token.reveal()}", **(headers or {})}
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
            raise GatewayDown(f"No gateway is running for {home}. Start it with `holdfast run`.")
        if not holder.address:
            raise GatewayDown(f"The gateway of {self._paths.home} is starting; try again.")
        place = urlsplit(holder.address)
        assert place.hostname is not None, "the lock names where the gateway listens"
        return http.client.HTTPConnection(place.hostname, place.port, timeout=timeout)


def _decode_as(content: bytes, response_type: type[T]) -> T:
    try:
        return msgspec.json.decode(content, type=response_type)
    except msgspec.MsgspecError as error:
        raise gateway_refused(
            f"it answered in a form this program does not know: {error}", 200
        ) from None


def _error_from_response(content: bytes, status: int) -> Exception:
    message, code = _error_message(content)
    if status == 503:
        kind = GatewayStoreUnavailable if code == "store" else GatewayDown
        return kind(f"The gateway cannot answer at the moment: {message}")
    if status == 401:
        return gateway_refused(
            "the token is not its own. The gateway was started with another configuration than "
            "this shell has; compare `holdfast config show` in both.",
            status,
        )
    return gateway_refused(message, status)


def _error_message(content: bytes) -> tuple[str, str]:
    """What it says, for a person; and the code of that, if it has one."""
    try:
        error: Any = msgspec.json.decode(content)["error"]
        return str(error["message"]), str(error.get("code", ""))
    except (msgspec.MsgspecError, KeyError, TypeError):
        return content.decode("utf-8", "replace").strip(), ""


def _connection_lost(method: str, target: str, error: Exception) -> GatewayDown:
    path = target.partition("?")[0]
    return GatewayDown(
        f"The gateway did not answer {method} {path}: {describe_connection_error(error)}."
    )
