"""Calls Matrix's client-server API over HTTP, and logs in.

matrix-nio could make these calls, too, but it waits and retries by itself: then the outcome of a
send would not be known, and other sends could not be paced meanwhile.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import aiohttp
import msgspec

from holdfast.core.config.settings import account_table
from holdfast.core.errors import (
    ConnectRefused,
    FileTooLarge,
    NotConnected,
    OutcomeUnknown,
    SendError,
    SendRejected,
    Throttled,
    TransientStoreError,
)
from holdfast.core.messages.outbox import OutboundFile
from holdfast.core.messages.source import AttachmentUnavailable
from holdfast.core.secrets import Secret
from holdfast.core.untrusted import decode_json
from holdfast.platforms.inbound import read_body
from holdfast.platforms.matrix.events import (
    REACTION,
    MatrixError,
    MatrixIdentity,
    MatrixLoginResponse,
    MatrixReaction,
    MatrixReactionPage,
    MatrixUploadResponse,
)
from holdfast.platforms.matrix.plugin import MatrixSettings
from holdfast.system.state_file import write_atomically

log = logging.getLogger(__name__)

T = TypeVar("T")

_CLIENT_PREFIX = "/_matrix/client/v3"
_RELATIONS_PREFIX = "/_matrix/client/v1"
_UPLOAD_PATH = "/_matrix/media/v3/upload"
_DOWNLOAD_PREFIX = "/_matrix/client/v1/media/download"
_CONNECT_TIMEOUT = 10.0  # seconds to establish a connection
_UPLOAD_TIMEOUT_FACTOR = 6.0  # times the timeout of other calls
_DEFAULT_RETRY_AFTER = 1.0  # seconds, if a rate limit comes without a duration
_BAD_TOKEN_CODES = frozenset(
    {"M_UNKNOWN_TOKEN", "M_MISSING_TOKEN", "M_USER_DEACTIVATED", "M_USER_LOCKED"}
)
_DEVICE_NAME = "Holdfast"  # as shown in the list of sessions


def api_path(*parts: str) -> str:
    """A path of the API. Ids may contain any character, so each part is quoted."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def room_path(room_id: str, *parts: str) -> str:
    return api_path("rooms", room_id, *parts)


class MatrixBadToken(NotConnected):
    """The access token is no longer valid. The message was not sent and stays queued."""


class MatrixNotFound(SendRejected):
    """The homeserver itself answered M_NOT_FOUND. A bare 404 may come from a proxy in front of it,
    and says nothing about the room."""


class DuplicateReaction(SendRejected):
    """The reaction is already set."""


_ERROR_TYPES = {"M_NOT_FOUND": MatrixNotFound, "M_DUPLICATE_ANNOTATION": DuplicateReaction}


