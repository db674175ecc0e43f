"""Discord's REST API: calls, uploads and downloads, and the error that each response means."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import aiohttp
import msgspec

from holdfast import __version__
from holdfast.core.errors import (
    FileTooLarge,
    NotConnected,
    OutcomeUnknown,
    SendRejected,
    Throttled,
)
from holdfast.core.messages.outbox import OutboundFile
from holdfast.core.messages.source import AttachmentUnavailable
from holdfast.core.secrets import Secret
from holdfast.core.untrusted import decode_json
from holdfast.platforms.discord.events import DiscordError
from holdfast.platforms.inbound import read_body

T = TypeVar("T")

_JSON = {"Content-Type": "application/json"}
# Without a user agent of this form, a request is rejected before it reaches the API.
_USER_AGENT = f"DiscordBot (https://pypi.org/project/holdfast, {__version__})"
_CONNECT_TIMEOUT = 10.0  # seconds to establish a connection
_UPLOAD_TIMEOUT_FACTOR = 6.0  # factor by which the timeout of uploads is longer
_DEFAULT_RETRY_AFTER = 1.0  # seconds, if a rate limit response does not tell
# https://discord.com/developers/docs/topics/opcodes-and-status-codes#json-json-error-codes
_TOO_LARGE = 40005
_INVALID_WEBHOOK_TOKEN = 50027  # of an interaction that has expired; the bot's own is valid


class DiscordBadToken(NotConnected):
    """The token does not belong to a bot, or was reset. The message is still pending."""


class DiscordNotFound(SendRejected):
    """The object does not exist, or no longer exists."""


class DiscordClient:
    """The REST connections of one bot. Owns them while it is open, and sends the token to Discord
    only. The vendor's library could send, too, but it waits and retries internally: then the
    outcome of a message would be unknown, and other messages could not be paced meanwhile."""

    def __init__(self, token: Secret, *, base_url: str, timeout: float = 20.0) -> None:
        self._token = token
        self._timeout = timeout
        self._base_url = base_url.rstrip("/")
        self._http: aiohttp.ClientSession | None = None
        self._on_response: Callable[[], None] = _ignore
        self._on_bad_token: Callable[[DiscordBadToken], None] = _ignore_bad_token

    @asynccontextmanager
    async def open(
        self,
        on_response: Callable[[], None],
        on_bad_token: Callable[[DiscordBadToken], None],
    ) -> AsyncIterator[None]:
        """`on_response` is called for each response to this bot, which proves that the connection
        works; `on_bad_token` when Discord rejects the token."""
        self._on_response, self._on_bad_token = on_response, on_bad_token
        async with aiohttp.ClientSession(headers={"User-Agent": _USER_AGENT}) as self._http:
            try:
                yield
            finally:
                self._http = None

    async def call(
        self,
        method: str,
        path: str,
        kind: type[T],
        /,
        *,
        body: object = None,
        query: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
    ) -> T:
        """Call an endpoint. Raises the `SendError` that fits what is known."""
        content: dict[str, Any] = {"params": query}
        if body is not None:
            content |= {"data": msgspec.json.encode(body), "headers": _JSON}
        return await self._request(method, path, kind, timeout_seconds or self._timeout, content)

    async def upload(self, path: str, kind: type[T], /, *, body: object, file: OutboundFile) -> T:
        """As `call`, with a file (https://discord.com/developers/docs/reference#uploading-files):
        the rest of the message is JSON in the part `payload_json`."""
        form = aiohttp.FormData(quote_fields=False)  # otherwise people would see a name as %C3%A9
        written = msgspec.json.encode(body).decode()
        form.add_field("payload_json", written, content_type="application/json")
        form.add_field("files[0]", file.data, filename=_safe_filename(file.name))
        return await self._request(
            "POST", path, kind, self._timeout * _UPLOAD_TIMEOUT_FACTOR, {"data": form}
        )

    async def _request(
        self, method: str, path: str, kind: type[T], seconds: float, content: Mapping[str, Any]
    ) -> T:
        timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=_CONNECT_TIMEOUT)
        headers = {"Authorization": f"Bot {self._token.reveal()}", **content.get("headers", {})}
        asked = {**content, "headers": headers, "timeout": timeout, "allow_redirects": False}
        # The rest of the path may contain a secret.
        what = f"{method} {'/'.join(path.split('/')[:3])}"
        try:
            async with self._session.request(method, self._base_url + path, **asked) as response:
                answer = await response.read()
                if response.status < 500 and response.status != 401:
                    self._on_response()
                return _parse_response(what, response, answer, kind)
        except DiscordBadToken as error:
            self._on_bad_token(error)
            raise
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise NotConnected(
                "{base_url} cannot be reached: {error}", base_url=self._base_url, error=error
            ) from error
        except (TimeoutError, aiohttp.ClientError) as error:
            reason = str(error) or type(error).__name__
            raise OutcomeUnknown(
                "Discord did not respond to {what}: {reason}", what=what, reason=reason
            ) from error

    async def download(self, url: str, *, max_bytes: int) -> bytes:
        """Download a file that a person has sent, from a URL that is valid for a day and needs no
        token. Raises the errors of `Attachment.fetch`."""
        timeout = aiohttp.ClientTimeout(sock_read=self._timeout, sock_connect=_CONNECT_TIMEOUT)
        try:
            async with self._session.get(url, timeout=timeout) as response:
                if 400 <= response.status < 500:
                    raise AttachmentUnavailable(
                        "Discord no longer has it ({status})", status=response.status
                    )
                response.raise_for_status()
                return await read_body(response, max_bytes=max_bytes)
        except (TimeoutError, aiohttp.ClientError) as error:
            reason = str(error) or type(error).__name__
            raise NotConnected(
                "could not download a file from Discord: {reason}", reason=reason
            ) from error

    @property
    def _session(self) -> aiohttp.ClientSession:
        if self._http is None:
            raise NotConnected("the bot is not connected to Discord; nothing was sent")
        return self._http


def _safe_filename(name: str) -> str:
    """A name that is valid in a header of the form."""
    return "".join(c if c.isprintable() and c not in '"\\' else "_" for c in name)


def _ignore() -> None:
    """The callback before there is a connection."""


def _ignore_bad_token(error: DiscordBadToken) -> None:
    """The callback before there is a connection."""


def _parse_response(what: str, response: aiohttp.ClientResponse, body: bytes, kind: type[T]) -> T:
    status = response.status
    if status >= 500:
        raise OutcomeUnknown(
            "Discord answered {what} with status {status}; the request may have been processed",
            what=what,
            status=status,
        )
    if status < 300:
        try:
            return decode_json(body or b"null", type=kind)
        except msgspec.MsgspecError as error:
            raise OutcomeUnknown(
                "invalid response from Discord to {what}: {error}", what=what, error=error
            ) from error
    raise _to_error(what, status, response.headers.get("Retry-After"), body)


def _to_error(what: str, status: int, retry_after: str | None, body: bytes) -> Exception:
    try:
        error = decode_json(body, type=DiscordError)
    except msgspec.MsgspecError:  # from a proxy in front of the API
        error = DiscordError()
    why = f"{error.message or 'no reason is given'} ({status}, code {error.code})"
    if status == 401 and error.code != _INVALID_WEBHOOK_TOKEN:
        return DiscordBadToken("Discord does not accept the token: {why}", why=why)
    if status == 429:
        seconds = (
            error.retry_after if error.retry_after is not None else _parse_retry_after(retry_after)
        )
        text = f"Discord asks to wait before {what}: {why}"
        return Throttled(text, retry_after=seconds, whole_account=error.is_global)
    if status == 413 or error.code == _TOO_LARGE:
        return FileTooLarge("Discord accepts no file of this size there: {why}", why=why)
    text = f"Discord refused {what}: {why}"
    return DiscordNotFound(text) if status == 404 else SendRejected(text)


def _parse_retry_after(value: str | None) -> float:
    return (
        float(value)
        if value is not None and value.isascii() and value.isdigit()
        else _DEFAULT_RETRY_AFTER
    )
