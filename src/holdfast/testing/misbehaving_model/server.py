"""The HTTP server: reads requests, asks the script, and sends the reply well or badly."""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec
from aiohttp import web

from holdfast.testing.misbehaving_model import anthropic, chat_completions, responses
from holdfast.testing.misbehaving_model.anthropic import StrictAnthropicReader
from holdfast.testing.misbehaving_model.chat_completions import StrictChatReader
from holdfast.testing.misbehaving_model.responses import StrictResponsesReader
from holdfast.testing.misbehaving_model.script import (
    InvalidRequest,
    ReplyScript,
    RequestSummary,
    ScriptedFault,
    ScriptedReply,
    require,
)


class ReplyWriter(Protocol):
    """What an answer is made of in one mode; each of these modules is one."""

    def echo(self, conversation: RequestSummary, size: int) -> bytes: ...
    def whole(self, conversation: RequestSummary, step: ScriptedReply, size: int) -> bytes: ...
    def events(
        self, conversation: RequestSummary, step: ScriptedReply, size: int
    ) -> list[bytes]: ...
    def error(self, message: str, *, kind: str = ..., code: str | None = None) -> bytes: ...
    def error_event(self, message: str) -> bytes: ...


class RequestReader(Protocol):
    def read(self, body: bytes) -> RequestSummary: ...


class ModeHandler:
    """One API mode: its request parser, its answer encoder, and the header of its key."""

    def __init__(self, reader: RequestReader, writer: ReplyWriter) -> None:
        self.reader = reader
        self.writer = writer

    def key(self, headers: Mapping[str, str]) -> str:
        return headers.get("Authorization", "").removeprefix("Bearer ")

    def read(self, body: bytes, headers: Mapping[str, str]) -> RequestSummary:
        del headers
        return self.reader.read(body)


class AnthropicModeHandler(ModeHandler):
    def key(self, headers: Mapping[str, str]) -> str:
        return headers.get("x-api-key", "")

    def read(self, body: bytes, headers: Mapping[str, str]) -> RequestSummary:
        require("anthropic-version" in headers, "anthropic-version: header is required")
        return super().read(body, headers)


def mode_handlers() -> dict[str, ModeHandler]:
    """Every mode by its path."""
    return {
        "/v1/chat/completions": ModeHandler(StrictChatReader(), chat_completions),
        "/v1/responses": ModeHandler(StrictResponsesReader(), responses),
        "/v1/messages": AnthropicModeHandler(StrictAnthropicReader(), anthropic),
    }


_SSE = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
_JSON = "application/json"


class MisbehavingModel:
    """Owns the script and the ledger of what was asked."""

    def __init__(
        self,
        *,
        latency: float = 0,
        key: str | None = None,
        max_requests: int = 10_000,
        names: Sequence[str] = ("scripted",),
    ) -> None:
        """`names`: the models that it lists; it answers to any name."""
        self._names = names
        self._latency = latency
        self._key = key
        self._script = ReplyScript()
        self._modes = mode_handlers()
        self._requests: deque[bytes] = deque(maxlen=max_requests)
        self._count = 0
        self._refused = 0

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.path
        if request.method == "POST" and (shape := self._modes.get(path)) is not None:
            return await self._complete(request, shape)
        match (request.method, path):
            case ("GET", "/v1/models"):
                models = [{"id": name, "object": "model"} for name in self._names]
                return _json({"object": "list", "data": models})
            case ("GET", "/requests"):
                return self._list_requests(int(request.query.get("last", "0")))
            case ("POST", "/script"):
                return await self._take_script(request)
            case ("POST", "/reset"):
                return self._reset()
        return web.Response(status=404, body=chat_completions.error(f"no such path: {path}"))

    async def _complete(self, request: web.BaseRequest, shape: ModeHandler) -> web.StreamResponse:
        body = await request.read()
        self._count += 1
        self._requests.append(body)
        given = shape.key(request.headers)
        if self._key is not None and given != self._key:
            # As some providers do, to their customers' regret: it quotes what it was given.
            message = f"Incorrect API key provided: {given}"
            return _error(401, message, shape, kind="invalid_request_error", code="invalid_api_key")
        try:
            conversation = shape.read(body, request.headers)
            step = self._script.choose(conversation)
        except InvalidRequest as broken:
            self._refused += 1
            return _error(400, str(broken), shape, kind="invalid_request_error")
        if self._latency:
            await asyncio.sleep(self._latency)
        if step is None and conversation.stream:
            return web.Response(body=shape.writer.echo(conversation, len(body)), headers=_SSE)
        asked = _ScriptedRequest(conversation, step or ScriptedReply(), len(body), shape.writer)
        return await _ScriptedResponse(request, asked).send()

    def _list_requests(self, last: int) -> web.Response:
        kept = list(self._requests)[-last:] if last else list(self._requests)
        requests = [_as_json(body) for body in kept]
        return _json({"count": self._count, "refused": self._refused, "requests": requests})

    async def _take_script(self, request: web.BaseRequest) -> web.Response:
        try:
            steps = msgspec.json.decode(await request.read(), type=list[ScriptedReply])
        except msgspec.DecodeError as error:
            return web.Response(
                status=400, body=chat_completions.error(f"this is no script: {error}")
            )
        self._script.post(steps)
        return _json({"steps": len(steps)})

    def _reset(self) -> web.Response:
        self._script.clear()
        self._requests.clear()
        self._count = self._refused = 0
        return _json({})