class MatrixClient:
    """API client of one account. Owns its HTTP connections while it is open, and sends the token
    only to the homeserver. `on_response` is called for each response that proves the connection."""

    def __init__(self, homeserver: str, *, timeout: float) -> None:
        self._base_url = homeserver.rstrip("/")
        self._timeout = timeout
        self._token = ""
        self._on_response: Callable[[], None] = _ignore_response
        self._http: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def open(self, on_response: Callable[[], None]) -> AsyncIterator[None]:
        self._on_response = on_response
        async with aiohttp.ClientSession() as self._http:
            try:
                yield
            finally:
                self._http = None
                self._token = ""

    async def close(self) -> None:
        """Ends the requests in flight, and allows no more."""
        if self._http is not None:
            session, self._http = self._http, None
            await session.close()

    def set_token(self, token: str) -> None:
        self._token = token

    async def call(
        self,
        method: str,
        path: str,
        response_type: type[T],
        /,
        *,
        body: object = None,
        query: Mapping[str, str] | None = None,
        limit: float | None = None,
    ) -> T:
        """Raises the `SendError` that states what is known of the outcome."""
        return _parse_response(
            path,
            await self.call_raw(method, path, body=body, query=query, limit=limit),
            response_type,
        )

    async def call_idempotent(
        self, method: str, path: str, response_type: type[T], /, *, body: object = None, **more: Any
    ) -> T:
        """Like `call`, for requests that may be repeated: raises `NotConnected` if there is no
        response."""
        try:
            return await self.call(method, path, response_type, body=body, **more)
        except OutcomeUnknown as error:
            raise NotConnected("{error}", error=error) from error

    async def call_raw(
        self,
        method: str,
        path: str,
        /,
        *,
        body: object = None,
        query: Mapping[str, str] | None = None,
        limit: float | None = None,
    ) -> bytes:
        content: dict[str, Any] = {"params": query}
        if body is not None:
            content["data"] = msgspec.json.encode(body)
        return await self._request(method, _CLIENT_PREFIX + path, limit or self._timeout, content)

    async def whoami(self) -> MatrixIdentity:
        return await self.call_idempotent("GET", "/account/whoami", MatrixIdentity)

    async def reactions_on(self, room_id: str, event_id: str) -> tuple[MatrixReaction, ...]:
        """The reactions to a message, newest first. They are not encrypted, even in encrypted
        rooms. Without `limit`, a server returns only a few.
        https://spec.matrix.org/latest/client-server-api/#relationships-api"""
        path = _RELATIONS_PREFIX + room_path(
            room_id, "relations", event_id, "m.annotation", REACTION
        )
        answer = await self._request("GET", path, self._timeout, {"params": {"limit": "100"}})
        return _parse_response(path, answer, MatrixReactionPage).chunk

    async def upload(self, file: OutboundFile) -> str:
        """Returns the `mxc://` URI. The file is not visible yet, so an upload may be repeated."""
        content: dict[str, Any] = {
            "params": {"filename": file.name},
            "data": file.data,
            "headers": {"Content-Type": "application/octet-stream"},
        }
        limit = self._timeout * _UPLOAD_TIMEOUT_FACTOR
        try:
            answer = await self._request("POST", _UPLOAD_PATH, limit, content)
            return _parse_response(_UPLOAD_PATH, answer, MatrixUploadResponse).content_uri
        except OutcomeUnknown as error:
            raise NotConnected("{error}", error=error) from error

    async def _request(
        self, method: str, path: str, limit: float, content: Mapping[str, Any]
    ) -> bytes:
        timeout = aiohttp.ClientTimeout(total=limit, sock_connect=_CONNECT_TIMEOUT)
        headers = {
            "Content-Type": "application/json",
            **content.get("headers", {}),
            **self._auth_headers,
        }
        options = {**content, "headers": headers, "timeout": timeout, "allow_redirects": False}
        request = f"{method} {path.removeprefix(_CLIENT_PREFIX)}"
        try:
            async with self._session.request(method, self._base_url + path, **options) as response:
                body = await response.read()
                if response.status < 500 and response.status != 401:
                    self._on_response()
                return _check_response(request, response, body)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise NotConnected(
                "{base_url} cannot be reached: {error}", base_url=self._base_url, error=error
            ) from error
        except (TimeoutError, aiohttp.ClientError) as error:
            reason = str(error) or type(error).__name__
            raise OutcomeUnknown(
                "the homeserver did not respond to {request}: {reason}",
                request=request,
                reason=reason,
            ) from error

    async def download(self, uri: str, *, max_bytes: int) -> bytes:
        """Fetches a file that a user has sent, by its `mxc://` URI. Raises as `Attachment.fetch`
        does. The homeserver may redirect to its file storage; aiohttp omits the token when the
        redirect leads to another host."""
        server, _, name = uri.removeprefix("mxc://").partition("/")
        if not uri.startswith("mxc://") or not server or not name:
            raise AttachmentUnavailable("invalid URL")
        url = f"{self._base_url}{_DOWNLOAD_PREFIX}/{quote(server, safe=':')}/{quote(name, safe='')}"
        timeout = aiohttp.ClientTimeout(sock_read=self._timeout, sock_connect=_CONNECT_TIMEOUT)
        try:
            async with self._session.get(
                url, headers=self._auth_headers, timeout=timeout
            ) as response:
                return await self._read_file(response, max_bytes)
        except (TimeoutError, aiohttp.ClientError) as error:
            reason = str(error) or type(error).__name__
            raise NotConnected("could not download a file: {reason}", reason=reason) from error

    async def _read_file(self, response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
        if response.status == 429:
            raise NotConnected("the homeserver rate-limits the download of a file")
        if 400 <= response.status < 500:
            raise AttachmentUnavailable(
                "the homeserver does not have it ({status})", status=response.status
            )
        response.raise_for_status()
        return await read_body(response, max_bytes=max_bytes, on_chunk=self._on_response)

    @property
    def _auth_headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}

    @property
    def _session(self) -> aiohttp.ClientSession:
        if self._http is None:
            raise NotConnected("the account is not connected to its homeserver; nothing was sent")
        return self._http


def _ignore_response() -> None:
    """The callback before the client is opened."""


def _parse_response(path: str, answer: bytes, response_type: type[T]) -> T:
    try:
        return decode_json(answer, type=response_type)
    except msgspec.MsgspecError as error:
        raise OutcomeUnknown(
            "invalid response from the homeserver to {path}: {error}", path=path, error=error
        ) from error


def _check_response(request: str, response: aiohttp.ClientResponse, body: bytes) -> bytes:
    status = response.status
    if status < 300:
        return body
    if status >= 500:
        raise OutcomeUnknown(
            "the homeserver answered {request} with status {status}; the request may have "
            "been processed",
            request=request,
            status=status,
        )
    try:
        error = msgspec.json.decode(body, type=MatrixError)
    except msgspec.MsgspecError:  # not from the homeserver, but from a proxy
        error = MatrixError()
    raise _to_send_error(request, status, response.headers.get("Retry-After"), error)


