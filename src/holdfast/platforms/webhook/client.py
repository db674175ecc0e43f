"""The receiver: the address that answers are posted to, and what its reply means for them."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import aiohttp
import msgspec

from holdfast.core.address_passwords import without_passwords
from holdfast.core.errors import NotConnected, OutcomeUnknown, Refused, SendError, Throttled
from holdfast.core.net import Permits, guard, is_public
from holdfast.core.ports.protocols import Clock
from holdfast.core.secret import Secret
from holdfast.platforms.webhook.door import WebhookSettings
from holdfast.platforms.webhook.hook_settings import AGENT
from holdfast.platforms.webhook.signatures import standard_headers

_CONNECT = 10.0  # seconds for a connection to come about
_PATIENCE = 10.0  # seconds that an answer to a ping is waited for
_LARGE = 256 * 1024  # a body that takes longer to sign than the event loop should be held up
_FLOOD = 5.0  # seconds, where a refusal for flooding does not say how many
_LONGEST_FLOOD = 3600.0

log = logging.getLogger(__name__)


class ShutOut(NotConnected):
    """The receiver does not know us: the secret, or the address, is not the one it has. The
    message is still ours to send."""


class Ping(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="ping"):
    """Asks whether the receiver is there, and knows us; it has nothing to do about it."""

    id: str
    account: str


class Receiver:
    """Owns its connections while it is open; `alive` is told of each answer that counts."""

    def __init__(
        self, url: str, secret: Secret | None, *, permits: Permits, limit: float, clock: Clock
    ) -> None:
        self._url = url
        self._secret = secret
        self._permits = permits
        self._limit = limit
        self._clock = clock
        self._alive: Callable[[], None] = lambda: None
        self._http: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def open(self, alive: Callable[[], None]) -> AsyncIterator[None]:
        self._alive = alive
        connector = aiohttp.TCPConnector(socket_factory=guard(self._permits, socket.socket))
        async with aiohttp.ClientSession(connector=connector) as self._http:
            try:
                yield
            finally:
                self._http = None

    async def ping(self, name: str, *, account: str) -> None:
        """Returns where there is an answer: a receiver that makes nothing of a ping is there, too.
        Raises `ShutOut`, or whatever else says that there was none."""
        ping = Ping(id=name, account=account)
        try:
            await self.post(name, msgspec.json.encode(ping), limit=min(self._limit, _PATIENCE))
        except (Refused, Throttled) as error:
            log.debug("A ping: %s", error, extra={"action": "ping_refused"})

    async def post(self, name: str, body: bytes, *, limit: float | None = None) -> None:
        """Returns where it was taken. The same name with the same body is one thing, however often
        it is posted. Raises the `SendError` that says what is known."""
        timeout = aiohttp.ClientTimeout(total=limit or self._limit, sock_connect=_CONNECT)
        headers = await self._signed(name, body)
        try:
            async with self._line.post(
                self._url,
                data=body,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,  # whoever is there may lead anywhere
            ) as response:
                found = meaning(response.status, response.headers)
        except (
            aiohttp.ClientConnectorError,
            aiohttp.ConnectionTimeoutError,
            aiohttp.InvalidURL,
        ) as error:
            why = without_passwords(str(error))
            raise NotConnected(f"the receiver cannot be reached: {why}") from error
        except (TimeoutError, aiohttp.ClientError) as error:
            why = without_passwords(str(error)) or type(error).__name__
            raise OutcomeUnknown(f"the receiver gave no answer: {why}") from error
        if not isinstance(found, OutcomeUnknown | ShutOut):
            self._alive()
        if found is not None:
            raise found

    async def _signed(self, name: str, body: bytes) -> dict[str, str]:
        if len(body) < _LARGE:
            return self._headers(name, body)
        return await asyncio.to_thread(self._headers, name, body)

    def _headers(self, name: str, body: bytes) -> dict[str, str]:
        headers = {
            "Content-Type": "application/json",
            "Idempotency-Key": name,
            "User-Agent": AGENT,
        }
        if self._secret is None:
            return headers
        signed = standard_headers(self._secret, name=name, at=self._clock.now(), body=body)
        return {**headers, **signed}

    @property
    def _line(self) -> aiohttp.ClientSession:
        if self._http is None:
            raise NotConnected("the account is not connected; nothing was sent")
        return self._http


def receiver_of(
    settings: WebhookSettings, secrets: Mapping[str, Secret], *, clock: Clock
) -> Receiver:
    return Receiver(
        settings.url,
        secrets.get("secret"),
        permits=(lambda _: True) if settings.allow_private else is_public,
        limit=settings.timeout,
        clock=clock,
    )


def meaning(status: int, headers: Mapping[str, str]) -> SendError | None:
    """What an answer says of a post; None: it was taken."""
    told = f"the receiver answered {status}"
    if 200 <= status < 300:
        return None
    # 409: a post with this key is at work there, says the draft on the Idempotency-Key header.
    if status >= 500 or status in (408, 409):
        return OutcomeUnknown(f"{told}: it may have taken it")
    if status == 401:
        return ShutOut(f"{told}: it does not know us")
    if status == 429:
        return Throttled(told, retry_after=_seconds(headers.get("Retry-After", "")))
    if status < 400:
        where = headers.get("Location", "elsewhere")
        return Refused(f"{told} and leads to {where}: no redirect is followed")
    return Refused(told)


def _seconds(given: str) -> float:
    """How long to wait. A date is a wait of a few seconds, after which it is told again."""
    known = given.isascii() and given.isdigit() and len(given) < 8
    return min(float(given), _LONGEST_FLOOD) if known else _FLOOD
