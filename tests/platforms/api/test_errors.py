"""Tests that the API refuses invalid requests with an error that names the field."""

import asyncio
import io
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from tests.support.gateway_process import SpawnedGateway, until

CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
HI = [{"role": "user", "content": "hi"}]


@pytest.fixture(autouse=True)
async def nothing_accepted(shared_gateway: SpawnedGateway) -> AsyncIterator[None]:
    await until(lambda: shared_gateway.status()["in_flight"] == 0)  # of the tests before
    before = shared_gateway.ledger()
    yield
    assert shared_gateway.ledger() == before


def request_with(content: Any, role: str = "user") -> dict[str, Any]:
    return {"messages": [{"role": role, "content": content}]}


def request_with_part(**fields: Any) -> dict[str, Any]:
    return request_with([{"type": "text", "text": "x"}, fields])


WRONG: list[tuple[str, dict[str, Any], str, str | None]] = [
    (CHAT, {}, "missing required field `messages`", None),
    (CHAT, {"messages": []}, "must be a user's message", "messages"),
    (CHAT, {"messages": "hi"}, "Expected `array`", "messages"),
    (CHAT, {"messages": [{"role": 3}]}, "Expected `str`, got `int`", "messages[0].role"),
    (
        CHAT,
        {"messages": [*HI, {"role": "robot", "content": "x"}]},
        "unknown role",
        "messages[1].role",
    ),
    (CHAT, request_with("hm", role="assistant"), "must be a user's message", "messages"),
    (CHAT, request_with(" \n "), "is empty", "messages"),
    (CHAT, request_with([]), "is empty", "messages"),
    (
        CHAT,
        request_with_part(type="input_audio"),
        "'input_audio' is not supported",
        "messages[0].content[1]",
    ),
    (
        CHAT,
        request_with_part(type="image_url", image_url={"url": "data:image/png;base64,@@@"}),
        "is invalid",
        "messages[0].content[1].image_url",
    ),
    (
        CHAT,
        request_with_part(type="image_url", image_url={"url": "file:///etc/passwd"}),
        "http(s) URL",
        "messages[0].content[1].image_url",
    ),
    (CHAT, {"messages": HI, "n": 2}, "only one answer", "n"),
    (CHAT, {"messages": HI, "stream": "yes"}, "Expected `bool | null`", "stream"),
    (CHAT, {"messages": HI, "functions": [{"name": "f"}]}, "its own tools", "tools"),
    (
        CHAT,
        {"messages": HI, "response_format": {"type": "json_object"}},
        "plain text",
        "response_format",
    ),
    (RESPONSES, {}, "missing required field `input`", None),
    (RESPONSES, {"input": ""}, "is empty", "input"),
    (RESPONSES, {"input": [{"type": "item_reference"}]}, "'item_reference'", "input[0].type"),
    (RESPONSES, {"input": "x", "text": {"format": {"type": "json_schema"}}}, "text", "text.format"),
    (RESPONSES, {"input": "x", "background": True}, "not needed", "background"),
    (RESPONSES, {"input": "x", "conversation": "conv_1"}, "X-Holdfast-Session", "conversation"),
]


@pytest.mark.parametrize(("path", "body", "why", "param"), WRONG)
async def test_an_invalid_request_is_refused_with_the_path_of_the_error(
    http: aiohttp.ClientSession, path: str, body: dict[str, Any], why: str, param: str | None
) -> None:
    async with http.post(path, json=body) as response:
        error = (await response.json())["error"]
    assert response.status == 400
    assert why in error["message"]
    assert error["param"] == param
    assert error["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b'{"messages": [{"role": "user", "content": "\xff"}]}',
        b'{"messages": [{"role": "user", "content": "\\ud800"}]}',
        b'{"messages": [], "tools": ' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    ],
)
async def test_a_body_that_is_not_json_is_refused(http: aiohttp.ClientSession, body: bytes) -> None:
    async with http.post(CHAT, data=body) as response:
        error = (await response.json())["error"]
    assert (response.status, error["code"]) == (400, "invalid_json")


async def test_a_body_too_large_is_refused_with_the_limit(http: aiohttp.ClientSession) -> None:
    body = io.BytesIO(b'{"messages": "' + b"x" * (33 * 1024 * 1024) + b'"}')
    async with http.post(CHAT, data=body) as response:
        error = (await response.json())["error"]
    assert (response.status, error["code"]) == (413, "too_large")
    assert "33,554,432 bytes" in error["message"]


async def test_a_large_body_is_parsed_in_a_thread_with_the_same_result(
    http: aiohttp.ClientSession,
) -> None:
    body = {"messages": [{"role": "user", "content": "x" * 1_000_000}], "n": 3}
    async with http.post(CHAT, json=body) as response:
        assert response.status == 400
        assert (await response.json())["error"]["param"] == "n"


@pytest.mark.parametrize("name", ["X-Holdfast-Session", "X-Holdfast-Message-Id"])
@pytest.mark.parametrize("value", ["", "x" * 201, "a\tb"])
async def test_an_invalid_session_or_message_id_is_refused(
    http: aiohttp.ClientSession, name: str, value: str
) -> None:
    async with http.post(CHAT, json={"messages": HI}, headers={name: value}) as response:
        error = (await response.json())["error"]
    assert (response.status, error["param"]) == (400, name)


async def test_a_response_cannot_have_two_histories(http: aiohttp.ClientSession) -> None:
    body = {"input": "x", "previous_response_id": "resp_1"}
    async with http.post(RESPONSES, json=body, headers={"X-Holdfast-Session": "s"}) as response:
        assert response.status == 400
    for unknown in ("resp_99999999", "resp_", "resp_x", "resp_²", "nonsense"):
        body = {"input": "x", "previous_response_id": unknown}
        async with http.post(RESPONSES, json=body) as response:
            assert response.status == 404, unknown


async def test_a_request_interrupted_in_its_body_is_ignored(
    shared_gateway: SpawnedGateway,
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", shared_gateway.port)
    token = shared_gateway.token
    head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
    writer.write(f'{head}Content-Length: 100\r\n\r\n{{"messages": ['.encode())
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    assert await reader.read() == b""
