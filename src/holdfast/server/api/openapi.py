"""The OpenAPI 3.1 document, made from the route table and its types, and its endpoint."""

import re
from collections.abc import Iterable
from typing import Any

import msgspec
from aiohttp import web

from holdfast import __version__
from holdfast.core.people.api_tokens import TokenScope
from holdfast.server.api.context import ApiContext
from holdfast.server.api.endpoint import ApiCall, Endpoint, Media, NoQuery, Reach
from holdfast.server.api.errors import ErrorResponse
from holdfast.server.api.mount import PREFIX

_REF = "#/components/schemas/{name}"
_STATUS_TEXT = {
    200: "OK.",
    201: "Created.",
    202: "Accepted, and durable.",
    204: "Done.",
    400: "A parameter or the body is wrong; `param` names it.",
    401: "Neither the token nor a login.",
    403: "A login cookie from another site, or a scope that does not allow this.",
    404: "Not found.",
    409: "Not possible in the current state.",
    413: "Too large.",
    422: "The configuration would be invalid: where, what was found, what to do.",
    429: "Too many wrong tokens from this address; retry after `Retry-After`.",
    502: "The sandbox failed.",
    503: "The gateway starts, stops or cannot reach its store; try again.",
}


def build_document(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    endpoints = tuple(endpoints)
    types = [t for e in endpoints for t in (e.request_type, e.response_type) if t is not None]
    schemas, components = msgspec.json.schema_components([*types, ErrorResponse], ref_template=_REF)
    by_type = dict(zip([*map(repr, types), repr(ErrorResponse)], schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        path = paths.setdefault(PREFIX + endpoint.path, {})
        path[endpoint.method.lower()] = _operation(endpoint, by_type)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Holdfast",
            "version": __version__,
            "description": "The API of the gateway, used by its page and its command line.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                # ID differs between gateways; the login link sets the cookie.
                "login": {"type": "apiKey", "in": "cookie", "name": "holdfast_ID"},
            },
        },
        "security": [{"token": []}, {"login": []}],
    }


def _operation(endpoint: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "x-scope": needed_scope(endpoint),
        "operationId": endpoint.handler.__name__,
        "parameters": [*_path_parameters(endpoint), *_query_parameters(endpoint)],
        "responses": {
            **{str(s): _response(endpoint, s, schemas) for s in endpoint.statuses},
            **{str(s): _error_response(s, schemas) for s in _error_statuses(endpoint)},
        },
    }
    if endpoint.request_type is not None:
        content = {endpoint.request_media: {"schema": schemas[repr(endpoint.request_type)]}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def needed_scope(endpoint: Endpoint) -> TokenScope:
    """The least scope that allows it; `talk` only in what belongs to the client."""
    if not endpoint.read_only:
        return TokenScope.ADMIN
    return TokenScope.READ if endpoint.reach is Reach.GATEWAY else TokenScope.TALK


def _error_statuses(endpoint: Endpoint) -> list[int]:
    """Those of every endpoint, those that its parts add, and its own."""
    found = {400, 401, 403, 429, 503, *endpoint.error_statuses}
    if "{" in endpoint.path:
        found |= {404}
    if endpoint.request_type is not None:
        found |= {413}
    if "processes" in endpoint.path or endpoint.method == "DELETE":
        found |= {502}
    return sorted(found)


def _response(endpoint: Endpoint, status: int, schemas: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": _STATUS_TEXT[status]}
    if endpoint.response_type is not None:
        schema = schemas[repr(endpoint.response_type)]
        answer["content"] = {
            media: {"schema": schema if media is not Media.FILE else {}}
            for media in endpoint.response_media
        }
    return answer


def _error_response(status: int, schemas: dict[str, Any]) -> dict[str, Any]:
    content = {Media.JSON: {"schema": schemas[repr(ErrorResponse)]}}
    return {"description": _STATUS_TEXT[status], "content": content}


def _path_parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    number = endpoint.path.startswith("/messages/")
    schema = {"type": "integer", "minimum": 1} if number else {"type": "string", "minLength": 1}
    return [
        {"name": name, "in": "path", "required": True, "schema": schema}
        for name in re.findall(r"{(\w+)}", endpoint.path)
    ]


def _query_parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    (_,), found = msgspec.json.schema_components([endpoint.query])
    shape = found[endpoint.query.__name__]
    required = shape.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in required, "schema": _without_null(schema)}
        for name, schema in shape["properties"].items()
    ]


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """In a query, null is expressed by leaving the parameter out."""
    choices = [choice for choice in schema.get("anyOf", ()) if choice.get("type") != "null"]
    return choices[0] if choices else schema


async def read_openapi(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    # The router imports this module: its table contains this handler.
    from holdfast.server.api.router import ENDPOINTS  # noqa: PLC0415 - cycle

    return context.respond(build_document(ENDPOINTS))
