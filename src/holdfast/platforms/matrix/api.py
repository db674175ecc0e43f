"""Matrix's client-server interface over HTTP: one call, and what its answer means for its caller.

The vendor's library could call as well, but waits and tries again by itself: then nobody would know
what became of a message, or pace the others meanwhile.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import quote

import aiohttp
import msgspec

from holdfast.core.deep_json import decode
from holdfast.core.errors import NotConnected, OutcomeUnknown, Refused, SendError, Throttled
from holdfast.core.messages.attachment import NoAttachment
from holdfast.core.messages.outbox import SentFile
from holdfast.platforms.fetched import body_of
from holdfast.platforms.matrix.paths import in_room
from holdfast.platforms.matrix.wire import REACTION, Error, Reaction, Reactions, Uploaded, Whoami

T = TypeVar("T")

_CLIENT = "/_matrix/client/v3"
_RELATIONS = "/_matrix/client/v1"
_UPLOAD = "/_matrix/media/v3/upload"
_DOWNLOAD = "/_matrix/client/v1/media/download"
_CONNECT = 10.0  # seconds for a connection to come about
_UPLOADS_TAKE = 6.0  # times as long as other calls may
_FLOOD = 1.0  # seconds, where a refusal for flooding does not say how many
_OUT = frozenset({"M_UNKNOWN_TOKEN", "M_MISSING_TOKEN", "M_USER_DEACTIVATED", "M_USER_LOCKED"})


class BadToken(NotConnected):
    """The access token holds no longer. The message is still ours to send."""


class NotFound(Refused):
    """The homeserver itself says that there is no such thing; a proxy that knows no such path may
    answer 404, too, and knows nothing of rooms."""


class Duplicate(Refused):
    """It is there already."""


class ClientApi:
    """One account's line. It owns its connections while it is open, and says the token to nobody
    but the homeserver. `alive` is told of each answer to this account: it came over the line."""

    def __init__(self, homeserver: str, *, limit: float) -> None:
        self._base_url = homeserver.rstrip("/")
        self._limit = limit
        self._token = ""
        self._alive: Callable[[], None] = _nobody
        self._http: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def open(self, alive: Callable[[], None]) -> AsyncIterator[None]:
        self._alive = alive
        async with aiohttp.ClientSession() as self._http:
            try:
                yield
            finally:
                self._http = None
                self._token = ""

    async def hang_up(self) -> None:
        """Whatever is still asked has no answer, and nothing more is."""
        if self._http is not None:
            line, self._http = self._http, None
            await line.close()

    def speak_as(self, token: str) -> None:
        self._token = token

    async def call(
        self,
        method: str,
        path: str,
        kind: type[T],
        /,
        *,
        body: object = None,
        query: Mapping[str, str] | None = None,
        limit: float | None = None,
    ) -> T:
        """Raises the `SendError` that says what is known."""
        return _read(path, await self.raw(method, path, body=body, query=query, limit=limit), kind)

    async def ask(
        self, method: str, path: str, kind: type[T], /, *, body: object = None, **more: Any
    ) -> T:
        """The same, where asking again does no harm: without an answer it is `NotConnected`."""
        try:
            return await self.call(method, path, kind, body=body, **more)
        except OutcomeUnknown as error:
            raise NotConnected(str(error)) from error

    async def raw(
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
        return await self._ask(method, _CLIENT + path, limit or self._limit, content)

    async def whoami(self) -> Whoami:
        return await self.ask("GET", "/account/whoami", Whoami)

    async def signs_on(self, room_id: str, event_id: str) -> tuple[Reaction, ...]:
        """https://spec.matrix.org/latest/client-server-api/#relationships-api: what people have
        put on a message, the newest first, in clear also where what they say is sealed. A server
        tells of a handful, where it is not asked for more."""
        path = _RELATIONS + in_room(room_id, "relations", event_id, "m.annotation", REACTION)
        answer = await self._ask("GET", path, self._limit, {"params": {"limit": "100"}})
        return _read(path, answer, Reactions).chunk

    async def upload(self, file: SentFile) -> str:
        """The address of what was uploaded. Nobody sees it yet, so that no second one does harm."""
        content: dict[str, Any] = {
            "params": {"filename": file.name},
            "data": file.data,
            "headers": {"Content-Type": "application/octet-stream"},
        }
        limit = self._limit * _UPLOADS_TAKE
        try:
            answer = await self._ask("POST", _UPLOAD, limit, content)
            return _read(_UPLOAD, answer, Uploaded).content_uri
        except OutcomeUnknown as error:
            raise NotConnected(str(error)) from error

    async def _ask(self, method: str, path: str, limit: float, content: Mapping[str, Any]) -> bytes:
        timeout = aiohttp.ClientTimeout(total=limit, sock_connect=_CONNECT)
        headers = {"Content-Type": "application/json", **content.get("headers", {}), **self._auth}
        asked = {**content, "headers": headers, "timeout": timeout, "allow_redirects": False}
        what = f"{method} {path.removeprefix(_CLIENT)}"
        try:
            async with self._line.request(method, self._base_url + path, **asked) as response:
                answer = await response.read()
                if response.status < 500 and response.status != 401:
                    self._alive()
                return _result(what, response, answer)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise NotConnected(f"{self._base_url} cannot be reached: {error}") from error
        except (TimeoutError, aiohttp.ClientError) as error:
            reason = str(error) or type(error).__name__
            raise OutcomeUnknown(f"the homeserver gave no answer to {what}: {reason}") from error

    async def download(self, uri: str, *, most: int) -> bytes:
        """A file that people have sent, by its `mxc://` address. Raises as `Attachment.fetch`
        says. The homeserver may send us to where it keeps its files; the token goes to nobody
        else: the client leaves it out where the address is another's."""
        server, _, name = uri.removeprefix("mxc://").partition("/")
        if not uri.startswith("mxc://") or not server or not name:
            raise NoAttachment("its address makes no sense")
        url = f"{self._base_url}{_DOWNLOAD}/{quote(server, safe=':')}/{quote(name, safe='')}"
        timeout = aiohttp.ClientTimeout(sock_read=self._limit, sock_connect=_CONNECT)
        try:
            async with self._line.get(url, headers=self._auth, timeout=timeout) as response:
                return await self._held(response, most)
        except (TimeoutError, aiohttp.ClientError) as error:
            reason = str(error) or type(error).__name__
            raise NotConnected(f"a file could not be fetched: {reason}") from error

    async def _held(self, response: aiohttp.ClientResponse, most: int) -> bytes:
        if response.status == 429:
            raise NotConnected("the homeserver asks to wait before a file is fetched")
        if 400 <= response.status < 500:
            raise NoAttachment(f"the homeserver does not have it ({response.status})")
        response.raise_for_status()
        return await body_of(response, most=most, alive=self._alive)

    @property
    def _auth(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}

    @property
    def _line(self) -> aiohttp.ClientSession:
        if self._http is None:
            raise NotConnected("the account is not connected to its homeserver; nothing was sent")
        return self._http


