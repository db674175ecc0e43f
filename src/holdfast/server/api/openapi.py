"""The OpenAPI 3.1 document, made of the table and of the types it names."""

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast import __version__
from holdfast.server.api.endpoint import Endpoint, Media
from holdfast.server.api.errors import Error
from holdfast.server.api.mount import PREFIX
from holdfast.server.auth.visitor import VisitorRole

_REF = "#/components/schemas/{name}"
_MEANING = {
    200: "As asked for.",
    201: "Made.",
    202: "Accepted, and durable.",
    204: "Done; there is nothing to say.",
    400: "A parameter or the body is wrong; `param` names it.",
    401: "Neither the token nor a login.",
    403: "A login cookie from a foreign page, or somebody whose role does not allow this.",
    404: "There is no such thing.",
    409: "It cannot be done to this now.",
    413: "Too large.",
    422: "The configuration would not be in order: where, what was found, what to do.",
    429: "Too many wrong tokens from this address; none is looked at before `Retry-After`.",
    502: "The workbench failed.",
    503: "The gateway starts, stops or cannot reach its store; try again.",
}


def document(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    endpoints = tuple(endpoints)
    types = [t for e in endpoints for t in (e.takes, e.gives) if t is not None]
    schemas, components = msgspec.json.schema_components([*types, Error], ref_template=_REF)
    by_type = dict(zip([*map(repr, types), repr(Error)], schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        path = paths.setdefault(PREFIX + endpoint.path, {})
        path[endpoint.method.lower()] = _operation(endpoint, by_type)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Holdfast",
            "version": __version__,
            "description": "The gateway's own API: what the page and the command line use.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                # ID stands for what each gateway has of its own; its login link sets it.
                "login": {"type": "apiKey", "in": "cookie", "name": "holdfast_ID"},
            },
        },
        "security": [{"token": []}, {"login": []}],
    }


def _operation(endpoint: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": endpoint.about,
        "x-role": VisitorRole.VIEWER if endpoint.looks else VisitorRole.OWNER,
        "operationId": endpoint.handler.__name__,
        "parameters": [*_path_parameters(endpoint), *_query_parameters(endpoint)],
        "responses": {
            **{str(s): _answer(endpoint, s, schemas) for s in endpoint.statuses},
            **{str(s): _refusal(s, schemas) for s in _refusals(endpoint)},
        },
    }
    if endpoint.takes is not None:
        content = {endpoint.takes_media: {"schema": schemas[repr(endpoint.takes)]}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _refusals(endpoint: Endpoint) -> list[int]:
    """What any endpoint may answer, what its parts add, and what it says of itself."""
    found = {400, 401, 403, 429, 503, *endpoint.refuses}
    if "{" in endpoint.path:
        found |= {404}
    if endpoint.takes is not None:
        found |= {413}
    if "processes" in endpoint.path or endpoint.method == "DELETE":
        found |= {502}
    return sorted(found)


def _answer(endpoint: Endpoint, status: int, schemas: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": _MEANING[status]}
    if endpoint.gives is not None:
        schema = schemas[repr(endpoint.gives)]
        answer["content"] = {
            media: {"schema": schema if media is not Media.FILE else {}}
            for media in endpoint.gives_media
        }
    return answer


def _refusal(status: int, schemas: dict[str, Any]) -> dict[str, Any]:
    content = {Media.JSON: {"schema": schemas[repr(Error)]}}
    return {"description": _MEANING[status], "content": content}


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
        {"name": name, "in": "query", "required": name in required, "schema": _plain(schema)}
        for name, schema in shape["properties"].items()
    ]


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """In a query an absent value is not written: what may be null is left out instead."""
    choices = [choice for choice in schema.get("anyOf", ()) if choice.get("type") != "null"]
    return choices[0] if choices else schema
