"""The API platform: OpenAI-compatible routes; every request is a durable message."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

import msgspec
from aiohttp import web

from holdfast.core.errors import Refused, StoreError
from holdfast.core.messages.inbox import OPEN, InboxRow
from holdfast.core.messages.outbox import Outbound, Receipt
from holdfast.core.ports.capabilities import Backlog, Capabilities
from holdfast.core.ports.library import Library
from holdfast.core.ports.protocols import Intake, NewId
from holdfast.core.secret import Secret
from holdfast.platforms.api import chat, responses
from holdfast.platforms.api.answering import Answering, Shape
from holdfast.platforms.api.bearer import bears
from holdfast.platforms.api.files import attached
from holdfast.platforms.api.names import MESSAGE_ID, SESSION, header, inbound
from holdfast.platforms.api.reading import Conversation, chat_request, responses_request
from holdfast.platforms.api.refusals import Refusal, bad, reply, unreadable
from holdfast.platforms.api.streaming import PATIENCE, QUIET, stream

MODEL = "holdfast"
_MODEL_CARD = {"id": MODEL, "object": "model", "created": 0, "owned_by": "holdfast"}
_LARGE = 256 * 1024  # a body that takes longer to read than the event loop should be held up

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
T = TypeVar("T")


class ApiPlatform:
    """Owns the token; holds nothing of any session. A reply is sent once it can be fetched."""

    name = "api"
    account = "default"
    capabilities = Capabilities(backlog=Backlog.NONE, fetchable=True, attachments_in=True)

    def __init__(
        self,
        token: Secret,
        *,
        library: Library,
        new_id: NewId,
        quiet: float = QUIET,
        patience: float = PATIENCE,
    ) -> None:
        self._token = token
        self._library = library
        self._new_id = new_id
        self._quiet = quiet
        self._patience = patience
        self._answering: Answering | None = None

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        self._answering = Answering(intake, library=self._library, platform=self.name)
        try:
            yield
        finally:
            self._answering = None

    async def send(self, outbound: Outbound) -> Receipt:
        raise Refused("replies of the API are fetched, never sent")

    def routes(self) -> Sequence[web.RouteDef]:
        return [
            web.post("/v1/chat/completions", self._guarded(self._chat)),
            web.post("/v1/responses", self._guarded(self._responses)),
            web.get("/v1/responses/{id}", self._guarded(self._response)),
            web.get("/v1/models", self._guarded(self._models)),
            web.get("/v1/models/{id}", self._guarded(self._model)),
            web.route("*", "/v1/{rest:.*}", self._guarded(self._nowhere)),
        ]

    def _guarded(self, handler: Handler) -> Handler:
        async def guarded(request: web.Request) -> web.StreamResponse:
            try:
                self._authenticate(request)
                return await handler(request)
            except Refusal as refusal:
                return refusal.reply(has_id=MESSAGE_ID in request.headers)
            except web.HTTPRequestEntityTooLarge:
                text = f"the request is larger than {request.client_max_size:,} bytes."
                return Refusal(413, text, code="too_large").reply()
            except StoreError as error:
                return unreadable(error).reply(has_id=MESSAGE_ID in request.headers)

        return guarded

    def _authenticate(self, request: web.Request) -> None:
        if not bears(request, self._token):
            raise Refusal(
                401,
                "this needs the gateway's token as `Authorization: Bearer …`; "
                "`holdfast token` prints it.",
                code="invalid_api_key",
            )

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        asked, said = await _read(request, chat_request)
        row = await self._accept(request, said)
        if not asked.stream:
            ended = await self._gate.answer(row)
            body = chat.whole(ended, row.id, model=MODEL, at=row.accepted_at)
            return reply(body, headers=_named(row))
        with_usage = bool(asked.stream_options and asked.stream_options.include_usage)
        chunks = chat.ChatChunks(row.id, model=MODEL, at=row.accepted_at, with_usage=with_usage)
        return await self._streamed(request, row, chunks)

    async def _responses(self, request: web.Request) -> web.StreamResponse:
        asked, said = await _read(request, responses_request)
        if asked.previous_response_id:
            if SESSION in request.headers:
                raise bad(
                    f"previous_response_id and {SESSION} name two conversations; use one.",
                    param="previous_response_id",
                )
            past = await self._gate.past(asked.previous_response_id)
            said = msgspec.structs.replace(said, history=(*past, *said.history))
        row = await self._accept(request, said)
        if asked.stream:
            return await self._streamed(request, row, _response_events(row))
        ended = await self._gate.answer(row)
        body = responses.whole(ended, row.id, model=MODEL, at=row.accepted_at)
        return reply(body, headers=_named(row))

    async def _response(self, request: web.Request) -> web.StreamResponse:
        row = await self._gate.row(request.match_info["id"])
        if request.query.get("stream") == "true":
            if "starting_after" in request.query:
                raise bad("a stream is told from its beginning.", param="starting_after")
            return await self._streamed(request, row, _response_events(row))
        if row.state in OPEN:
            return reply(responses.under_way(row, model=MODEL), headers=_named(row))
        ended = await self._gate.end_of(row)
        body = responses.whole(ended, row.id, model=MODEL, at=row.accepted_at)
        return reply(body, headers=_named(row))

    async def _models(self, request: web.Request) -> web.StreamResponse:
        return reply({"object": "list", "data": [_MODEL_CARD]})

    async def _model(self, request: web.Request) -> web.StreamResponse:
        if request.match_info["id"] != MODEL:
            raise Refusal(404, f"the one model here is {MODEL!r}.", code="model_not_found")
        return reply(_MODEL_CARD)

    async def _nowhere(self, request: web.Request) -> web.StreamResponse:
        raise Refusal(
            404,
            f"there is no {request.method} {request.path} here; there are POST "
            "/v1/chat/completions, POST /v1/responses, GET /v1/responses/{id} and GET /v1/models.",
            code="not_found",
        )

    async def _accept(self, request: web.Request, said: Conversation) -> InboxRow:
        session = header(request.headers.get(SESSION), SESSION)
        message_id = header(request.headers.get(MESSAGE_ID), MESSAGE_ID) or self._new_id("m")
        message = inbound(said, session=session, message_id=message_id)
        return await self._gate.accept(message, attached(said.files))

    async def _streamed(
        self, request: web.Request, row: InboxRow, shape: Shape
    ) -> web.StreamResponse:
        return await stream(
            request,
            self._gate.pieces(row, shape),
            headers=_named(row),
            quiet=self._quiet,
            patience=self._patience,
        )

    @property
    def _gate(self) -> Answering:
        if self._answering is None:
            raise Refusal(503, "the gateway is starting or stopping; try again.", code="not_ready")
        return self._answering


async def _read(request: web.Request, parse: Callable[[bytes], T]) -> T:
    body = await request.read()
    return parse(body) if len(body) < _LARGE else await asyncio.to_thread(parse, body)


def _response_events(row: InboxRow) -> responses.ResponseEvents:
    return responses.ResponseEvents(row.id, model=MODEL, at=row.accepted_at)


def _named(row: InboxRow) -> dict[str, str]:
    """The id that attaches to this message, also for who did not give one."""
    return {MESSAGE_ID: row.inbound.message_id}
