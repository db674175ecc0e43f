"""The API platform: OpenAI-compatible routes; every request is a durable message."""

import hmac
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from aiohttp import web

from holdfast.core.capabilities import Backlog, Capabilities
from holdfast.core.errors import IntakeClosed, NotAllowed, Refused, StoreError
from holdfast.core.events import Event, MessageEnded
from holdfast.core.ids import InboxId
from holdfast.core.inbox import Inbound, InboxRow, InboxState
from holdfast.core.message import Message
from holdfast.core.outbox import Outbound, Receipt
from holdfast.core.ports import Intake, Library, NewId
from holdfast.core.secret import Secret
from holdfast.platforms.api import chat, responses
from holdfast.platforms.api.names import MESSAGE_ID, SESSION, header, inbound, inbox_id_of
from holdfast.platforms.api.reading import Conversation, decode, read_chat, read_responses
from holdfast.platforms.api.refusals import Refusal, bad, reply
from holdfast.platforms.api.shapes import ChatRequest, ResponsesRequest
from holdfast.platforms.api.streaming import stream

MODEL = "holdfast"
_MODEL_CARD = {"id": MODEL, "object": "model", "created": 0, "owned_by": "holdfast"}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Shape(Protocol):
    """How one of the two APIs says the events of an answer."""

    def first(self) -> Iterator[bytes]: ...
    def of(self, event: Event) -> Iterator[bytes]: ...


