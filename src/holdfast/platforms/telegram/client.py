"""The Bot API over HTTP: one call, and what its answer means for whoever made it."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import aiohttp
import msgspec

from holdfast.core.deep_json import decode
from holdfast.core.errors import NotConnected, OutcomeUnknown, Refused, Throttled
from holdfast.core.messages.attachment import NoAttachment
from holdfast.core.messages.outbox import SentFile
from holdfast.core.secret import Secret
from holdfast.platforms.fetched import body_of
from holdfast.platforms.telegram.wire import Answer, File

T = TypeVar("T")

_HEADERS = {"Content-Type": "application/json"}
_CONNECT = 10.0  # seconds for a connection to come about
_UPLOADS_TAKE = 6.0  # times as long as other calls may
_TO_US = frozenset({200, 400, 403, 429})  # of answers: those to a bot that is known
_FLOOD = 1.0  # seconds, where a refusal for flooding does not say how many


class BadToken(NotConnected):
    """The token is none of a bot, or not any more. The message is still ours to send."""


class Held(NotConnected):
    """Somebody else receives the updates of this bot; `holder` says who, where that is known."""

    def __init__(self, message: str, *, holder: str = "") -> None:
        super().__init__(message)
        self.holder = holder


class Hooked(Held):
    """A webhook is set, so there is nothing to poll."""


class BadFormat(Refused):
    """The marks on the text were not understood; the text itself may be."""


class NotModified(Refused):
    """The message says that already."""


class Moved(Refused):
    """The chat has another id now."""

    def __init__(self, message: str, *, chat_id: int) -> None:
        super().__init__(message)
        self.chat_id = chat_id


class BotApi:
    """One bot's line. It owns its connections while it is open, and says the token to nobody.

    `alive` is told of each answer to this bot, and of each piece of a file: they came over the
    line.
    """

    def __init__(self, token: Secret, *, base_url: str, limit: float = 20.0) -> None:
        self._token = token
        self._base_url = base_url.rstrip("/")
        self._limit = limit
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

    async def call(
        self, method: str, kind: type[T], /, *, limit: float | None = None, **arguments: Any
    ) -> T:
        """Arguments that are None are left out. Raises the `SendError` that says what is known."""
        given = {name: value for name, value in arguments.items() if value is not None}
        body = msgspec.json.encode(given)
        return await self._post(method, kind, limit or self._limit, data=body, headers=_HEADERS)

    async def upload(
        self, method: str, kind: type[T], /, *, field: str, file: SentFile, **arguments: Any
    ) -> T:
        """The same with a file, as a form; what is no text in it is JSON."""
        form = aiohttp.FormData(quote_fields=False)  # else people would read a name as %C3%A9
        for name, value in arguments.items():
            if value is not None:
                text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
                form.add_field(name, text)
        form.add_field(field, file.data, filename=_plain(file.name))
        return await self._post(method, kind, self._limit * _UPLOADS_TAKE, data=form)

    async def _post(self, method: str, kind: type[T], limit: float, **content: Any) -> T:
        timeout = aiohttp.ClientTimeout(total=limit, sock_connect=_CONNECT)
        url = f"{self._base_url}/bot{self._token.reveal()}/{method}"
        try:
            async with self._line.post(
                url, timeout=timeout, allow_redirects=False, **content
            ) as response:
                body = await response.read()
                if response.status in _TO_US:
                    self._alive()
                return _result(method, response.status, body, kind)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            why = self._told(error)
            raise NotConnected(f"{self._base_url} cannot be reached: {why}") from error
        except (TimeoutError, aiohttp.ClientError) as error:
            why = self._told(error)
            raise OutcomeUnknown(f"Telegram gave no answer to {method}: {why}") from error

    async def download(self, file_id: str, *, most: int) -> bytes:
        """A file that people have sent. Raises as `Attachment.fetch` says."""
        try:
            file = await self.call("getFile", File, file_id=file_id)
            return await self._fetch(file.file_path, most=most)
        except (OutcomeUnknown, Throttled) as error:  # asking again does no harm
            raise NotConnected(str(error)) from error
        except Refused as error:
            raise NoAttachment(str(error)) from error

    async def _fetch(self, path: str, *, most: int) -> bytes:
        url = f"{self._base_url}/file/bot{self._token.reveal()}/{path}"
        timeout = aiohttp.ClientTimeout(sock_read=self._limit, sock_connect=_CONNECT)
        try:
            async with self._line.get(url, timeout=timeout, allow_redirects=False) as response:
                if response.status != 200:
                    raise NoAttachment(f"Telegram has it no more ({response.status})")
                return await body_of(response, most=most, alive=self._alive)
        except (TimeoutError, aiohttp.ClientError) as error:
            why = self._told(error)
            raise NotConnected(f"a file could not be fetched from Telegram: {why}") from error

    def _told(self, error: Exception) -> str:
        """In words that may be shown: some faults name the whole address, with the token in it."""
        words = str(error) or type(error).__name__
        return words.replace(self._token.reveal(), "…")

    @property
    def _line(self) -> aiohttp.ClientSession:
        if self._http is None:
            raise NotConnected("the bot is not connected to Telegram; nothing was sent")
        return self._http


def _plain(name: str) -> str:
    """A name that can stand in a header of the form."""
    return "".join(c if c.isprintable() and c not in '"\\' else "_" for c in name)


def _nobody() -> None:
    """Who is told before there is a line."""


def _result(method: str, status: int, body: bytes, kind: type[T]) -> T:
    if status >= 500:
        raise OutcomeUnknown(f"Telegram answered {method} with {status}: it may have been done")
    try:
        answer = decode(body, type=Answer)
        if answer.ok:
            return decode(answer.result, type=kind)
    except msgspec.MsgspecError as error:
        raise OutcomeUnknown(f"Telegram answered {method} with nonsense: {error}") from error
    raise _refusal(method, status, answer)


def _refusal(method: str, status: int, answer: Answer) -> Exception:
    """What the vendor means. The words are all there is to tell some refusals from others."""
    what = answer.description or f"{status}"
    text = f"Telegram refused {method}: {what}"
    match status:
        case 401 | 404:
            return BadToken(f"Telegram does not know this bot ({what})")
        case 409:
            return Hooked(what) if "webhook is active" in what else Held(what)
        case 429:
            return Throttled(text, retry_after=answer.parameters.retry_after or _FLOOD)
    if answer.parameters.migrate_to_chat_id is not None:
        return Moved(text, chat_id=answer.parameters.migrate_to_chat_id)
    words = what.lower()
    if "message is not modified" in words:
        return NotModified(text)
    return BadFormat(text) if "entit" in words else Refused(text)
