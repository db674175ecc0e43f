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
from holdfast.models.discovery import parse_model_names
from holdfast.models.patience import CallDeadline
from holdfast.models.reading import NO_RESPONSE, ModelResponseStream, read_body, read_unstreamed
from holdfast.models.target import ModelTarget

_MAX_ENDPOINTS = 256


class ModelEndpoint:
    """Where and how the calls of one target are made; built once, so that a call need not."""

    __slots__ = ("headers", "models_url", "timeout", "url")

    def __init__(self, target: ModelTarget, codec: Codec) -> None:
        self.url = URL(target.base_url + codec.path)
        self.models_url = URL(target.base_url + "/models")
        # Compressed streams are held back by proxies until a block is full.
        self.headers = {**codec.headers(target), "Accept-Encoding": "identity"}
        self.timeout = aiohttp.ClientTimeout(total=None, connect=target.limits.connect or None)


class HttpTransport:
    """Owns the session and its connections."""

    def __init__(self, *, now: Callable[[], float]) -> None:
        self._now = now
        self._endpoints: dict[ModelTarget, ModelEndpoint] = {}
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
        deadline: CallDeadline,
    ) -> AsyncGenerator[ModelEvent, None]:
        """One attempt at a call: deltas and `Completed`, or `ModelFailed`."""
        body = codec.encode(request, target)
        address = self._endpoint(target, codec)
        deadline.mark_progress()
        response = await self._send(address, target, deadline, body=body)
        deadline.close_on_cancel(response.close)
        try:
            if response.status != 200:
                raise await self._response_error(response, target, deadline)
            decoder = codec.decoder(request, target)
            if "event-stream" not in response.content_type:
                events = await read_unstreamed(response, decoder, target, deadline)
                for event in events:
                    yield event
                return
            reading = ModelResponseStream(response, decoder, target, deadline)
            while not reading.done:
                for event in await reading.next_events():
                    yield event
            yield decoder.complete(ended=reading.ended)
        finally:
            deadline.close_on_cancel(None)
            # Gives a connection back whose body was read to the end, and closes any other.
            response.release()

    async def list_models(
        self, *, codec: Codec, target: ModelTarget, deadline: CallDeadline
    ) -> tuple[str, ...]:
        """The names of the models at this target; raises `ModelFailed`."""
        address = self._endpoint(target, codec)
        response = await self._send(address, target, deadline)
        try:
            if response.status != 200:
                raise await self._response_error(response, target, deadline)
            body = await read_body(response, target, deadline)
        finally:
            response.release()
        names = parse_model_names(body)
        if names is None:
            raise errors.not_a_stream_error(target, response.content_type, body)
        return names

    def _endpoint(self, target: ModelTarget, codec: Codec) -> ModelEndpoint:
        known = self._endpoints.get(target)
        if known is None:
            if len(self._endpoints) >= _MAX_ENDPOINTS:
                self._endpoints.clear()
            known = self._endpoints[target] = ModelEndpoint(target, codec)
        return known

    async def _send(
        self,
        endpoint: ModelEndpoint,
        target: ModelTarget,
        deadline: CallDeadline,
        *,
        body: bytes | None = None,
    ) -> aiohttp.ClientResponse:
        listing = body is None
        send = partial(
            self._session.request,
            "GET" if listing else "POST",
            endpoint.models_url if listing else endpoint.url,
            data=body,
            headers={**endpoint.headers, "Accept": "*/*"} if listing else endpoint.headers,
            timeout=endpoint.timeout,
            allow_redirects=False,  # a key goes to the address it was given for, and no other
        )
        try:
            return await deadline.wait(
                send, target.limits.first_token, stage=NO_RESPONSE, setting="first_token_timeout"
            )
        except aiohttp.ConnectionTimeoutError:
            limit = target.limits.connect
            raise errors.timeout_error(
                target, "could not be reached", "connect_timeout", limit
            ) from None
        except (aiohttp.ClientError, OSError) as error:
            # Some of them carry the request with its headers: not into anybody's log.
            raise errors.network_error(target, _describe_error(error)) from None

    async def _response_error(
        self, response: aiohttp.ClientResponse, target: ModelTarget, deadline: CallDeadline
    ) -> ModelFailed:
        try:
            body = await read_body(response, target, deadline)
        except ModelFailed:
            body = b""
        return errors.http_error(
            target, response.status, body=body, headers=response.headers, now=self._now
        )


def _describe_error(error: BaseException) -> str:
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