class _ScriptedRequest(NamedTuple):
    conversation: RequestSummary
    step: ScriptedReply
    size: int
    writer: ReplyWriter


class _ScriptedResponse:
    """One scripted answer on its way out."""

    def __init__(self, request: web.BaseRequest, scripted_request: _ScriptedRequest) -> None:
        self._request = request
        self._conversation, self._step, self._size, self._writer = scripted_request

    async def send(self) -> web.StreamResponse:
        step = self._step
        await asyncio.sleep(step.latency)
        if step.status != 200:
            return self._status()
        match step.fault:
            case ScriptedFault.SILENCE:
                await _forever()
            case ScriptedFault.DROP:
                await self._hang_up()
            case ScriptedFault.HTML:
                page = "<!doctype html><html><body>Please log in</body></html>"
                return web.Response(text=page, content_type="text/html")
            case ScriptedFault.JSON_ERROR:
                return web.Response(body=self._writer.error(step.message), content_type=_JSON)
        if step.fault is ScriptedFault.UNSTREAMED or not self._conversation.stream:
            body = self._writer.whole(self._conversation, step, self._size)
            return web.Response(body=body, content_type=_JSON)
        return await self._stream()

    def _status(self) -> web.Response:
        step = self._step
        body = self._writer.error(step.message, kind="scripted")
        response = web.Response(status=step.status, body=body, content_type=_JSON)
        if step.retry_after is not None:
            response.headers["Retry-After"] = step.retry_after
        return response

    async def _stream(self) -> web.StreamResponse:
        plain = self._step.fault is ScriptedFault.MISNAMED
        response = web.StreamResponse(headers={"Content-Type": "text/plain"} if plain else _SSE)
        await response.prepare(self._request)
        while self._step.fault is ScriptedFault.COMMENTS:
            await response.write(b": still thinking\n\n")
            await asyncio.sleep(0.02)
        await asyncio.sleep(self._step.first)
        for event in self._events():
            await self._write(response, event)
            await asyncio.sleep(self._step.delay)
        if self._step.fault is ScriptedFault.STALL:
            await _forever()
        if self._step.fault is ScriptedFault.CUT:
            await self._hang_up()
        await response.write_eof()
        return response

    def _events(self) -> list[bytes]:
        events = self._writer.events(self._conversation, self._step, self._size)
        half = max(1, (len(events) - 2) // 2)
        match self._step.fault:
            case ScriptedFault.STALL | ScriptedFault.CUT:
                return events[:half]
            case ScriptedFault.HALF_JSON:
                return [*events[:half], events[half][: len(events[half]) // 2]]
            case ScriptedFault.ERROR_EVENT:
                return [*events[:half], self._writer.error_event(self._step.message)]
        return events

    async def _write(self, response: web.StreamResponse, event: bytes) -> None:
        size = self._step.split
        if not size:
            await response.write(event)
            return
        for at in range(0, len(event), size):
            await response.write(event[at : at + size])
            await asyncio.sleep(0)

    async def _hang_up(self) -> None:
        if self._request.transport is not None:
            self._request.transport.abort()
        await _forever()


async def _forever() -> None:
    """Until the connection goes: the server cancels what serves a client that left."""
    await asyncio.get_running_loop().create_future()


def _json(value: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type=_JSON)


def _error(
    status: int, message: str, shape: ModeHandler, *, kind: str, code: str | None = None
) -> web.Response:
    body = shape.writer.error(message, kind=kind, code=code)
    return web.Response(status=status, body=body, content_type=_JSON)


def _as_json(body: bytes) -> object:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return body.decode("utf-8", "replace")
