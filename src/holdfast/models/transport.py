"""The transport: model calls over one shared aiohttp session. The only importer of aiohttp here.

Importing it makes aiohttp's TLS context, which reads the system's certificates: the pool does
so off the event loop, once, when the first real call is made.
"""

import os
from collections.abc import AsyncGenerator, Callable
from functools import partial

import aiohttp
from yarl import URL

from holdfast import __version__
from holdfast.core.model import ModelEvent, ModelFailed, ModelRequest
from holdfast.models import faults
from holdfast.models.codec import Codec, Decoder
from holdfast.models.patience import Patience
from holdfast.models.sse import EventTooLong, SseSplitter
from holdfast.models.target import ModelTarget

_ADDRESSES_KEPT = 256
_MAX_BODY = 4 * 1024 * 1024
_AFTER_FINISH = 5.0  # the reply is whole: usage and the end mark are worth a short wait only
_AFTER_END = 0.1  # for the end of the body, without which the connection cannot be used again


class Address:
    """Where and how the calls of one target are made; built once, so that a call need not."""

    __slots__ = ("headers", "timeout", "url")

    def __init__(self, target: ModelTarget, codec: Codec) -> None:
        self.url = URL(target.base_url + codec.path)
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
        response = await self._post(address, body, target, patience)
        patience.hold(response.close)
        try:
            if response.status != 200:
                raise await self._refused(response, target, patience)
            decoder = codec.decoder(request, target)
            if "event-stream" not in response.content_type:
                events = await _unstreamed(response, decoder, target, patience)
                for event in events:
                    yield event
                return
            reading = _Reading(response, decoder, target, patience)
            while not reading.over:
                for event in await reading.next_events():
                    yield event
            yield decoder.complete(ended=reading.ended)
        finally:
            patience.hold(None)
            # Gives a connection back whose body was read to the end, and closes any other.
            response.release()

    def _address(self, target: ModelTarget, codec: Codec) -> Address:
        known = self._addresses.get(target)
        if known is None:
            if len(self._addresses) >= _ADDRESSES_KEPT:
                self._addresses.clear()
            known = self._addresses[target] = Address(target, codec)
        return known

    async def _post(
        self, address: Address, body: bytes, target: ModelTarget, patience: Patience
    ) -> aiohttp.ClientResponse:
        post = partial(
            self._session.post,
            address.url,
            data=body,
            headers=address.headers,
            timeout=address.timeout,
            allow_redirects=False,  # a key goes to the address it was given for, and no other
        )
        try:
            return await patience.wait(
                post, target.limits.first_token, stage=_SILENT, setting="first_token_timeout"
            )
        except aiohttp.ConnectionTimeoutError:
            limit = target.limits.connect
            raise faults.timed_out(
                target, "could not be reached", "connect_timeout", limit
            ) from None
        except (aiohttp.ClientError, OSError) as error:
            # Some of them carry the request with its headers: not into anybody's log.
            raise faults.network(target, _told(error)) from None

    async def _refused(
        self, response: aiohttp.ClientResponse, target: ModelTarget, patience: Patience
    ) -> ModelFailed:
        try:
            body = await _whole(response, target, patience)
        except ModelFailed:
            body = b""
        return faults.from_status(
            target, response.status, body=body, headers=response.headers, now=self._now
        )


_SILENT = "did not begin to answer"
_STALLED = "stopped in the middle of its answer and sent nothing more"


class _Reading:
    """Owns the reading of one streamed answer."""

    __slots__ = ("_content", "_decoder", "_patience", "_sse", "_started", "_target", "over")

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        decoder: Decoder,
        target: ModelTarget,
        patience: Patience,
    ) -> None:
        self._content = response.content
        self._decoder = decoder
        self._target = target
        self._patience = patience
        self._sse = SseSplitter()
        self._started = False
        self.over = False

    @property
    def ended(self) -> bool:
        return self._sse.ended or self._decoder.ended

    async def next_events(self) -> list[ModelEvent]:
        """The deltas in what arrives next; sets `over` at the end of the answer."""
        try:
            chunk = await self._read()
        except ModelFailed:
            if not self._decoder.finished or self._patience.ended:
                raise
            chunk = b""  # the reply is whole: it is not lost to a server that does not end
        try:
            payloads = self._sse.feed(chunk) if chunk else self._sse.flush()
        except EventTooLong as error:
            raise faults.endless(self._target) from error
        events: list[ModelEvent] = []
        if payloads:
            events = self._decoder.feed(payloads)
            self._started = True
            self._patience.heard()
        self.over = not chunk or self.ended
        if self.ended and not self._content.at_eof():
            await self._read_end()
        return events

    async def _read(self) -> bytes:
        limits = self._target.limits
        if self._decoder.finished:
            limit = min(_AFTER_FINISH, limits.between_tokens or _AFTER_FINISH)
            stage, setting = _STALLED, "between_tokens_timeout"
        elif self._started:
            limit, stage, setting = limits.between_tokens, _STALLED, "between_tokens_timeout"
        else:
            limit, stage, setting = limits.first_token, _SILENT, "first_token_timeout"
        try:
            return await self._patience.wait(
                self._content.readany, limit, stage=stage, setting=setting
            )
        except (aiohttp.ClientError, OSError) as error:
            raise faults.cut(self._target) from error

    async def _read_end(self) -> None:
        try:
            await self._patience.wait(
                self._content.read, _AFTER_END, stage=_STALLED, setting="whole_timeout"
            )
        except (ModelFailed, aiohttp.ClientError, OSError):
            return  # the reply is whole; only the connection is not worth keeping


async def _whole(
    response: aiohttp.ClientResponse, target: ModelTarget, patience: Patience
) -> bytes:
    patience.heard()
    limit = target.limits.between_tokens
    read = response.content.readany
    body = b""
    try:
        while len(body) < _MAX_BODY and (
            chunk := await patience.wait(
                read, limit, stage=_STALLED, setting="between_tokens_timeout"
            )
        ):
            body += chunk
    except (aiohttp.ClientError, OSError) as error:
        raise faults.cut(target) from error
    return body


async def _unstreamed(
    response: aiohttp.ClientResponse, decoder: Decoder, target: ModelTarget, patience: Patience
) -> list[ModelEvent]:
    """The events of a server that answers in one piece though it was asked to stream, or that
    streams under another name."""
    body = await _whole(response, target, patience)
    if body.lstrip().startswith(b"{"):
        events = decoder.feed([body])
        ended = decoder.finished
    elif body.lstrip().startswith((b"data:", b"event:", b":")):
        splitter = SseSplitter()
        events = decoder.feed([*splitter.feed(body), *splitter.flush()])
        ended = splitter.ended or decoder.finished
    else:
        ended = False
    if not ended:
        raise faults.no_stream(target, response.content_type, body)
    return [*events, decoder.complete(ended=True)]


def _told(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"its certificate is not trusted ({error.certificate_error})"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "its name is not known to the name service"
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno
        return os.strerror(number) if number else str(error.os_error)
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "it closed the connection without an answer"
    return str(error) or type(error).__name__
