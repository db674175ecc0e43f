"""The OpenAPI document: it matches the docs, and the gateway conforms to it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, assume, settings
from schemathesis.checks import not_a_server_error
from schemathesis.schemas import BaseSchema
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tests.support.gateway_process import SpawnedGateway
from tests.support.v1_client import V1

from holdfast.server.api.endpoint import Media
from holdfast.server.api.mount import PREFIX
from holdfast.server.api.openapi import build_document
from holdfast.server.api.router import ENDPOINTS
from holdfast.server.api.views.gateway import StopAccepted
from holdfast.server.local.control_client import ControlClient

DOCS = Path(__file__).parents[3] / "docs" / "http.md"
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


def test_the_docs_list_the_same_endpoints() -> None:
    lines = re.findall(r"^\| `([A-Z]+) (/api/v1[^`?]*)(?:\?([^`]*))?` \|", DOCS.read_text(), re.M)
    documented = {
        (method, path): set(re.findall(r"(\w+)=", query)) for method, path, query in lines
    }
    mounted = {
        (endpoint.method, PREFIX + endpoint.path): set(endpoint.query.__struct_fields__)
        for endpoint in ENDPOINTS
    }
    assert documented == mounted


def test_every_endpoint_is_described_with_its_parameters() -> None:
    paths = build_document(ENDPOINTS)["paths"]
    assert sum(len(methods) for methods in paths.values()) == len(ENDPOINTS)
    names = [operation["operationId"] for path in paths.values() for operation in path.values()]
    assert len(set(names)) == len(names)
    (transcript,) = paths[f"{PREFIX}/sessions/{{id}}/transcript"].values()
    given = {parameter["name"]: parameter for parameter in transcript["parameters"]}
    assert set(given) == {"id", "before", "after", "limit", "max_tool_output"}
    assert given["limit"]["schema"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 1000,
        "default": 200,
    }


def test_every_reference_of_the_document_resolves() -> None:
    described = build_document(ENDPOINTS)
    known = {f"#/components/schemas/{name}" for name in described["components"]["schemas"]}
    assert set(_references(described)) <= known


async def test_the_gateway_serves_the_document(v1: V1) -> None:
    document = msgspec.json.decode(msgspec.json.encode(build_document(ENDPOINTS)))
    assert await v1.get("/openapi.json") == document


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(reference := value.get("$ref"), str):
            yield reference
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _references(each)


schema: BaseSchema = schemathesis.openapi.from_dict(build_document(ENDPOINTS))
for endpoint in ENDPOINTS:
    # A stream never ends by itself, and a stopping gateway answers no more requests.
    if Media.EVENTS in endpoint.response_media or endpoint.response_type is StopAccepted:
        schema = schema.exclude(path=PREFIX + endpoint.path)


@schemathesis.serializer(Media.LINES)
def _serialize_lines(context: object, value: object) -> bytes:
    return str(value).encode("utf-8", "replace")


@pytest.fixture(scope="session")
def known_session(shared_gateway: SpawnedGateway) -> str:
    """The id of an existing session: made-up ids alone would test little more than 404."""
    with shared_gateway.client() as client:
        client.chat.completions.create(
            model="holdfast",
            messages=[{"role": "user", "content": "known to schemathesis"}],
            extra_headers={"X-Holdfast-Session": "schemathesis"},
        )
    listed = ControlClient(shared_gateway.paths).get("/sessions", {"limit": 1000})["sessions"]
    return next(str(row["id"]) for row in listed if row["title"] == "known to schemathesis")


@schema.parametrize()
@settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_the_gateway_conforms_to_the_document(
    case: schemathesis.Case[Any], shared_gateway: SpawnedGateway, known_session: str
) -> None:
    """No request causes an internal error or a response that the document does not describe."""
    case.query.pop("wait", None)  # no long polling
    # The HTTP parser refuses longer request lines before the API sees them.
    assume(len(urlencode(case.query, doseq=True, errors="replace")) < 8000)
    options: dict[str, Any] = {"headers": shared_gateway.auth, "checks": CHECKS, "timeout": 20}
    case.call_and_validate(base_url=shared_gateway.address, **options)
    if "/sessions/{id}" in case.path and not (case.method == "DELETE" and case.path.endswith("}")):
        case.path_parameters["id"] = known_session
        case.call_and_validate(base_url=shared_gateway.address, **options)