def _to_send_error(
    request: str, status: int, retry_after: str | None, error: MatrixError
) -> SendError:
    """https://spec.matrix.org/latest/client-server-api/#standard-error-response"""
    why = f"{error.error or 'no reason is given'} ({status}, {error.errcode or 'no code'})"
    if error.errcode in _BAD_TOKEN_CODES or status == 401:
        return MatrixBadToken("the homeserver does not accept the access token: {why}", why=why)
    if status == 429 or error.errcode == "M_LIMIT_EXCEEDED":
        seconds = (
            _parse_retry_after(retry_after)
            if error.retry_after_ms is None
            else error.retry_after_ms / 1000
        )
        text = f"the homeserver rate-limits {request}: {why}"
        return Throttled(text, retry_after=seconds, whole_account=True)
    if status == 413 or error.errcode == "M_TOO_LARGE":
        return FileTooLarge("the homeserver accepts nothing of this size: {why}", why=why)
    text = f"the homeserver refused {request}: {why}"
    return _ERROR_TYPES.get(error.errcode, SendRejected)(text)


def _parse_retry_after(value: str | None) -> float:
    return (
        float(value)
        if value is not None and value.isascii() and value.isdigit()
        else _DEFAULT_RETRY_AFTER
    )


async def log_in(
    client: MatrixClient,
    user: str,
    password: Secret,
    *,
    device_id: str = "",
    device_name: str = _DEVICE_NAME,
) -> MatrixLoginResponse:
    """https://spec.matrix.org/latest/client-server-api/#post_matrixclientv3login"""
    body = {
        "type": "m.login.password",
        "identifier": {"type": "m.id.user", "user": user},
        "password": password.reveal(),
        "initial_device_display_name": device_name,
        **({"device_id": device_id} if device_id else {}),
    }
    return await client.call_idempotent("POST", "/login", MatrixLoginResponse, body=body)


class MatrixLogin:
    """Logs in, once with a password or with an access token from the settings. Owns the file with
    the result of a password login. It includes the device id: encryption keys belong to a device,
    and the server recognises duplicate sends by it."""

    def __init__(
        self,
        client: MatrixClient,
        *,
        account: str,
        settings: MatrixSettings,
        token: Secret | None,
        password: Secret | None,
        path: Path,
    ) -> None:
        self._client = client
        self._table = account_table("matrix", account)
        self._user = settings.user
        self._token = token
        self._password = password
        self._path = path

    @property
    def uses_password(self) -> bool:
        """If so, an invalid token can be replaced without a person."""
        return self._password is not None

    async def authenticate(self) -> MatrixIdentity:
        """Returns our identity. Raises `ConnectRefused`, or a `SendError` if a retry may
        succeed."""
        if self._token is not None:
            return await self._authenticate_by_token(self._token)
        saved = await asyncio.to_thread(_load_login, self._path)
        if saved is None or saved.user_id != self._user:
            return await self._log_in_by_password("")
        self._client.set_token(saved.access_token)
        try:
            return await self._client.whoami()
        except MatrixBadToken:
            self._client.set_token("")
            return await self._log_in_by_password(saved.device_id)

    async def _authenticate_by_token(self, token: Secret) -> MatrixIdentity:
        self._client.set_token(token.reveal())
        try:
            identity = await self._client.whoami()
        except MatrixBadToken as error:
            raise self.bad_token_error(error) from error
        if identity.user_id != self._user:
            raise ConnectRefused(
                "the access token belongs to {user_id}, not to {user}",
                user_id=identity.user_id,
                user=self._user,
                table=self._table,
                remedy="Set {table}.user or {table}.token.",
            )
        return identity

    def bad_token_error(self, error: MatrixBadToken) -> ConnectRefused:
        return ConnectRefused(
            "{error}: the access token is wrong or was revoked",
            error=error,
            table=self._table,
            remedy="Get a new one (docs/matrix.md explains how) and set {table}.token, or "
            "set {table}.password instead.",
        )

    async def _log_in_by_password(self, device_id: str) -> MatrixIdentity:
        assert self._password is not None, "the settings require a token or a password"
        try:
            login = await log_in(self._client, self._user, self._password, device_id=device_id)
        except (SendRejected, MatrixBadToken) as error:
            raise ConnectRefused(
                "{user} cannot log in: {error}",
                user=self._user,
                error=error,
                table=self._table,
                remedy="Set {table}.user and {table}.password to what you log in with in a "
                "Matrix client.",
            ) from error
        await self._save(login)
        self._client.set_token(login.access_token)
        return MatrixIdentity(user_id=login.user_id, device_id=login.device_id)

    async def _save(self, login: MatrixLoginResponse) -> None:
        try:
            await asyncio.to_thread(write_atomically, self._path, msgspec.json.encode(login))
        except OSError as error:
            raise TransientStoreError(
                "Could not write {path}: {error}; check its permissions and the free space",
                path=self._path,
                error=error,
            ) from error


def _load_login(path: Path) -> MatrixLoginResponse | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=MatrixLoginResponse)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        log.warning(
            "The saved Matrix login %s is invalid (%s); the account logs in again, as a new device",
            path,
            error,
            extra={"action": "login_file_invalid"},
        )
        return None
