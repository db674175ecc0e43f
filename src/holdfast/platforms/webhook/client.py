"""Posts answers to the endpoint of an account, and converts its HTTP status to the outcome of the
delivery."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import aiohttp
import msgspec

from holdfast.core.errors import (
    FileTooLarge,
    NotConnected,
    OutcomeUnknown,
    SendError,
    SendRejected,
    Throttled,
)
from holdfast.core.net import AddressPolicy, guarded_socket_factory
from holdfast.core.ports.runtime import Clock
from holdfast.core.secrets import Secret, mask_passwords
from holdfast.platforms.webhook.plugin import USER_AGENT, WebhookSettings
from holdfast.platforms.webhook.signatures import standard_headers
from holdfast.system.addresses import is_external

_CONNECT_TIMEOUT = 10.0  # seconds to establish a connection
_PING_TIMEOUT = 10.0  # seconds to wait for the response to a ping
_LARGE_BODY = 256 * 1024  # bytes; signing a larger body would block the event loop for too long
_DEFAULT_RETRY_AFTER = 5.0  # seconds, if a rate limit response does not tell
_MAX_RETRY_AFTER = 3600.0

log = logging.getLogger(__name__)


class WebhookUnauthorized(NotConnected):
    """The receiver does not accept us: the secret or the URL is wrong. The message is still
    pending."""


class PingMessage(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="ping"):
    """Asks whether the receiver is reachable and accepts us; it requires no action."""

    id: str
    account: str


class WebhookClient:
    """Owns its connections while it is open; `alive` is called for each valid response."""

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
        """Return if there is a response, even from a receiver that does not know pings. Raises
        `ConnectRefused`, or the error for a missing response."""
        ping = PingMessage(id=message_id, account=account)
        try:
            await self.post(
                message_id,
                msgspec.json.encode(ping),
                timeout_seconds=min(self._timeout, _PING_TIMEOUT),
            )
        except (SendRejected, Throttled) as error:
            log.debug(
                "The webhook endpoint did not accept a ping: %s",
                error,
                extra={"action": "ping_refused"},
            )

    async def post(
        self, message_id: str, body: bytes, *, timeout_seconds: float | None = None
    ) -> None:
        """Post a message; returns if it was accepted. Posts with the same id and body count as one,
        however often they are repeated. Raises the `SendError` that fits what is known."""
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
                allow_redirects=False,  # a redirect could lead to any address
            ) as response:
                found = classify_response(response.status, response.headers)
        except (
            aiohttp.ClientConnectorError,
            aiohttp.ConnectionTimeoutError,
            aiohttp.InvalidURL,
        ) as error:
            why = mask_passwords(str(error))
            raise NotConnected("the endpoint cannot be reached: {why}", why=why) from error
        except (TimeoutError, aiohttp.ClientError) as error:
            why = mask_passwords(str(error)) or type(error).__name__
            raise OutcomeUnknown("the endpoint did not respond: {why}", why=why) from error
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
        is_allowed_address=(lambda _: True) if settings.allow_private else is_external,
        timeout=settings.timeout,
        clock=clock,
    )


def classify_response(status: int, headers: Mapping[str, str]) -> SendError | None:
    """The error that a response means; None if the post was accepted."""
    if 200 <= status < 300:
        return None
    # 409: a post with this key is being processed, by the draft on the Idempotency-Key header.
    if status >= 500 or status in (408, 409):
        return OutcomeUnknown(
            "the endpoint answered {status}; it may have accepted the post", status=status
        )
    if status == 401:
        return WebhookUnauthorized(
            "the endpoint answered {status}: it does not accept our secret", status=status
        )
    if status == 429:
        return Throttled(
            "the endpoint answered {status}",
            status=status,
            retry_after=_parse_retry_after(headers.get("Retry-After", "")),
        )
    if status == 413:
        return FileTooLarge("the endpoint accepts nothing of this size (413)")
    if status < 400:
        where = headers.get("Location", "elsewhere")
        return SendRejected(
            "the endpoint answered {status} and redirects to {where}: redirects are not followed",
            status=status,
            where=where,
        )
    return SendRejected("the endpoint answered {status}", status=status)


def _parse_retry_after(value: str) -> float:
    """Seconds to wait. A date is treated as a short wait, after which the endpoint responds
    again."""
    known = value.isascii() and value.isdigit() and len(value) < 8
    return min(float(value), _MAX_RETRY_AFTER) if known else _DEFAULT_RETRY_AFTER
