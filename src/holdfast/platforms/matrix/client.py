"""Calls Matrix's client-server API over HTTP, and logs in.

The vendor's library could call too, but it waits and retries by itself: then the outcome of a send would not be known.
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


# MERGED holdfast.platforms.matrix.paths: Paths of the client-server interface: what names a thing there may hold any sign.
def api_path(*parts: str) -> str:
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def room_path(room_id: str, *parts: str) -> str:
    return api_path("rooms", room_id, *parts)


# MERGED holdfast.platforms.matrix.api: Matrix's client-server interface over HTTP: one call, and what its answer means for its caller.
#
# The vendor's library could call as well, but waits and tries again by itself: then nobody would know
# what became of a message, or pace the others meanwhile.
T = TypeVar("T")

_CLIENT_PREFIX = "/_matrix/client/v3"
_RELATIONS_PREFIX = "/_matrix/client/v1"
_UPLOAD_PATH = "/_matrix/media/v3/upload"
_DOWNLOAD_PREFIX = "/_matrix/client/v1/media/download"
_CONNECT_TIMEOUT = 10.0  # seconds for a connection to come about
_UPLOAD_TIMEOUT_FACTOR = 6.0  # times as long as other calls may
_DEFAULT_RETRY_AFTER = 1.0  # seconds, where a refusal for flooding does not say how many
_BAD_TOKEN_CODES = frozenset(
    {"M_UNKNOWN_TOKEN", "M_MISSING_TOKEN", "M_USER_DEACTIVATED", "M_USER_LOCKED"}
)


class MatrixBadToken(NotConnected):
    """The access token holds no longer. The message is still ours to send."""


class MatrixNotFound(SendRejected):
    """The homeserver itself says that there is no such thing; a proxy that knows no such path may
    answer 404, too, and knows nothing of rooms."""


class DuplicateReaction(SendRejected):
    """It is there already."""


class MatrixClient:
    """One account's line. It owns its connections while it is open, and says the token to nobody
    but the homeserver. `alive` is told of each answer to this account: it came over the line."""

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
        """Whatever is still asked has no answer, and nothing more is."""
        if self._http is not None:
            line, self._http = self._http, None
            await line.close()

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
        """Raises the `SendError` that says what is known."""
        return _parse_response(
            path,
            await self.call_raw(method, path, body=body, query=query, limit=limit),
            response_type,
        )

    async def call_idempotent(
        self, method: str, path: str, response_type: type[T], /, *, body: object = None, **more: Any
    ) -> T:
        """The same, where asking again does no harm: without an answer it is `NotConnected`."""
        try:
            return await self.call(method, path, response_type, body=body, **more)
        except OutcomeUnknown as error:
            raise NotConnected(str(error)) from error

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
        """https://spec.matrix.org/latest/client-server-api/#relationships-api: what people have
        put on a message, the newest first, in clear also where what they say is sealed. A server
        tells of a handful, where it is not asked for more."""
        path = _RELATIONS_PREFIX + room_path(
            room_id, "relations", event_id, "m.annotation", REACTION
        )
        answer = await self._request("GET", path, self._timeout, {"params": {"limit": "100"}})
        return _parse_response(path, answer, MatrixReactionPage).chunk

    async def upload(self, file: OutboundFile) -> str:
        """The address of what was uploaded. Nobody sees it yet, so that no second one does harm."""
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
            raise NotConnected(str(error)) from error

    async def _request(
        self, method: str, path: str, limit: float, content: Mapping[str, Any]
    ) -> bytes:
        timeout = aiohttp.ClientTimeout(total=limit, sock_connect=_CONNECT_TIMEOUT)
        headers = {
            "Content-Type": "application/json",
            **content.get("headers", {}),
            **self._auth_headers,
        }
        asked = {**content, "headers": headers, "timeout": timeout, "allow_redirects": False}
        what = f"{method} {path.removeprefix(_CLIENT_PREFIX)}"
        try:
            async with self._session.request(method, self._base_url + path, **asked) as response:
                answer = await response.read()
                if response.status < 500 and response.status != 401:
                    self._on_response()
                return _check_response(what, response, answer)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise NotConnected(f"{self._base_url} cannot be reached: {error}") from error
        except (TimeoutError, aiohttp.ClientError) as error:
            reason = str(error) or type(error).__name__
            raise OutcomeUnknown(f"the homeserver gave no answer to {what}: {reason}") from error

    async def download(self, uri: str, *, max_bytes: int) -> bytes:
        """A file that people have sent, by its `mxc://` address. Raises as `Attachment.fetch`
        says. The homeserver may send us to where it keeps its files; the token goes to nobody
        else: the client leaves it out where the address is another's."""
        server, _, name = uri.removeprefix("mxc://").partition("/")
        if not uri.startswith("mxc://") or not server or not name:
            raise AttachmentUnavailable("its address makes no sense")
        url = f"{self._base_url}{_DOWNLOAD_PREFIX}/{quote(server, safe=':')}/{quote(name, safe='')}"
        timeout = aiohttp.ClientTimeout(sock_read=self._timeout, sock_connect=_CONNECT_TIMEOUT)
        try:
            async with self._session.get(
                url, headers=self._auth_headers, timeout=timeout
            ) as response:
                return await self._read_file(response, max_bytes)
        except (TimeoutError, aiohttp.ClientError) as error:
            reason = str(error) or type(error).__name__
            raise NotConnected(f"a file could not be fetched: {reason}") from error

    async def _read_file(self, response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
        if response.status == 429:
            raise NotConnected("the homeserver asks to wait before a file is fetched")
        if 400 <= response.status < 500:
            raise AttachmentUnavailable(f"the homeserver does not have it ({response.status})")
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
    """Who is told before there is a line."""


def _parse_response(path: str, answer: bytes, response_type: type[T]) -> T:
    try:
        return decode_json(answer, type=response_type)
    except msgspec.MsgspecError as error:
        raise OutcomeUnknown(f"the homeserver answered {path} with nonsense: {error}") from error


def _check_response(request: str, response: aiohttp.ClientResponse, body: bytes) -> bytes:
    status = response.status
    if status < 300:
        return body
    if status >= 500:
        raise OutcomeUnknown(f"the homeserver answered {request} with {status}: it may be done")
    try:
        error = msgspec.json.decode(body, type=MatrixError)
    except msgspec.MsgspecError:  # not of the homeserver, but of what stands in front of it
        error = MatrixError()
    raise _to_send_error(request, status, response.headers.get("Retry-After"), error)


def _to_send_error(
    request: str, status: int, retry_after: str | None, error: MatrixError
) -> SendError:
    """https://spec.matrix.org/latest/client-server-api/#standard-error-response"""
    why = f"{error.error or 'no reason is given'} ({status}, {error.errcode or 'no code'})"
    if error.errcode in _BAD_TOKEN_CODES or status == 401:
        return MatrixBadToken(f"the homeserver does not let this account in: {why}")
    if status == 429 or error.errcode == "M_LIMIT_EXCEEDED":
        seconds = (
            _parse_retry_after(retry_after)
            if error.retry_after_ms is None
            else error.retry_after_ms / 1000
        )
        text = f"the homeserver asks to wait before {request}: {why}"
        return Throttled(text, retry_after=seconds, whole_account=True)
    text = f"the homeserver refused {request}: {why}"
    return _ERROR_TYPES.get(error.errcode, SendRejected)(text)


_ERROR_TYPES = {"M_NOT_FOUND": MatrixNotFound, "M_DUPLICATE_ANNOTATION": DuplicateReaction}


def _parse_retry_after(value: str | None) -> float:
    return (
        float(value)
        if value is not None and value.isascii() and value.isdigit()
        else _DEFAULT_RETRY_AFTER
    )


# MERGED holdfast.platforms.matrix.login: Logging in: by a password, once, or by an access token that somebody has made.
_DEVICE_NAME = "Holdfast"  # as people see it in the list of sessions


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
    """Owns the file of what a login gave. The device is kept with it: encrypted rooms know a
    device, and a server knows by it which message was sent twice."""

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
        """A token that holds no longer can then be replaced without a person."""
        return self._password is not None

    async def authenticate(self) -> MatrixIdentity:
        """Who we are. Raises `ConnectRefused`, or a `SendError` where it may go better later."""
        if self._token is not None:
            return await self._authenticate_by_token(self._token)
        kept = await asyncio.to_thread(_load_login, self._path)
        if kept is None or kept.user_id != self._user:
            return await self._log_in_by_password("")
        self._client.set_token(kept.access_token)
        try:
            return await self._client.whoami()
        except MatrixBadToken:
            self._client.set_token("")
            return await self._log_in_by_password(kept.device_id)

    async def _authenticate_by_token(self, token: Secret) -> MatrixIdentity:
        self._client.set_token(token.reveal())
        try:
            me = await self._client.whoami()
        except MatrixBadToken as error:
            raise self.bad_token_error(error) from error
        if me.user_id != self._user:
            raise ConnectRefused(
                f"the access token is that of {me.user_id}, and not of {self._user}",
                remedy=f"set {self._table}.user or {self._table}.token",
            )
        return me

    def bad_token_error(self, error: MatrixBadToken) -> ConnectRefused:
        return ConnectRefused(
            f"{error}: the access token is wrong, or was revoked",
            remedy=f"get a new one (docs/matrix.md says how) and set {self._table}.token, or set "
            f"{self._table}.password in its place",
        )

    async def _log_in_by_password(self, device_id: str) -> MatrixIdentity:
        assert self._password is not None, "the settings want a token or a password"
        try:
            given = await log_in(self._client, self._user, self._password, device_id=device_id)
        except (SendRejected, MatrixBadToken) as error:
            raise ConnectRefused(
                f"{self._user} cannot log in: {error}",
                remedy=f"set {self._table}.user and {self._table}.password to what a client logs "
                "in with",
            ) from error
        await self._save(given)
        self._client.set_token(given.access_token)
        return MatrixIdentity(user_id=given.user_id, device_id=given.device_id)

    async def _save(self, login: MatrixLoginResponse) -> None:
        try:
            await asyncio.to_thread(write_atomically, self._path, msgspec.json.encode(login))
        except OSError as error:
            raise TransientStoreError(f"{self._path} cannot be written: {error}") from error


def _load_login(path: Path) -> MatrixLoginResponse | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=MatrixLoginResponse)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        log.warning(
            "%s makes no sense (%s): the account logs in again, as a new device.",
            path,
            error,
            extra={"action": "login_file_invalid"},
        )
        return None
