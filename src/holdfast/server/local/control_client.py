"""Client of the control socket, and the errors that every client of a gateway raises.

Imports nothing heavy.
"""

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

from holdfast.core.errors import HoldfastError
from holdfast.core.text.translation import _, current_language
from holdfast.server.local.status_client import (
    STATUS_TIMEOUT,
    GatewayDown,
    GatewayStoreUnavailable,
    connect_socket,
    read_status_report,
)
from holdfast.system.paths import Paths


def describe_connection_error(error: Exception) -> str:
    """A clause for people that follows a colon, instead of the name of an exception."""
    match error:
        case TimeoutError():
            return _("it did not answer in time")
        case http.client.IncompleteRead() | http.client.RemoteDisconnected() | EOFError():
            return _("it closed the connection in the middle of the answer")
        case ConnectionRefusedError():
            return _("no program listens there")
        case ConnectionError():
            return _("it closed the connection")
        case http.client.HTTPException():
            return _("its answer is not valid HTTP")
        case OSError(strerror=str(text)):
            return text[:1].lower() + text[1:]
    return str(error) or repr(error)


__all__ = [
    "ControlClient",
    "GatewayDown",
    "GatewayRefused",
    "GatewayStoreUnavailable",
    "gateway_refused",
    "read_status",
]

CONTROL_TIMEOUT = 15.0


class GatewayRefused(HoldfastError):
    """The gateway refused a request; `reason` is its message."""

    def __init__(self, message: str, *, status: int, reason: str = "", **values: object) -> None:
        super().__init__(message, **values)
        self.status = status
        self.reason = reason or message


def read_status(paths: Paths, *, timeout: float = STATUS_TIMEOUT) -> dict[str, Any]:
    """The status document; raises `GatewayDown` if no gateway serves one."""
    document = json.loads(read_status_report(paths, timeout=timeout))
    assert isinstance(document, dict), "the status socket speaks in objects"
    return document


class ControlClient:
    """Asks the gateway of one home; each call is a connection of its own."""

    def __init__(self, paths: Paths, *, timeout: float = CONTROL_TIMEOUT) -> None:
        self._paths = paths
        self._timeout = timeout

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        return self._request("GET", f"{path}?{urlencode(query)}" if query else path)

    def post(self, path: str, body: object = None) -> Any:
        return self._request("POST", path, json.dumps({} if body is None else body))

    def follow(
        self, path: str, body: object = None, *, line_timeout: float | None = None
    ) -> Iterator[dict[str, Any]]:
        """The JSON lines of a response as they come. The response must begin within the timeout of
        the client; each line after that may take `line_timeout` seconds, if given.

        A stream that breaks off ends like one that was closed: the gateway has stopped.
        """
        connection = _UnixConnection(self._paths, timeout=self._timeout)
        try:
            response = _open_response(connection, self._paths, path, {} if body is None else body)
            if response.status >= 400:
                _decode_response(response.read(), response.status)
            connection.sock.settimeout(line_timeout or self._timeout)
            with suppress(ConnectionError, http.client.HTTPException):
                while line := response.readline():
                    yield json.loads(line)
        finally:
            connection.close()

    def _request(self, method: str, target: str, body: str | None = None) -> Any:
        headers = {"Accept-Language": current_language()}
        if body is not None:
            headers["Content-Type"] = "application/json"
        connection = _UnixConnection(self._paths, timeout=self._timeout)
        try:
            connection.request(method, target, body, headers)
            response = connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise GatewayDown(
                "The gateway of {home} did not answer {method} {path}: {reason}.",
                home=self._paths.home,
                method=method,
                path=target,
                reason=describe_connection_error(error),
            ) from None
        finally:
            connection.close()
        return _decode_response(content, response.status)


def _open_response(
    connection: "_UnixConnection", paths: Paths, path: str, body: object
) -> http.client.HTTPResponse:
    try:
        headers = {"Content-Type": "application/json", "Accept-Language": current_language()}
        connection.request("POST", path, json.dumps(body), headers)
        return connection.getresponse()
    except (OSError, http.client.HTTPException) as error:
        raise GatewayDown(
            "The gateway of {home} did not answer {method} {path}: {reason}.",
            home=paths.home,
            method="POST",
            path=path,
            reason=describe_connection_error(error),
        ) from None


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, paths: Paths, *, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._paths = paths
        self._connect_timeout = timeout

    def connect(self) -> None:
        self.sock = connect_socket(
            self._paths.control_socket, self._paths, timeout=self._connect_timeout
        )


def _decode_response(content: bytes, status: int) -> Any:
    try:
        document = json.loads(content or b"null")
    except json.JSONDecodeError:
        document = content.decode("utf-8", "replace").strip()
    if status < 400:
        return document
    error = document.get("error", document) if isinstance(document, dict) else document
    message = error.get("message", error) if isinstance(error, dict) else error
    raise gateway_refused(str(message), status)


def gateway_refused(message: str, status: int) -> GatewayRefused:
    return GatewayRefused(
        "The gateway refused ({code}): {message_text}",
        status=status,
        reason=message,
        code=status,
        message_text=message,
    )
