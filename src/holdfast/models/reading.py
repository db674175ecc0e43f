"""Reading: an answer as its bytes come in, streamed or whole."""

import aiohttp

from holdfast.core.turns.model import ModelEvent, ModelFailed
from holdfast.models import errors
from holdfast.models.codecs.codec import StreamDecoder
from holdfast.models.patience import CallDeadline
from holdfast.models.sse import EventTooLong, SseParser
from holdfast.models.target import ModelTarget

_MAX_BODY = 4 * 1024 * 1024
_USAGE_WAIT = 5.0  # the reply is whole: usage and the end mark are worth a short wait only
_EOF_WAIT = 0.1  # for the end of the body, without which the connection cannot be used again
NO_RESPONSE = "did not begin to answer"
_STALLED = "stopped in the middle of its answer and sent nothing more"


class ModelResponseStream:
    """Owns the reading of one streamed answer."""

    __slots__ = ("_content", "_decoder", "_deadline", "_sse", "_started", "_target", "done")

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        decoder: StreamDecoder,
        target: ModelTarget,
        deadline: CallDeadline,
    ) -> None:
        self._content = response.content
        self._decoder = decoder
        self._target = target
        self._deadline = deadline
        self._sse = SseParser()
        self._started = False
        self.done = False

    @property
    def ended(self) -> bool:
        return self._sse.ended or self._decoder.ended

    async def next_events(self) -> list[ModelEvent]:
        """The deltas in what arrives next; sets `over` at the end of the answer."""
        try:
            chunk = await self._read()
        except ModelFailed:
            if not self._decoder.finished or self._deadline.cancelled:
                raise
            chunk = b""  # the reply is whole: it is not lost to a server that does not end
        try:
            payloads = self._sse.feed(chunk) if chunk else self._sse.flush()
        except EventTooLong as error:
            raise errors.oversized_event_error(self._target) from error
        events: list[ModelEvent] = []
        if payloads:
            events = self._decoder.feed(payloads)
            self._started = True
            self._deadline.mark_progress()
        self.done = not chunk or self.ended
        if self.ended and not self._content.at_eof():
            await self._drain()
        return events

    async def _read(self) -> bytes:
        limits = self._target.limits
        if self._decoder.finished:
            limit = min(_USAGE_WAIT, limits.between_tokens or _USAGE_WAIT)
            stage, setting = _STALLED, "between_tokens_timeout"
        elif self._started:
            limit, stage, setting = limits.between_tokens, _STALLED, "between_tokens_timeout"
        else:
            limit, stage, setting = limits.first_token, NO_RESPONSE, "first_token_timeout"
        try:
            return await self._deadline.wait(
                self._content.readany, limit, stage=stage, setting=setting
            )
        except (aiohttp.ClientError, OSError) as error:
            raise errors.truncated_error(self._target) from error

    async def _drain(self) -> None:
        try:
            await self._deadline.wait(
                self._content.read, _EOF_WAIT, stage=_STALLED, setting="whole_timeout"
            )
        except (ModelFailed, aiohttp.ClientError, OSError):
            return  # the reply is whole; only the connection is not worth keeping


async def read_body(
    response: aiohttp.ClientResponse, target: ModelTarget, deadline: CallDeadline
) -> bytes:
    deadline.mark_progress()
    limit = target.limits.between_tokens
    read = response.content.readany
    body = b""
    try:
        while len(body) < _MAX_BODY and (
            chunk := await deadline.wait(
                read, limit, stage=_STALLED, setting="between_tokens_timeout"
            )
        ):
            body += chunk
    except (aiohttp.ClientError, OSError) as error:
        raise errors.truncated_error(target) from error
    return body


async def read_unstreamed(
    response: aiohttp.ClientResponse,
    decoder: StreamDecoder,
    target: ModelTarget,
    deadline: CallDeadline,
) -> list[ModelEvent]:
    """The events of a server that answers in one piece though it was asked to stream, or that
    streams under another name."""
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
