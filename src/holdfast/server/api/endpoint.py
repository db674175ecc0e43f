"""An endpoint: one row of the route table, with authentication and validation of requests."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

import msgspec
from aiohttp import web

from holdfast.core.errors import IntakeClosed, NotAllowed, RunnerError, StoreError
from holdfast.core.people.audit import AuditKind
from holdfast.gateway.access import Action, GatewayResource
from holdfast.server.api.context import ApiContext, no_session
from holdfast.server.api.errors import EndpointError, bad_request, not_found
from holdfast.server.auth.login import is_same_origin
from holdfast.server.auth.tokens import HttpPrincipal

_LARGE_BODY = 256 * 1024  # bytes; a larger body is decoded in a thread
_MAX_SUBJECT = 200  # characters of a path in an audit row
_NAME = re.compile(r"[A-Za-z0-9._:-]{1,200}", re.ASCII)
_FIELD_PATH = re.compile(r" - at `\$\.?([^`]*)`$")

Q = TypeVar("Q")
B = TypeVar("B")


class Media(StrEnum):
    JSON = "application/json"
    LINES = "application/x-ndjson"
    CSV = "text/csv"
    EVENTS = "text/event-stream"
    FILE = "application/octet-stream"


class Reach(StrEnum):
    """What an endpoint is about, which decides who may read there."""

    GATEWAY = "gateway"  # everything: for the scopes `read` and `admin`
    SESSION = "session"  # the session `{id}` of the path: also for a token that may talk in it
    PRINCIPAL = "principal"  # the request's own principal, and what belongs to it


class NoQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """For endpoints without parameters: an unknown parameter is an error."""


@dataclass(frozen=True, slots=True)
class ApiCall(Generic[Q, B]):
    """An authenticated request, with its query and body decoded and validated."""

    request: web.Request
    path_params: Mapping[str, str]  # of the path, by the names that the table gives them
    principal: HttpPrincipal
    query: Q
    body: B

    def path_param(self, name: str) -> str:
        """A parameter of the path; 404 if it cannot be a name."""
        value = self.path_params[name]
        if not _NAME.fullmatch(value):
            raise not_found("There is no {name!r} here.", name=value)
        return value


Handler = Callable[[ApiContext, ApiCall[Any, Any]], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """`response_type` None: no body. `statuses`: of success. `error_statuses`: besides those that
    every endpoint can have.

    `read_only`: it changes nothing, and the scope `read` is enough. None counts as the
    administrator's alone, and a test demands that each endpoint sets it. `reach`: what is read.
    """

    method: str
    path: str
    summary: str
    handler: Handler
    read_only: bool | None = None
    reach: Reach = Reach.GATEWAY
    query: type[msgspec.Struct] = NoQuery
    request_type: Any = None
    request_media: Media = Media.JSON
    response_type: Any = None
    response_media: tuple[Media, ...] = (Media.JSON,)
    statuses: tuple[int, ...] = (200,)
    error_statuses: tuple[int, ...] = ()

    async def serve(
        self, context: ApiContext, request: web.Request, path_params: Mapping[str, str]
    ) -> web.StreamResponse:
        async def answer(principal: HttpPrincipal) -> web.StreamResponse:
            return await self._handle(context, request, path_params, principal)

        return await run_guarded(
            context, request, answer, read_only=self.read_only is True, reach=self.reach
        )

    async def _handle(
        self,
        context: ApiContext,
        request: web.Request,
        path_params: Mapping[str, str],
        principal: HttpPrincipal,
    ) -> web.StreamResponse:
        if not context.status.ready():
            raise EndpointError(
                503, "The gateway is starting or stopping; try again.", code="not_ready"
            )
        if self.reach is Reach.SESSION:
            await _check_session(context, principal, path_params["id"])
        query = _decode_query(request, self.query)
        reads = self.request_type is not None and self.request_media is Media.JSON
        body = await _decode_body(request, self.request_type) if reads else None
        return await self.handler(context, ApiCall(request, path_params, principal, query, body))


async def run_guarded(
    context: ApiContext,
    request: web.Request,
    serve: Callable[[HttpPrincipal], Awaitable[web.StreamResponse]],
    *,
    read_only: bool,
    reach: Reach = Reach.GATEWAY,
) -> web.StreamResponse:
    """Authenticate and authorise the request and serve it; errors become error responses."""
    try:
        principal = authenticate(context, request)
        if not read_only or reach is Reach.GATEWAY:
            action = Action.READ if read_only else Action.MANAGE
            await _authorise(context, request, principal, action)
        with context.login.tokens.track_connection(principal, lambda: _disconnect(request)):
            return await serve(principal)
    except EndpointError as refused:
        return refused.response()
    except web.HTTPRequestEntityTooLarge:
        return EndpointError(
            413,
            "The request is larger than {limit:,} bytes.",
            limit=request.client_max_size,
            code="too_large",
        ).response()
    except NotAllowed as error:
        return EndpointError(403, error, code="not_allowed").response()
    except IntakeClosed as error:
        return EndpointError(503, error, code="not_accepted").response()
    except StoreError as error:
        return EndpointError(
            503, "The store failed: {error}", error=error, code="store_unavailable"
        ).response()
    except RunnerError as error:
        return EndpointError(502, error, code="sandbox").response()


def authenticate(context: ApiContext, request: web.Request) -> HttpPrincipal:
    principal = context.login.token_principal(request)
    if principal is not None:
        return principal
    principal = context.login.cookie_principal(request)
    if principal is None:
        raise EndpointError(
            401,
            "This needs a token of the gateway as `Authorization: Bearer …` (`holdfast token "
            "create` makes one), or a login (`holdfast link` prints a link).",
            code="unauthorised",
        )
    if not is_same_origin(request):
        raise EndpointError(
            403,
            "With the login cookie, requests must come from the gateway's own page: Origin and "
            "Host differ. Use the gateway's token instead.",
            code="foreign_origin",
        )
    return principal


async def _authorise(
    context: ApiContext, request: web.Request, principal: HttpPrincipal, action: Action
) -> None:
    """Refuse a token whose scope does not allow that, and record it in the audit."""
    try:
        context.gateway.access.authorise(principal.principal, action, GatewayResource())
    except NotAllowed as refused:
        await context.gateway.denied_access.record(
            AuditKind.REQUEST_REFUSED,
            principal.actor,
            account="http",
            subject=f"{request.method} {request.path}"[:_MAX_SUBJECT],
        )
        raise EndpointError(403, refused, code="forbidden_scope") from None


async def _check_session(context: ApiContext, principal: HttpPrincipal, session_id: str) -> None:
    """404 for a session of others: which ones exist is none of the client's business."""
    access, asked = context.gateway.access, principal.principal
    if access.allows(asked, Action.READ, GatewayResource()):
        return  # it may read all, so the session needs no look-up
    row = await context.find_session(session_id)
    if not access.allows(asked, Action.READ, GatewayResource(session=row.route)):
        raise no_session(session_id)


def _disconnect(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.close()


def _decode_query(request: web.Request, query_type: type[msgspec.Struct]) -> Any:
    given = dict(request.query)
    for name, value in given.items():
        if "\0" in value or not _is_encodable(value):
            raise bad_request("{name}: not valid text.", name=name, param=name)
    try:
        return msgspec.convert(given, query_type, strict=False)
    except msgspec.ValidationError as error:
        raise _validation_error(error) from None


async def _decode_body(request: web.Request, body_type: Any) -> Any:
    body = await request.read()
    decode = msgspec.json.Decoder(body_type).decode
    try:
        return decode(body) if len(body) < _LARGE_BODY else await asyncio.to_thread(decode, body)
    except msgspec.ValidationError as error:
        raise _validation_error(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad_request(
            "The body is not valid JSON for this endpoint: {error}", error=error
        ) from None


def _validation_error(error: msgspec.ValidationError) -> EndpointError:
    text = str(error)
    found = _FIELD_PATH.search(text)
    if found is None or not found[1]:
        return bad_request(f"{text}.")
    return bad_request(f"{found[1]}: {text[: found.start()]}.", param=found[1])


def _is_encodable(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
