"""HTTP transport of model calls: shared connections, server-sent events, response bodies.

Importing it creates aiohttp's TLS context, which reads the system's certificates: the pool does
so off the event loop, once, when the first real call is made.
"""

import os
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TypeVar

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError
from multidict import CIMultiDictProxy
from yarl import URL

from holdfast import __version__
from holdfast.core.turns.model import ModelEvent, ModelFailed, ModelRequest
from holdfast.models import errors
from holdfast.models.codecs.codec import Codec, StreamDecoder
from holdfast.models.retry import CallDeadline
from holdfast.models.selection import parse_model_names
from holdfast.models.target import ModelTarget

R = TypeVar("R")

_BOM = b"\xef\xbb\xbf"
_MAX_EVENT = 16 * 1024 * 1024
_MAX_BODY = 4 * 1024 * 1024
_MAX_ENDPOINTS = 256
_USAGE_WAIT = 5.0  # the reply is complete: usage and the end mark are worth a short wait only
_EOF_WAIT = 0.1  # for the end of the body, without which the connection cannot be reused
_USER_AGENT = f"holdfast/{__version__}"


class EventTooLong(Exception):
    """An event exceeds the maximum size and has no end yet."""


class SseParser:
    """Parses server-sent events; owns the bytes of an event whose end has not arrived yet.

    Works on bytes, so that a character split by a chunk boundary is complete before it is decoded.
    `ended` is set by the payload `[DONE]`; what follows it is not read.
    """

    __slots__ = ("_rest", "ended")

    def __init__(self) -> None:
        self._rest = b""
        self.ended = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The payloads that this chunk completed."""
        data = self._rest + chunk if self._rest else chunk
        if b"\r" in data:
            data = _normalise_newlines(data)
        blocks = data.split(b"\n\n")
        self._rest = blocks.pop()
        if len(self._rest) > _MAX_EVENT:
            raise EventTooLong
        return self._payloads(blocks)

    def flush(self) -> list[bytes]:
        """The last event of a server that ends its stream without a blank line."""
        rest, self._rest = self._rest.replace(b"\r", b"\n"), b""
        return self._payloads([rest])

    def _payloads(self, blocks: list[bytes]) -> list[bytes]:
        payloads = []
        for block in blocks:
            if self.ended:
                break
            payload = _payload(block)
            if payload == b"[DONE]":
                self.ended = True
            elif payload is not None:
                payloads.append(payload)
        return payloads


def _normalise_newlines(data: bytes) -> bytes:
    # A carriage return at the end may be half of a CRLF: it waits for the next chunk.
    incomplete = data.endswith(b"\r")
    body = data[:-1] if incomplete else data
    body = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return body + b"\r" if incomplete else body


def _payload(block: bytes) -> bytes | None:
    """The data of an event, its lines joined; None for comments, names and empty blocks."""
    lines = block.count(b"\n")
    if lines == 0 and block.startswith(b"data: "):
        return block[6:]
    if lines == 1 and block.startswith(b"event:"):
        rest = block[block.index(b"\n") + 1 :]
        if rest.startswith(b"data: "):
            return rest[6:]
    return _join_data(block)


def _join_data(block: bytes) -> bytes | None:
    lines = [
        line[5:].removeprefix(b" ")
        for line in block.removeprefix(_BOM).split(b"\n")
        if line.startswith(b"data:")
    ]
    return b"\n".join(lines).strip() or None


class StreamedReply:
    """Owns the reading of one streamed answer, and its connection until it is closed."""

    __slots__ = (
        "_complete",
        "_content",
        "_deadline",
        "_decoder",
        "_response",
        "_sse",
        "_started",
        "_target",
        "done",
    )

    def __init__(
        self,
        response: "ModelResponse",
        decoder: StreamDecoder,
        target: ModelTarget,
        deadline: CallDeadline,
    ) -> None:
        self._response = response
        self._content = response.content
        self._decoder = decoder
        self._target = target
        self._deadline = deadline
        self._sse = SseParser()
        self._started = False
        self._complete = False  # all of it was read
        self.done = False

    def close(self) -> None:
        self._deadline.close_on_cancel(None)
        self._response.release()

    @property
    def ended(self) -> bool:
        return self._sse.ended or self._decoder.ended

    async def next_events(self) -> list[ModelEvent]:
        """The deltas in the next chunk; at the end of the response, `Completed`. A reply that is
        cut off raises only after all its deltas were returned."""
        if self._complete:
            self.done = True
            return [self._decoder.complete(ended=self.ended)]
        try:
            chunk = await self._read()
        except ModelFailed:
            if not self._decoder.finished or self._deadline.cancelled:
                raise
            chunk = b""  # the reply is complete: keep it although the server does not end
        try:
            payloads = self._sse.feed(chunk) if chunk else self._sse.flush()
        except EventTooLong as error:
            raise errors.oversized_event_error(self._target) from error
        events: list[ModelEvent] = []
        if payloads:
            events = self._decoder.feed(payloads)
            self._started = True
            self._deadline.mark_progress()
        self._complete = not chunk or self.ended
        if self.ended and not self._content.at_eof():
            await self._drain()
        return events

    async def _read(self) -> bytes:
        limits = self._target.limits
        if self._decoder.finished:
            limit = min(_USAGE_WAIT, limits.between_tokens or _USAGE_WAIT)
            stage, setting = errors.TimeoutStage.STALLED, "between_tokens_timeout"
        elif self._started:
            limit, stage, setting = (
                limits.between_tokens,
                errors.TimeoutStage.STALLED,
                "between_tokens_timeout",
            )
        else:
            limit, stage, setting = (
                limits.first_token,
                errors.TimeoutStage.ANSWER,
                "first_token_timeout",
            )
        try:
            return await self._deadline.wait(
                self._content.readany, limit, stage=stage, setting=setting
            )
        except (aiohttp.ClientError, OSError) as error:
            raise errors.truncated_error(self._target) from error

    async def _drain(self) -> None:
        try:
            await self._deadline.wait(
                self._content.read,
                _EOF_WAIT,
                stage=errors.TimeoutStage.STALLED,
                setting="whole_timeout",
            )
        except (ModelFailed, aiohttp.ClientError, OSError):
            return  # the reply is complete; only the connection cannot be reused


async def read_body(
    response: "ModelResponse | aiohttp.ClientResponse", target: ModelTarget, deadline: CallDeadline
) -> bytes:
    deadline.mark_progress()
    limit = target.limits.between_tokens
    read = response.content.readany
    body = b""
    try:
        while len(body) < _MAX_BODY and (
            chunk := await deadline.wait(
                read, limit, stage=errors.TimeoutStage.STALLED, setting="between_tokens_timeout"
            )
        ):
            body += chunk
    except (aiohttp.ClientError, OSError) as error:
        raise errors.truncated_error(target) from error
    return body


class WholeReply(StreamedReply):
    """The answer of a server that sends it in one piece instead of streaming, or that streams with
    another content type."""

    __slots__ = ()

    async def next_events(self) -> list[ModelEvent]:
        self.done = True
        return await _read_whole(self._response, self._decoder, self._target, self._deadline)


async def _read_whole(
    response: "ModelResponse",
    decoder: StreamDecoder,
    target: ModelTarget,
    deadline: CallDeadline,
) -> list[ModelEvent]:
    body = await read_body(response, target, deadline)
    if body.lstrip().startswith(b"{"):
        events = decoder.feed([body])
        ended = decoder.finished
    elif body.lstrip().startswith((b"data:", b"event:", b":")):
        splitter = SseParser()
        events = decoder.feed([*splitter.feed(body), *splitter.flush()])
        ended = splitter.ended or decoder.finished
    else:
        ended = False
    if not ended:
        raise errors.not_a_stream_error(target, response.content_type, body)
    return [*events, decoder.complete(ended=True)]


class ModelResponse:
    """One response, and the connection that it comes on until it is released or closed."""

    __slots__ = ("_connection", "content", "content_type", "headers", "status")

    def __init__(
        self,
        connection: aiohttp.connector.Connection,
        *,
        status: int,
        headers: CIMultiDictProxy[str],
        content: aiohttp.StreamReader,
    ) -> None:
        self._connection = connection
        self.status = status
        self.headers = headers
        self.content = content
        self.content_type = headers.get("Content-Type", "").partition(";")[0].strip().lower()

    def release(self) -> None:
        """Return a connection whose body was read to the end to the pool, and close any other.
        Idempotent."""
        self._connection.release()

    def close(self) -> None:
        """End the reading of the body at once."""
        self._connection.close()


class ModelEndpoint:
    """URL, headers and timeout of one target; built once and not for each call."""

    __slots__ = ("connection_request", "headers", "models_url", "post_head", "timeout")

    def __init__(self, target: ModelTarget, codec: Codec) -> None:
        url = URL(target.base_url + codec.path)
        self.models_url = URL(target.base_url + "/models")
        # Proxies hold compressed streams back until a block is full.
        self.headers = {**codec.headers(target), "Accept-Encoding": "identity"}
        self.timeout = aiohttp.ClientTimeout(total=None, connect=target.limits.connect or None)
        self.connection_request = request = aiohttp.ClientRequest("POST", url)
        headers = {**self.headers, "User-Agent": _USER_AGENT}
        # A user and a password in the address, which aiohttp has made a header of.
        if (credentials := request.headers.get("Authorization")) is not None:
            headers.setdefault("Authorization", credentials)
        self.post_head = _request_head(url, headers)


def _request_head(url: URL, headers: Mapping[str, str]) -> bytes:
    """The request line and the headers of a POST, without the length of its body."""
    lines = [
        f"POST {url.raw_path_qs} HTTP/1.1",
        f"Host: {url.host_port_subcomponent}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    if any(not line.isprintable() for line in lines):
        raise ValueError("a header of the model has a line break or another control character")
    return "\r\n".join(lines).encode()


class HttpTransport:
    """Owns the connections to all model servers. Calls bypass aiohttp's session (decision 58)."""

    def __init__(self, *, now: Callable[[], float]) -> None:
        self._now = now
        self._endpoints: dict[ModelTarget, ModelEndpoint] = {}
        connector = aiohttp.TCPConnector(limit=0, ttl_dns_cache=300, keepalive_timeout=30)
        self._connector = connector
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": _USER_AGENT},
        )

    async def close(self) -> None:
        await self._session.close()

    async def open(
        self,
        request: ModelRequest,
        *,
        codec: Codec,
        target: ModelTarget,
        deadline: CallDeadline,
    ) -> StreamedReply:
        """Send the request; returns when the head of the response is here, for the caller to close.
        Raises `ModelFailed`."""
        body = codec.encode(request, target)
        address = self._endpoint(target, codec)
        deadline.mark_progress()
        response = await self._send(partial(self._post, address, body), target, deadline)
        deadline.close_on_cancel(response.close)
        try:
            if response.status != 200:
                raise await self._response_error(response, target, deadline)
            streams = "event-stream" in response.content_type
            decoder = codec.decoder(request, target)
            return (StreamedReply if streams else WholeReply)(response, decoder, target, deadline)
        except BaseException:
            deadline.close_on_cancel(None)
            response.release()
            raise

    async def list_models(
        self, *, codec: Codec, target: ModelTarget, deadline: CallDeadline
    ) -> tuple[str, ...]:
        """The names of the models at this target; raises `ModelFailed`."""
        address = self._endpoint(target, codec)
        response = await self._send(partial(self._get, address), target, deadline)
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

    async def _get(self, endpoint: ModelEndpoint) -> aiohttp.ClientResponse:
        return await self._session.get(
            endpoint.models_url,
            headers={**endpoint.headers, "Accept": "*/*"},
            timeout=endpoint.timeout,
            allow_redirects=False,  # a key must only be sent to the configured address
        )

    async def _post(self, endpoint: ModelEndpoint, body: bytes) -> ModelResponse:
        """Without the session: its request is as much work as all that a codec does, in a task of
        its own for the body. Redirects, cookies and proxies, which it is for, are not wanted."""
        try:
            connection = await self._connector.connect(
                endpoint.connection_request, traces=[], timeout=endpoint.timeout
            )
        except TimeoutError as error:
            raise aiohttp.ConnectionTimeoutError from error
        try:
            protocol = connection.protocol
            assert protocol is not None and connection.transport is not None
            protocol.set_response_params(read_until_eof=True)
            head = b"%b\r\nContent-Length: %d\r\n\r\n" % (endpoint.post_head, len(body))
            connection.transport.write(head + body)
            status = 100
            while 100 <= status < 200 and status != 101:  # announcements of the response
                message, content = await protocol.read()
                status = message.code
        except HttpProcessingError as error:
            connection.close()
            raise aiohttp.ClientPayloadError(error.message) from error
        except BaseException:
            connection.close()
            raise
        return ModelResponse(connection, status=status, headers=message.headers, content=content)

    async def _send(
        self, send: Callable[[], Awaitable[R]], target: ModelTarget, deadline: CallDeadline
    ) -> R:
        try:
            return await deadline.wait(
                send,
                target.limits.first_token,
                stage=errors.TimeoutStage.ANSWER,
                setting="first_token_timeout",
            )
        except aiohttp.ConnectionTimeoutError:
            limit = target.limits.connect
            raise errors.timeout_error(
                target, errors.TimeoutStage.CONNECT, "connect_timeout", limit
            ) from None
        except (aiohttp.ClientError, OSError) as error:
            # Some of them contain the request with its headers, which must not be logged.
            raise errors.network_error(target, _describe_error(error)) from None

    async def _response_error(
        self,
        response: "ModelResponse | aiohttp.ClientResponse",
        target: ModelTarget,
        deadline: CallDeadline,
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
