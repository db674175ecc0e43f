"""The API platform: OpenAI-compatible routes; every request is a durable message."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

import msgspec
from aiohttp import hdrs, web

from holdfast.core.commands import parse_command
from holdfast.core.errors import SendRejected, StoreError
from holdfast.core.messages.inbox import OPEN_STATES, InboxRow
from holdfast.core.messages.outbox import Outbound, Receipt
from holdfast.core.people.api_tokens import ApiClient, TokenScope
from holdfast.core.ports.capabilities import Backlog, Capabilities
from holdfast.core.ports.platform import Intake
from holdfast.core.ports.runtime import IdFactory
from holdfast.core.ports.store import StoreReader
from holdfast.core.secrets import Secret
from holdfast.core.text.translation import current_language
from holdfast.platforms.api import responses
from holdfast.platforms.api import responses as chat
from holdfast.platforms.api.http import (
    KEEPALIVE_INTERVAL,
    WRITE_TIMEOUT,
    ClientTokens,
    NoClientTokens,
    OpenAiError,
    UnexpectedError,
    bad_request,
    bearer_token,
    json_response,
    store_unavailable,
    stream_events,
)
from holdfast.platforms.api.requests import (
    MESSAGE_ID_HEADER,
    SESSION_HEADER,
    ApiConversation,
    ChatRequest,
    parse_chat_request,
    parse_responses_request,
    to_attachments,
    to_inbound,
    validate_header,
)
from holdfast.platforms.api.responses import AnswerFormat, RequestProcessor
from holdfast.system.pacing import IterationPacer

MODEL = "holdfast"
_MODEL_CARD = {"id": MODEL, "object": "model", "created": 0, "owned_by": "holdfast"}
_LARGE_BODY = 256 * 1024  # bytes; parsing a larger body would block the event loop for too long
_MAX_UNPACED = 64  # messages that are accepted in one iteration of the event loop
_MAX_PACED = 16  # how many of the waiting ones, in each iteration

log = logging.getLogger(__name__)

_CLIENT = "holdfast_client"  # of a request: the client with a token of its own

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
T = TypeVar("T")


class ApiPlatform:
    """Owns the owner's token; holds nothing of any session. A reply counts as sent when it can be
    fetched. Each client with a token of its own is a person of its own."""

    name = "api"
    account = "default"
    capabilities = Capabilities(backlog=Backlog.NONE, fetchable=True, attachments_in=True)

    def __init__(
        self,
        token: Secret,
        *,
        reads: StoreReader,
        new_id: IdFactory,
        clients: ClientTokens | None = None,
        turn_starts: IterationPacer | None = None,
        keepalive_interval: float = KEEPALIVE_INTERVAL,
        write_timeout: float = WRITE_TIMEOUT,
    ) -> None:
        self._token = token
        self._reads = reads
        self._new_id = new_id
        self._clients = clients or NoClientTokens()
        self._keepalive_interval = keepalive_interval
        self._write_timeout = write_timeout
        self._active_processor: RequestProcessor | None = None
        self._pacer = IterationPacer(at_once=_MAX_UNPACED, per_iteration=_MAX_PACED)
        self._turn_starts = turn_starts or self._pacer

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        self._active_processor = RequestProcessor(intake, reads=self._reads, platform=self.name)
        try:
            yield
        finally:
            self._active_processor = None

    async def send(self, outbound: Outbound) -> Receipt:
        raise SendRejected("replies of the API are fetched, never sent")

    def routes(self) -> Sequence[web.RouteDef]:
        return [
            web.post("/v1/chat/completions", self._with_errors(self._chat_completions)),
            web.post("/v1/responses", self._with_errors(self._responses)),
            web.get("/v1/responses/{id}", self._with_errors(self._response)),
            web.get("/v1/models", self._with_errors(self._models)),
            web.get("/v1/models/{id}", self._with_errors(self._model)),
            web.route("*", "/v1/{rest:.*}", self._with_errors(self._not_found)),
        ]

    def _with_errors(self, handler: Handler) -> Handler:
        async def guarded(request: web.Request) -> web.StreamResponse:
            try:
                client = self._authenticate(request)
                if client is None:
                    return await handler(request)
                request[_CLIENT] = client
                with self._clients.track_client(client, lambda: _disconnect(request)):
                    return await handler(request)
            except OpenAiError as refusal:
                return refusal.to_response(has_id=MESSAGE_ID_HEADER in request.headers)
            except web.HTTPRequestEntityTooLarge:
                text = f"the request is larger than {request.client_max_size:,} bytes."
                return OpenAiError(413, text, code="too_large").to_response()
            except StoreError as error:
                return store_unavailable(error).to_response(
                    has_id=MESSAGE_ID_HEADER in request.headers
                )
            except (web.HTTPException, ConnectionError):
                raise  # a response of the listener's, or the client has left
            except Exception as error:  # noqa: BLE001 - the boundary to clients; it is logged
                unexpected = self._log_unexpected(request, error)
                return unexpected.to_response(has_id=MESSAGE_ID_HEADER in request.headers)

        return guarded

    def _log_unexpected(self, request: web.Request, error: Exception) -> UnexpectedError:
        unexpected = UnexpectedError(self._new_id("err"))
        log.error(
            "Could not answer %s %s, internal error %s",
            request.method,
            request.path,
            unexpected.error_id,
            exc_info=error,
            extra={"action": "api_request_failed", "error_id": unexpected.error_id},
        )
        return unexpected

    def _authenticate(self, request: web.Request) -> ApiClient | None:
        """The client whose token it is; None: the owner or an administrator."""
        token = bearer_token(request)
        if token is not None and self._token.matches(token):
            return None
        client = None if token is None else self._clients.client_by_token(token)
        if client is None:
            raise OpenAiError(
                401,
                "this request needs a token of the gateway as `Authorization: Bearer …`; "
                "`holdfast token create` makes one.",
                code="invalid_api_key",
            )
        if client.scope is TokenScope.READ:
            raise OpenAiError(
                403, "a token of the scope read may not talk to the agent.", code="forbidden_scope"
            )
        return None if client.scope is TokenScope.ADMIN else client

    async def _chat_completions(self, request: web.Request) -> web.StreamResponse:
        asked, parsed = await _parse_body(request, parse_chat_request)
        if SESSION_HEADER in request.headers and parse_command(parsed.message.text) is not None:
            # Messages wait for chat commands, not the other way round.
            with self._pacer.urgent(), self._turn_starts.urgent():
                return await self._complete_chat(request, asked, parsed)
        if (place := self._pacer.enter()) is not None:
            await place
        return await self._complete_chat(request, asked, parsed)

    async def _complete_chat(
        self, request: web.Request, asked: ChatRequest, parsed: ApiConversation
    ) -> web.StreamResponse:
        row = await self._accept(request, parsed)
        if not asked.stream:
            ended = await self._processor.wait_for_answer(row)
            answer = chat.chat_completion(ended, row.id, model=MODEL, at=row.accepted_at)
            return json_response(answer, headers=_message_id_header(row))
        with_usage = bool(asked.stream_options and asked.stream_options.include_usage)
        chunks = chat.ChatCompletionStream(
            row.id, model=MODEL, at=row.accepted_at, with_usage=with_usage
        )
        return await self._stream(request, row, chunks)

    async def _responses(self, request: web.Request) -> web.StreamResponse:
        asked, parsed = await _parse_body(request, parse_responses_request)
        if asked.previous_response_id:
            if SESSION_HEADER in request.headers:
                raise bad_request(
                    f"previous_response_id and {SESSION_HEADER} name different "
                    "conversations; use one of them.",
                    param="previous_response_id",
                )
            past = await self._processor.conversation_until(
                asked.previous_response_id, client=request.get(_CLIENT)
            )
            parsed = msgspec.structs.replace(parsed, history=(*past, *parsed.history))
        row = await self._accept(request, parsed)
        if asked.stream:
            return await self._stream(request, row, _response_stream(row))
        ended = await self._processor.wait_for_answer(row)
        body = responses.response_body(ended, row.id, model=MODEL, at=row.accepted_at)
        return json_response(body, headers=_message_id_header(row))

    async def _response(self, request: web.Request) -> web.StreamResponse:
        row = await self._processor.find_row(request.match_info["id"], client=request.get(_CLIENT))
        if request.query.get("stream") == "true":
            if "starting_after" in request.query:
                raise bad_request(
                    "starting_after is not supported; streams always start from the beginning.",
                    param="starting_after",
                )
            return await self._stream(request, row, _response_stream(row))
        if row.state in OPEN_STATES:
            return json_response(
                responses.pending_response_body(row, model=MODEL), headers=_message_id_header(row)
            )
        ended = await self._processor.wait_for_end(row)
        body = responses.response_body(ended, row.id, model=MODEL, at=row.accepted_at)
        return json_response(body, headers=_message_id_header(row))

    async def _models(self, request: web.Request) -> web.StreamResponse:
        return json_response({"object": "list", "data": [_MODEL_CARD]})

    async def _model(self, request: web.Request) -> web.StreamResponse:
        if request.match_info["id"] != MODEL:
            raise OpenAiError(404, f"the only model is {MODEL!r}.", code="model_not_found")
        return json_response(_MODEL_CARD)

    async def _not_found(self, request: web.Request) -> web.StreamResponse:
        raise OpenAiError(
            404,
            f"{request.method} {request.path} does not exist; available are POST "
            f"/v1/chat/completions, POST /v1/responses, GET /v1/responses/{{id}} and GET "
            "/v1/models.",
            code="not_found",
        )

    async def _accept(self, request: web.Request, conversation: ApiConversation) -> InboxRow:
        session = validate_header(request.headers.get(SESSION_HEADER), SESSION_HEADER)
        message_id = validate_header(
            request.headers.get(MESSAGE_ID_HEADER), MESSAGE_ID_HEADER
        ) or self._new_id("m")
        # The listener has chosen the catalogue by this header.
        language = current_language() if hdrs.ACCEPT_LANGUAGE in request.headers else ""
        message = to_inbound(
            conversation,
            session=session,
            message_id=message_id,
            language=language,
            client=request.get(_CLIENT),
        )
        return await self._processor.accept(message, to_attachments(conversation.files))

    async def _stream(
        self, request: web.Request, row: InboxRow, answer_format: AnswerFormat
    ) -> web.StreamResponse:
        return await stream_events(
            request,
            self._processor.stream_answer(
                row,
                answer_format,
                on_unexpected=lambda error: self._log_unexpected(request, error),
            ),
            headers=_message_id_header(row),
            keepalive_interval=self._keepalive_interval,
            write_timeout=self._write_timeout,
        )

    @property
    def _processor(self) -> RequestProcessor:
        if self._active_processor is None:
            raise OpenAiError(
                503, "the gateway is starting or stopping; try again.", code="not_ready"
            )
        return self._active_processor


def _disconnect(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.close()


async def _parse_body(request: web.Request, parse: Callable[[bytes], T]) -> T:
    body = await request.read()
    return parse(body) if len(body) < _LARGE_BODY else await asyncio.to_thread(parse, body)


def _response_stream(row: InboxRow) -> responses.ResponsesApiStream:
    return responses.ResponsesApiStream(row.id, model=MODEL, at=row.accepted_at)


def _message_id_header(row: InboxRow) -> dict[str, str]:
    """The header with the id of this message, even if the request gave none."""
    return {MESSAGE_ID_HEADER: row.inbound.message_id}
