"""The Bot API over HTTP: calls, uploads and downloads, and the error that each response means."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import aiohttp
import msgspec

from holdfast.core.errors import (
    EditRefused,
    FileTooLarge,
    NotConnected,
    OutcomeUnknown,
    SendRejected,
    Throttled,
    error_text,
)
from holdfast.core.messages.outbox import OutboundFile
from holdfast.core.messages.source import AttachmentUnavailable
from holdfast.core.secrets import Secret
from holdfast.core.untrusted import decode_json
from holdfast.platforms.inbound import read_body
from holdfast.platforms.telegram.events import TelegramFile, TelegramResponse

T = TypeVar("T")

_HEADERS = {"Content-Type": "application/json"}
_CONNECT_TIMEOUT = 10.0  # seconds to establish a connection
_UPLOAD_TIMEOUT_FACTOR = 6.0  # factor by which the timeout of uploads is longer
_AUTHENTICATED_STATUSES = frozenset(
    {200, 400, 403, 429}
)  # to responses that prove that the token is valid
_DEFAULT_RETRY_AFTER = 1.0  # seconds, if a rate limit response does not tell
# Of a message that was deleted, or can no longer be edited.
_EDIT_REFUSALS = ("message to edit not found", "message can't be edited", "message_id_invalid")
# Of a topic or a replied message that is gone. The first is that of a forum, the second that of a
# channel's direct messages, the third is passed on from Telegram's servers.
_TOPIC_REFUSALS = ("message thread not found", "topic not found", "topic_deleted")
_REPLY_REFUSALS = ("message to be replied not found", "replied message not found")


class TelegramBadToken(NotConnected):
    """The token does not belong to a bot, or was revoked. The message is still pending."""


class TelegramConflict(NotConnected):
    """Another program receives the updates of this bot; `holder` names it, if known."""

    def __init__(self, message: str, *, holder: str = "", **values: object) -> None:
        super().__init__(message, **values)
        self.holder = holder


class TelegramWebhookActive(TelegramConflict):
    """A webhook is set, so updates cannot be polled."""


class TelegramBadFormat(SendRejected):
    """The formatting was not understood; the plain text may be."""


class TelegramNotModified(SendRejected):
    """The message has that text already."""


class TelegramTargetGone(SendRejected):
    """The chat, its topic or the message that is answered is not there. Nothing was sent, whatever
    the content."""


class TelegramTopicGone(TelegramTargetGone):
    """The topic was deleted, or the chat has no topics any more."""


class TelegramReplyGone(TelegramTargetGone):
    """The message to reply to was deleted."""


class TelegramChatMigrated(TelegramTargetGone):
    """The chat has a new id."""

    def __init__(self, message: str, *, chat_id: int, **values: object) -> None:
        super().__init__(message, **values)
        self.chat_id = chat_id


class TelegramClient:
    """The connections of one bot. Owns them while it is open, and never shows the token.

    `alive` is called for each response to this bot, and for each chunk of a file: both prove that
    the connection works.
    """

    def __init__(self, token: Secret, *, base_url: str, timeout: float = 20.0) -> None:
        self._token = token
        self._base_url = base_url.rstrip("/")
        self._timeout = timeout
        self._on_response: Callable[[], None] = _ignore
        self._http: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def open(self, on_response: Callable[[], None]) -> AsyncIterator[None]:
        self._on_response = on_response
        async with aiohttp.ClientSession() as self._http:
            try:
                yield
            finally:
                self._http = None

    async def call(
        self,
        method: str,
        kind: type[T],
        /,
        *,
        timeout_seconds: float | None = None,
        **arguments: Any,
    ) -> T:
        """Call a method. Arguments that are None are left out. Raises the `SendError` that fits
        what is known."""
        given = {name: value for name, value in arguments.items() if value is not None}
        body = msgspec.json.encode(given)
        return await self._post(
            method, kind, timeout_seconds or self._timeout, data=body, headers=_HEADERS
        )

    async def upload(
        self, method: str, kind: type[T], /, *, field: str, file: OutboundFile, **arguments: Any
    ) -> T:
        """As `call`, with a file, as a form; arguments that are not text are sent as JSON."""
        form = aiohttp.FormData(quote_fields=False)  # otherwise people would see a name as %C3%A9
        for name, value in arguments.items():
            if value is not None:
                text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
                form.add_field(name, text)
        form.add_field(field, file.data, filename=_safe_filename(file.name))
        return await self._post(method, kind, self._timeout * _UPLOAD_TIMEOUT_FACTOR, data=form)

    async def _post(self, method: str, kind: type[T], seconds: float, **content: Any) -> T:
        timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=_CONNECT_TIMEOUT)
        url = f"{self._base_url}/bot{self._token.reveal()}/{method}"
        try:
            async with self._session.post(
                url, timeout=timeout, allow_redirects=False, **content
            ) as response:
                body = await response.read()
                if response.status in _AUTHENTICATED_STATUSES:
                    self._on_response()
                return _parse_response(method, response.status, body, kind)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            why = self._redacted(error)
            raise NotConnected(
                "{base_url} cannot be reached: {why}", base_url=self._base_url, why=why
            ) from error
        except (TimeoutError, aiohttp.ClientError) as error:
            why = self._redacted(error)
            raise OutcomeUnknown(
                "Telegram did not respond to {method}: {why}", method=method, why=why
            ) from error

    async def download(self, file_id: str, *, max_bytes: int) -> bytes:
        """Download a file that a person has sent. Raises the errors of `Attachment.fetch`."""
        try:
            file = await self.call("getFile", TelegramFile, file_id=file_id)
            return await self._fetch(file.file_path, max_bytes=max_bytes)
        except (OutcomeUnknown, Throttled) as error:  # asking again does no harm
            raise NotConnected("{error}", error=error) from error
        except SendRejected as error:
            raise AttachmentUnavailable("{error}", error=error) from error

    async def _fetch(self, path: str, *, max_bytes: int) -> bytes:
        url = f"{self._base_url}/file/bot{self._token.reveal()}/{path}"
        timeout = aiohttp.ClientTimeout(sock_read=self._timeout, sock_connect=_CONNECT_TIMEOUT)
        try:
            async with self._session.get(url, timeout=timeout, allow_redirects=False) as response:
                if response.status != 200:
                    raise AttachmentUnavailable(
                        "Telegram no longer has it ({status})", status=response.status
                    )
                return await read_body(response, max_bytes=max_bytes, on_chunk=self._on_response)
        except (TimeoutError, aiohttp.ClientError) as error:
            why = self._redacted(error)
            raise NotConnected("could not download a file from Telegram: {why}", why=why) from error

    def _redacted(self, error: Exception) -> str:
        """The error as a text that may be shown: some errors contain the whole URL, with the
        token."""
        words = error_text(error) or type(error).__name__
        return words.replace(self._token.reveal(), "…")

    @property
    def _session(self) -> aiohttp.ClientSession:
        if self._http is None:
            raise NotConnected("the bot is not connected to Telegram; nothing was sent")
        return self._http


def _safe_filename(name: str) -> str:
    """A name that is valid in a header of the form."""
    return "".join(c if c.isprintable() and c not in '"\\' else "_" for c in name)


def _ignore() -> None:
    """The callback before there is a connection."""


def _parse_response(method: str, status: int, body: bytes, kind: type[T]) -> T:
    if status >= 500:
        raise OutcomeUnknown(
            "Telegram answered {method} with status {status}; the request may have been processed",
            method=method,
            status=status,
        )
    if status == 413:  # a proxy in front of the API may give it, without JSON
        raise FileTooLarge("Telegram accepts no file of this size (413)")
    try:
        answer = decode_json(body, type=TelegramResponse)
        if answer.ok:
            return decode_json(answer.result, type=kind)
    except msgspec.MsgspecError as error:
        raise OutcomeUnknown(
            "invalid response from Telegram to {method}: {error}", method=method, error=error
        ) from error
    raise _to_error(method, status, answer)


def _to_error(method: str, status: int, response: TelegramResponse) -> Exception:
    """The error that a refusal means. Some refusals differ by their texts only."""
    what = response.description or f"{status}"
    text = f"Telegram refused {method}: {what}"
    match status:
        case 401 | 404:
            return TelegramBadToken("Telegram does not accept the token ({what})", what=what)
        case 409:
            return (
                TelegramWebhookActive(what)
                if "webhook is active" in what
                else TelegramConflict(what)
            )
        case 429:
            return Throttled(
                text, retry_after=response.parameters.retry_after or _DEFAULT_RETRY_AFTER
            )
    if response.parameters.migrate_to_chat_id is not None:
        return TelegramChatMigrated(text, chat_id=response.parameters.migrate_to_chat_id)
    words = what.lower()
    if "message is not modified" in words:
        return TelegramNotModified(text)
    for refusals, error in (
        (_EDIT_REFUSALS, EditRefused),
        (_TOPIC_REFUSALS, TelegramTopicGone),
        (_REPLY_REFUSALS, TelegramReplyGone),
    ):
        if any(refusal in words for refusal in refusals):
            return error(text)
    return TelegramBadFormat(text) if "entit" in words else SendRejected(text)
