"""The client of `/api/v1`: typed calls to the gateway of one home, over HTTP and nothing heavy."""

import http.client
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from holdfast.core.secret import Secret
from holdfast.server.api.views.message_views import AcceptedView, MessageView, NewMessage, Stopped
from holdfast.server.api.views.overall_views import CommandView
from holdfast.server.api.views.session_views import NewSession, SessionDetail, SessionView
from holdfast.server.local.client import GatewayDown, GatewayUnable, refusal
from holdfast.server.local.cut_line import why_cut
from holdfast.system.lock import read_holder
from holdfast.system.paths import Paths

CALL_TIMEOUT = 15.0
_PIECE = 65536

T = TypeVar("T")
Query = Mapping[str, str | int | float]


class ApiClient:
    """Asks the gateway of one home; each call is a connection of its own.

    Where the gateway listens is looked up for each, because a restart may change it. A gateway
    that is down, starting or stopping raises `GatewayDown`; one that says no, `ControlRefused`.
    """

    def __init__(self, paths: Paths, *, token: Secret, timeout: float = CALL_TIMEOUT) -> None:
        self._paths = paths
        self._token = token
        self._timeout = timeout

    def open_session(self, name: str | None) -> SessionView:
        """The session of that name, made if there is none; None: a fresh one."""
        return self.post("/sessions", NewSession(name=name), SessionView)

    def session(self, session_id: str, *, limit: int) -> SessionDetail:
        return self.get(f"/sessions/{quote(session_id, safe='')}", SessionDetail, {"limit": limit})

    def say(self, session_id: str, message: NewMessage) -> AcceptedView:
        """Returns once it is durable; said again, it is the same message."""
        return self.post(f"/sessions/{quote(session_id, safe='')}/messages", message, AcceptedView)

    def message(self, message_id: int, *, wait: float = 0) -> MessageView:
        """What became of a message, `wait` seconds at the most until it has ended."""
        path = f"/messages/{message_id}"
        return self.get(path, MessageView, {"wait": wait} if wait else {}, patience=wait)

    def stop(self, session_id: str) -> Stopped:
        return self.post(f"/sessions/{quote(session_id, safe='')}/stop", {}, Stopped)

    def commands(self) -> list[CommandView]:
        return self.get("/commands", list[CommandView])

    def get(
        self, path: str, kind: type[T], query: Query | None = None, *, patience: float = 0
    ) -> T:
        target = f"{path}?{urlencode(query)}" if query else path
        return _typed(self.send("GET", target, patience=patience), kind)

    def post(self, path: str, body: object, kind: type[T]) -> T:
        return _typed(self.send("POST", path, msgspec.json.encode(body)), kind)

    def send(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        *,
        content_type: str = "application/json",
        patience: float = 0,
    ) -> bytes:
        """One call, read to its end."""
        headers = {"Content-Type": content_type} if body is not None else {}
        timeout = self._timeout + patience
        connection, response = self.begin(method, target, body, headers=headers, timeout=timeout)
        try:
            return response.read()
        except (OSError, http.client.HTTPException) as error:
            raise _lost(method, target, error) from None
        finally:
            connection.close()

    def pieces(self, target: str) -> Iterator[bytes]:
        """An answer of any length, piece by piece; one that was cut raises `GatewayDown`."""
        connection, response = self.begin("GET", target)
        try:
            while piece := response.read(_PIECE):
                yield piece
        except (OSError, http.client.HTTPException) as error:
            raise _lost("GET", target, error) from None
        finally:
            connection.close()

    def begin(
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
                raise _explained(response.read(), response.status)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise _lost(method, target, error) from None
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


def _typed(content: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.MsgspecError as error:
        raise refusal(f"it answered in a form this program does not know: {error}", 200) from None


def _explained(content: bytes, status: int) -> Exception:
    message, code = _message(content)
    if status == 503:
        kind = GatewayUnable if code == "store" else GatewayDown
        return kind(f"The gateway cannot answer at the moment: {message}")
    if status == 401:
        return refusal(
            "the token is not its own. The gateway was started with another configuration than "
            "this shell has; compare `holdfast config show` in both.",
            status,
        )
    return refusal(message, status)


def _message(content: bytes) -> tuple[str, str]:
    """What it says, for a person; and the code of that, if it has one."""
    try:
        error: Any = msgspec.json.decode(content)["error"]
        return str(error["message"]), str(error.get("code", ""))
    except (msgspec.MsgspecError, KeyError, TypeError):
        return content.decode("utf-8", "replace").strip(), ""


def _lost(method: str, target: str, error: Exception) -> GatewayDown:
    path = target.partition("?")[0]
    return GatewayDown(f"The gateway did not answer {method} {path}: {why_cut(error)}.")
