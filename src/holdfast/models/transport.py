"""The transport: model calls over one shared aiohttp session.

Importing it makes aiohttp's TLS context, which reads the system's certificates: the pool does
so off the event loop, once, when the first real call is made.
"""

import os
from collections.abc import AsyncGenerator, Callable
from functools import partial

import aiohttp
from yarl import URL

from holdfast import __version__
from holdfast.core.turns.model import ModelEvent, ModelFailed, ModelRequest
from holdfast.models import errors
from holdfast.models.codecs.codec import Codec
from holdfast.models.discovery import model_names
from holdfast.models.patience import Patience
from holdfast.models.reading import SILENT, Reading, unstreamed, whole
from holdfast.models.target import ModelTarget

_ADDRESSES_KEPT = 256


class Address:
    """Where and how the calls of one target are made; built once, so that a call need not."""

    __slots__ = ("headers", "models", "timeout", "url")

    def __init__(self, target: ModelTarget, codec: Codec) -> None:
        self.url = URL(target.base_url + codec.path)
        self.models = URL(target.base_url + "/models")
        # Compressed streams are held back by proxies until a block is full.
        self.headers = {**codec.headers(target), "Accept-Encoding": "identity"}
        self.timeout = aiohttp.ClientTimeout(total=None, connect=target.limits.connect or None)


class Transport:
    """Owns the session and its connections."""

    def __init__(self, *, now: Callable[[], float]) -> None:
        self._now = now
        self._addresses: dict[ModelTarget, Address] = {}
        connector = aiohttp.TCPConnector(limit=0, ttl_dns_cache=300, keepalive_timeout=30)
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": f"holdfast/{__version__}"},
        )

    async def close(self) -> None:
        await self._session.close()

    async def attempt(
        self,
        request: ModelRequest,
        *,
        codec: Codec,
        target: ModelTarget,
        patience: Patience,
    ) -> AsyncGenerator[ModelEvent, None]:
        """One attempt at a call: deltas and `Completed`, or `ModelFailed`."""
        body = codec.encode(request, target)
        address = self._address(target, codec)
        patience.heard()
        response = await self._send(address, target, patience, body=body)
        patience.hold(response.close)
        try:
            if response.status != 200:
                raise await self._refused(response, target, patience)
            decoder = codec.decoder(request, target)
            if "event-stream" not in response.content_type:
                events = await unstreamed(response, decoder, target, patience)
                for event in events:
                    yield event
                return
            reading = Reading(response, decoder, target, patience)
            while not reading.over:
                for event in await reading.next_events():
                    yield event
            yield decoder.complete(ended=reading.ended)
        finally:
            patience.hold(None)
            # Gives a connection back whose body was read to the end, and closes any other.
            response.release()

    async def models(
        self, *, codec: Codec, target: ModelTarget, patience: Patience
    ) -> tuple[str, ...]:
        """The names of the models at this target; raises `ModelFailed`."""
        address = self._address(target, codec)
        response = await self._send(address, target, patience)
        try:
            if response.status != 200:
                raise await self._refused(response, target, patience)
            body = await whole(response, target, patience)
        finally:
            response.release()
        names = model_names(body)
        if names is None:
            raise errors.no_stream(target, response.content_type, body)
        return names

    def _address(self, target: ModelTarget, codec: Codec) -> Address:
        known = self._addresses.get(target)
        if known is None:
            if len(self._addresses) >= _ADDRESSES_KEPT:
                self._addresses.clear()
            known = self._addresses[target] = Address(target, codec)
        return known

    async def _send(
        self,
        address: Address,
        target: ModelTarget,
        patience: Patience,
        *,
        body: bytes | None = None,
    ) -> aiohttp.ClientResponse:
        listing = body is None
        send = partial(
            self._session.request,
            "GET" if listing else "POST",
            address.models if listing else address.url,
            data=body,
            headers={**address.headers, "Accept": "*/*"} if listing else address.headers,
            timeout=address.timeout,
            allow_redirects=False,  # a key goes to the address it was given for, and no other
        )
        try:
            return await patience.wait(
                send, target.limits.first_token, stage=SILENT, setting="first_token_timeout"
            )
        except aiohttp.ConnectionTimeoutError:
            limit = target.limits.connect
            raise errors.timed_out(
                target, "could not be reached", "connect_timeout", limit
            ) from None
        except (aiohttp.ClientError, OSError) as error:
            # Some of them carry the request with its headers: not into anybody's log.
            raise errors.network(target, _told(error)) from None

    async def _refused(
        self, response: aiohttp.ClientResponse, target: ModelTarget, patience: Patience
    ) -> ModelFailed:
        try:
            body = await whole(response, target, patience)
        except ModelFailed:
            body = b""
        return errors.from_status(
            target, response.status, body=body, headers=response.headers, now=self._now
        )


def _told(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"its certificate is not trusted ({error.certificate_error})"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "its name is not known to the name service"
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno
        return os.strerror(number) if number else str(error.os_error)
    if isinstance(error, aiohttp.ClientOSError):
        return os.strerror(error.errno) if error.errno else "the connection broke"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "it closed the connection without an answer"
    return str(error) or type(error).__name__