def _nobody() -> None:
    """Who is told before there is a line."""


def _read(what: str, answer: bytes, kind: type[T]) -> T:
    try:
        return decode(answer, type=kind)
    except msgspec.MsgspecError as error:
        raise OutcomeUnknown(f"the homeserver answered {what} with nonsense: {error}") from error


def _result(what: str, response: aiohttp.ClientResponse, body: bytes) -> bytes:
    status = response.status
    if status < 300:
        return body
    if status >= 500:
        raise OutcomeUnknown(f"the homeserver answered {what} with {status}: it may be done")
    try:
        error = msgspec.json.decode(body, type=Error)
    except msgspec.MsgspecError:  # not of the homeserver, but of what stands in front of it
        error = Error()
    raise _refusal(what, status, response.headers.get("Retry-After"), error)


def _refusal(what: str, status: int, told: str | None, error: Error) -> SendError:
    """https://spec.matrix.org/latest/client-server-api/#standard-error-response"""
    why = f"{error.error or 'no reason is given'} ({status}, {error.errcode or 'no code'})"
    if error.errcode in _OUT or status == 401:
        return BadToken(f"the homeserver does not let this account in: {why}")
    if status == 429 or error.errcode == "M_LIMIT_EXCEEDED":
        seconds = _seconds(told) if error.retry_after_ms is None else error.retry_after_ms / 1000
        text = f"the homeserver asks to wait before {what}: {why}"
        return Throttled(text, retry_after=seconds, whole_account=True)
    text = f"the homeserver refused {what}: {why}"
    return _REFUSALS.get(error.errcode, Refused)(text)


_REFUSALS = {"M_NOT_FOUND": NotFound, "M_DUPLICATE_ANNOTATION": Duplicate}


def _seconds(told: str | None) -> float:
    return float(told) if told is not None and told.isascii() and told.isdigit() else _FLOOD