class ApiPlatform:
    """Owns the token; holds nothing of any session. A reply is sent once it can be fetched."""

    name = "api"
    account = "default"
    capabilities = Capabilities(backlog=Backlog.NONE, fetchable=True)

    def __init__(self, token: Secret, *, library: Library, new_id: NewId) -> None:
        self._token = token.reveal().encode()
        self._library = library
        self._new_id = new_id
        self._intake: Intake | None = None

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        self._intake = intake
        try:
            yield
        finally:
            self._intake = None

    async def send(self, outbound: Outbound) -> Receipt:
        raise Refused("replies of the API are fetched, never sent")

    def routes(self) -> Sequence[web.RouteDef]:
        return [
            web.post("/v1/chat/completions", self._guarded(self._chat)),
            web.post("/v1/responses", self._guarded(self._responses)),
            web.get("/v1/responses/{id}", self._guarded(self._response)),
            web.get("/v1/models", self._guarded(self._models)),
            web.get("/v1/models/{id}", self._guarded(self._model)),
        ]

    def _guarded(self, handler: Handler) -> Handler:
        async def guarded(request: web.Request) -> web.StreamResponse:
            try:
                self._authenticate(request)
                return await handler(request)
            except Refusal as refusal:
                return reply(refusal.body(), status=refusal.status)

        return guarded

    def _authenticate(self, request: web.Request) -> None:
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        given = token.strip().encode()
        if kind.lower() != "bearer" or not hmac.compare_digest(given, self._token):
            raise Refusal(
                401,
                "this needs the gateway's token as `Authorization: Bearer …`; "
                "`holdfast token` prints it.",
                code="invalid_api_key",
            )

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        asked = decode(await request.read(), ChatRequest)
        row = await self._accept(self._inbound(request, read_chat(asked)))
        if not asked.stream:
            ended = await self._end_of(row.id)
            return reply(chat.whole(ended, row.id, model=MODEL, at=row.accepted_at))
        with_usage = asked.stream_options is not None and asked.stream_options.include_usage
        chunks = chat.ChatChunks(row.id, model=MODEL, at=row.accepted_at, with_usage=with_usage)
        return await self._streamed(request, row, chunks)

    async def _responses(self, request: web.Request) -> web.StreamResponse:
        asked = decode(await request.read(), ResponsesRequest)
        said = read_responses(asked)
        if asked.previous_response_id:
            if SESSION in request.headers:
                raise bad(
                    f"previous_response_id and {SESSION} name two conversations; use one.",
                    param="previous_response_id",
                )
            past = await self._past(asked.previous_response_id)
            said = Conversation(
                asked=said.asked, history=(*past, *said.history), instructions=said.instructions
            )
        row = await self._accept(self._inbound(request, said))
        if not asked.stream:
            ended = await self._end_of(row.id)
            return reply(responses.whole(ended, row.id, model=MODEL, at=row.accepted_at))
        events = responses.ResponseEvents(row.id, model=MODEL, at=row.accepted_at)
        return await self._streamed(request, row, events)

    async def _response(self, request: web.Request) -> web.StreamResponse:
        row = await self._row(request.match_info["id"])
        ended = await self._end_of(row.id)
        return reply(responses.whole(ended, row.id, model=MODEL, at=row.accepted_at))

    async def _models(self, request: web.Request) -> web.StreamResponse:
        return reply({"object": "list", "data": [_MODEL_CARD]})

    async def _model(self, request: web.Request) -> web.StreamResponse:
        if request.match_info["id"] != MODEL:
            raise Refusal(404, f"the one model here is {MODEL!r}.", code="model_not_found")
        return reply(_MODEL_CARD)

    def _inbound(self, request: web.Request, said: Conversation) -> Inbound:
        session = header(request.headers.get(SESSION), SESSION)
        message_id = header(request.headers.get(MESSAGE_ID), MESSAGE_ID) or self._new_id("m")
        return inbound(said, session=session, message_id=message_id)

    async def _accept(self, message: Inbound) -> InboxRow:
        """The row of the message; a repeated id attaches to the row there was."""
        try:
            accepted = await self._gate.accept(message)
        except (StoreError, IntakeClosed) as error:
            text = f"the message was not accepted: {error}"
            raise Refusal(503, text, code="not_accepted") from None
        except NotAllowed as error:
            raise Refusal(403, str(error), code="not_allowed") from None
        if accepted.duplicate and accepted.row.inbound.text != message.text:
            raise Refusal(
                409,
                f"{MESSAGE_ID} {message.message_id!r} was used for another message; "
                "give each message an id of its own.",
                code="message_id_reused",
                param=MESSAGE_ID,
            )
        return accepted.row

    async def _end_of(self, inbox_id: InboxId) -> MessageEnded:
        async with self._gate.watch(inbox_id) as events:
            async for event in events:
                if isinstance(event, MessageEnded):
                    return _answer_or_refuse(event)
        raise Refusal(503, "the gateway stopped; ask again with the same id.", code="stopped")

    async def _streamed(
        self, request: web.Request, row: InboxRow, shape: Shape
    ) -> web.StreamResponse:
        async with self._gate.watch(row.id) as events:
            return await stream(request, shape.first(), _pieces(events, shape))

    async def _row(self, response: str) -> InboxRow:
        row = await self._library.inbox_row(inbox_id_of(response))
        if row is None or row.inbound.source.platform != self.name:
            raise Refusal(404, f"there is no response {response!r}.", code="not_found")
        return row

    async def _past(self, response: str) -> tuple[Message, ...]:
        """The conversation up to the end of that response."""
        row = await self._row(response)
        await self._end_of(row.id)
        row = await self._row(response)
        if row.session_id is None:
            return ()
        records = await self._library.transcript(row.session_id)
        last = max((r.seq for r in records if r.turn_id == row.turn_id), default=0)
        return tuple(record.message for record in records if record.seq <= last)

    @property
    def _gate(self) -> Intake:
        if self._intake is None:
            raise Refusal(503, "the gateway is starting or stopping; try again.", code="not_ready")
        return self._intake


async def _pieces(events: AsyncIterator[Event], shape: Shape) -> AsyncIterator[bytes]:
    async for event in events:
        if isinstance(event, MessageEnded):
            _answer_or_refuse(event)
        for piece in shape.of(event):
            yield piece


def _answer_or_refuse(ended: MessageEnded) -> MessageEnded:
    if ended.state in (InboxState.ANSWERED, InboxState.MERGED):
        return ended
    status = 409 if ended.state is InboxState.SUPERSEDED else 502
    raise Refusal(status, ended.text or ended.reason, code=ended.state)
