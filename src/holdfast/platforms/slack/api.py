"""The Web API over the vendor's client: one call, and what its answer means for whoever made it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import aiohttp
import msgspec

from holdfast.core.errors import ConnectRefused, NotConnected, OutcomeUnknown, Refused
from holdfast.core.messages.attachment import NoAttachment
from holdfast.core.secret import Secret
from holdfast.platforms.fetched import body_of
from holdfast.platforms.slack.refusals import BadToken, Unreadable, refusal

if TYPE_CHECKING:  # an extra, which is imported when an account is connected
    from slack_sdk.web.async_client import AsyncWebClient

T = TypeVar("T")

_CONNECT = 10.0  # seconds for a connection to come about
_UPLOADS_TAKE = 6.0  # times as long as other calls may
_OF_SLACK = ".slack.com"
_quiet = logging.getLogger(f"{__name__}.client")
# At the level of debugging the client writes whole requests down, with all that people say.
_quiet.setLevel(logging.INFO)


class WebApi:
    """One app's line. It owns its connections while it is open, and says the tokens to nobody.

    `alive` is told of each answer that came over the line, `turned_away` when the token is not
    taken any more.
    """

    def __init__(self, token: Secret, *, base_url: str, limit: float = 20.0) -> None:
        self._token = token
        self._base_url = base_url.rstrip("/")
        self._limit = limit
        self._alive: Callable[[], None] = _nobody
        self._turned_away: Callable[[BadToken], None] = _no_matter
        self._http: aiohttp.ClientSession | None = None
        self._client: AsyncWebClient | None = None
        self.scopes: frozenset[str] = frozenset()  # of the app, by the last answer that says it

    @asynccontextmanager
    async def open(
        self, alive: Callable[[], None], turned_away: Callable[[BadToken], None]
    ) -> AsyncIterator[None]:
        make = await asyncio.to_thread(_client)  # an import that takes longer than a turn
        self._alive, self._turned_away = alive, turned_away
        timeout = aiohttp.ClientTimeout(total=self._limit, sock_connect=_CONNECT)
        async with aiohttp.ClientSession(timeout=timeout) as self._http:
            # It would send again by itself what may have arrived: whether to is not its affair.
            self._client = make(
                token=self._token.reveal(),
                base_url=self._base_url,
                session=self._http,
                logger=_quiet,
                retry_handlers=[],
            )
            # It looks into the environment by itself, which nothing else of an account does.
            self._client.proxy = None
            try:
                yield
            finally:
                self._http = self._client = None

    async def say(self, method: str, kind: type[T], /, **arguments: Any) -> T:
        """A call of a method that takes JSON. Arguments that are None are left out. Raises the
        `SendError` that says what is known."""
        return await self._call(method, kind, json=_given(arguments))

    async def ask(self, method: str, kind: type[T], /, **arguments: Any) -> T:
        """The same as a form, which every method takes; what is no text in it is JSON."""
        given = _given(arguments)
        form = {name: _field(value) for name, value in given.items()}
        return await self._call(method, kind, data=form)

    async def ask_with(self, token: Secret, method: str, kind: type[T], /) -> T:
        """The same without arguments and with another token."""
        return await self._call(method, kind, params={"token": token.reveal()}, other_token=True)

    async def _call(
        self, method: str, kind: type[T], *, other_token: bool = False, **content: Any
    ) -> T:
        client = self._ready
        status, headers, answer = await self._answered(
            method, lambda: client.api_call(method, **content)
        )
        if status == 200 and answer.get("ok"):
            self._alive()
            if not other_token and (scopes := headers.get("X-OAuth-Scopes")):
                self.scopes = frozenset(scope.strip() for scope in scopes.split(","))
            return _read(method, answer, kind)
        error = refusal(method, status, headers, answer)
        if isinstance(error, BadToken) and not other_token:
            self._turned_away(error)
        raise error

    async def _answered(
        self, method: str, call: Callable[[], Awaitable[Any]]
    ) -> tuple[int, Mapping[str, str], Mapping[str, Any]]:
        from slack_sdk.errors import SlackApiError  # noqa: PLC0415 - an extra

        try:
            response = await call()
        except SlackApiError as error:
            response = error.response
        except RecursionError as error:
            raise Unreadable(f"Slack's answer to {method} is nested without end") from error
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise NotConnected(f"{self._base_url} cannot be reached: {error}") from error
        except (TimeoutError, aiohttp.ClientError, AttributeError) as error:
            # An attribute is missed where an answer that should be an object is a text.
            reason = str(error) or type(error).__name__
            raise OutcomeUnknown(f"Slack gave no answer to {method}: {reason}") from error
        if isinstance(response, aiohttp.ClientResponse):  # its body was no JSON
            return response.status, response.headers, {}
        answer = response.data if isinstance(response.data, dict) else {}
        return response.status_code, response.headers, answer

    async def upload(self, url: str, data: bytes) -> None:
        """Bring bytes to an address that Slack has given. Nobody sees them by that, so whatever
        fails may be tried again: `NotConnected`, or `Refused` where that is for good."""
        timeout = aiohttp.ClientTimeout(total=self._limit * _UPLOADS_TAKE, sock_connect=_CONNECT)
        try:
            async with self._line.post(url, data=data, timeout=timeout) as response:
                if 400 <= response.status < 500:
                    raise Refused(f"Slack refused the bytes of a file ({response.status})")
                if response.status != 200:
                    raise NotConnected(f"Slack did not take a file ({response.status})")
        except (TimeoutError, aiohttp.ClientError) as error:
            reason = str(error) or type(error).__name__
            raise NotConnected(f"a file could not be brought to Slack: {reason}") from error
        self._alive()

    async def download(self, url: str, *, most: int) -> bytes:
        """A file that people have sent. Raises as `Attachment.fetch` says."""
        if not self._is_slacks(url):  # it would be given our token
            raise NoAttachment("it is kept outside of Slack")
        headers = {"Authorization": f"Bearer {self._token.reveal()}"}
        timeout = aiohttp.ClientTimeout(sock_read=self._limit, sock_connect=_CONNECT)
        try:
            async with self._line.get(
                url, headers=headers, timeout=timeout, allow_redirects=False
            ) as response:
                return await self._body(response, most=most)
        except (TimeoutError, aiohttp.ClientError) as error:
            reason = str(error) or type(error).__name__
            raise NotConnected(f"a file could not be fetched from Slack: {reason}") from error

    async def _body(self, response: aiohttp.ClientResponse, *, most: int) -> bytes:
        if response.status >= 500 or response.status == 429:
            raise NotConnected(f"a file could not be fetched from Slack ({response.status})")
        if response.status != 200:
            raise NoAttachment(
                f"Slack does not give it ({response.status}); the app may lack the scope files:read"
            )
        return await body_of(response, most=most, alive=self._alive)

    def _is_slacks(self, url: str) -> bool:
        asked, ours = urlsplit(url), urlsplit(self._base_url)
        if (asked.scheme, asked.netloc) == (ours.scheme, ours.netloc):
            return True
        return asked.scheme == "https" and (asked.hostname or "").endswith(_OF_SLACK)

    @property
    def line(self) -> aiohttp.ClientSession:
        """For what is no call: the socket."""
        return self._line

    @property
    def _line(self) -> aiohttp.ClientSession:
        if self._http is None:
            raise NotConnected("the app is not connected to Slack; nothing was sent")
        return self._http

    @property
    def _ready(self) -> "AsyncWebClient":
        if self._client is None:
            raise NotConnected("the app is not connected to Slack; nothing was sent")
        return self._client


def _client() -> "type[AsyncWebClient]":
    try:
        from slack_sdk.web.async_client import (  # noqa: PLC0415 - an extra, and slow to import
            AsyncWebClient,
        )
    except ModuleNotFoundError as error:
        raise ConnectRefused(
            f"the library for Slack is not installed ({error})",
            remedy="pip install 'holdfast[slack]', and start the gateway again",
        ) from error
    return AsyncWebClient


def _nobody() -> None:
    """Who is told before there is a line."""


def _no_matter(error: BadToken) -> None:
    """Who is told before there is a line."""


def _given(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if value is not None}


def _field(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _read(method: str, answer: Mapping[str, Any], kind: type[T]) -> T:
    try:
        return msgspec.convert(answer, type=kind)
    except msgspec.ValidationError as error:
        raise OutcomeUnknown(f"Slack answered {method} with nonsense: {error}") from error
