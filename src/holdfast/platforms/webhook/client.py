"""Posts answers to the endpoint of an account, and says what its HTTP status means for the
delivery."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import aiohttp
import msgspec

from holdfast.core.errors import NotConnected, OutcomeUnknown, SendError, SendRejected, Throttled
from holdfast.core.net import AddressPolicy, guarded_socket_factory, is_public
from holdfast.core.ports.runtime import Clock
from holdfast.core.secrets import Secret, mask_passwords
from holdfast.platforms.webhook.plugin import USER_AGENT, WebhookSettings
from holdfast.platforms.webhook.signatures import standard_headers

_CONNECT_TIMEOUT = 10.0  # seconds for a connection to come about
_PING_TIMEOUT = 10.0  # seconds that an answer to a ping is waited for
_LARGE_BODY = 256 * 1024  # a body that takes longer to sign than the event loop should be held up
_DEFAULT_RETRY_AFTER = 5.0  # seconds, where a refusal for flooding does not say how many
_MAX_RETRY_AFTER = 3600.0

log = logging.getLogger(__name__)


class WebhookUnauthorized(NotConnected):
    """The receiver does not know us: the secret, or the address, is not the one it has. The
    message is still ours to send."""


class PingMessage(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="ping"):
    """Asks whether the receiver is there, and knows us; it has nothing to do about it."""

    id: str
    account: str


class WebhookClient:
    """Owns its connections while it is open; `alive` is told of each answer that counts."""

    def __init__(
        self,
        url: str,
        secret: Secret | None,
        *,
        is_allowed_address: AddressPolicy,
        timeout: float,
        clock: Clock,
    ) -> None:
        self._url = url
        self._secret = secret
        self._is_allowed_address = is_allowed_address
        self._timeout = timeout
        self._clock = clock
        self._on_response: Callable[[], None] = lambda: None
        self._http: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def open(self, on_response: Callable[[], None]) -> AsyncIterator[None]:
        self._on_response = on_response
        connector = aiohttp.TCPConnector(
            socket_factory=guarded_socket_factory(self._is_allowed_address, socket.socket)
        )
        async with aiohttp.ClientSession(connector=connector) as self._http:
            try:
                yield
            finally:
                self._http = None

    async def ping(self, message_id: str, *, account: str) -> None:
        """Returns where there is an answer: a receiver that makes nothing of a ping is there, too.
        Raises `ConnectRefused`, or the error that says that there was no answer."""
        ping = PingMessage(id=message_id, account=account)
        try:
            await self.post(
                message_id,
                msgspec.json.encode(ping),
                timeout_seconds=min(self._timeout, _PING_TIMEOUT),
            )
        except (SendRejected, Throttled) as error:
            log.debug("A ping: %s", error, extra={"action": "ping_refused"})

    async def post(
        self, message_id: str, body: bytes, *, timeout_seconds: float | None = None
    ) -> None:
        """Returns where it was taken. The same name with the same body is one thing, however often
        it is posted. Raises the `SendError` that says what is known."""
        timeout = aiohttp.ClientTimeout(
            total=timeout_seconds or self._timeout, sock_connect=_CONNECT_TIMEOUT
        )
        headers = await self._signed_headers(message_id, body)
        try:
            async with self._session.post(
                self._url,
                data=body,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,  # whoever is there may lead anywhere
            ) as response:
                found = classify_response(response.status, response.headers)
        except (
            aiohttp.ClientConnectorError,
            aiohttp.ConnectionTimeoutError,
            aiohttp.InvalidURL,
        ) as error:
            why = mask_passwords(str(error))
            raise NotConnected("the receiver cannot be reached: {why}", why=why) from error
        except (TimeoutError, aiohttp.ClientError) as error:
            why = mask_passwords(str(error)) or type(error).__name__
            raise OutcomeUnknown("the receiver gave no answer: {why}", why=why) from error
        if not isinstance(found, OutcomeUnknown | WebhookUnauthorized):
            self._on_response()
        if found is not None:
            raise found

    async def _signed_headers(self, message_id: str, body: bytes) -> dict[str, str]:
        if len(body) < _LARGE_BODY:
            return self._headers(message_id, body)
        return await asyncio.to_thread(self._headers, message_id, body)

    def _headers(self, message_id: str, body: bytes) -> dict[str, str]:
        headers = {
            "Content-Type": "application/json",
            "Idempotency-Key": message_id,
            "User-Agent": USER_AGENT,
        }
        if self._secret is None:
            return headers
        signed = standard_headers(
            self._secret, message_id=message_id, timestamp=self._clock.now(), body=body
        )
        return {**headers, **signed}

    @property
    def _session(self) -> aiohttp.ClientSession:
        if self._http is None:
            raise NotConnected("the account is not connected; nothing was sent")
        return self._http


def create_client(
    settings: WebhookSettings, secrets: Mapping[str, Secret], *, clock: Clock
) -> WebhookClient:
    return WebhookClient(
        settings.url,
        secrets.get("secret"),
        is_allowed_address=(lambda _: True) if settings.allow_private else is_public,
        timeout=settings.timeout,
        clock=clock,
    )


def classify_response(status: int, headers: Mapping[str, str]) -> SendError | None:
    """What an answer says of a post; None: it was taken."""
    message = f"the receiver answered {status}"
    if 200 <= status < 300:
        return None
    # 409: a post with this key is at work there, says the draft on the Idempotency-Key header.
    if status >= 500 or status in (408, 409):
        return OutcomeUnknown("{message_text}: it may have taken it", message_text=message)
    if status == 401:
        return WebhookUnauthorized("{message_text}: it does not know us", message_text=message)
    if status == 429:
        return Throttled(message, retry_after=_parse_retry_after(headers.get("Retry-After", "")))
    if status < 400:
        where = headers.get("Location", "elsewhere")
        return SendRejected(
            "{message_text} and leads to {where}: no redirect is followed",
            message_text=message,
            where=where,
        )
    return SendRejected(message)


def _parse_retry_after(value: str) -> float:
    """How long to wait. A date is a wait of a few seconds, after which it is told again."""
    known = value.isascii() and value.isdigit() and len(value) < 8
    return min(float(value), _MAX_RETRY_AFTER) if known else _DEFAULT_RETRY_AFTER
