"""Tests files in API messages: they are stored and read like files of any other platform."""

import asyncio
import base64
from typing import Any

import aiohttp
import openai
import pytest
from tests.support.gateway_process import SpawnedGateway

Body = dict[str, Any]
PAGE = base64.b64encode(b"<p>The meeting is on <b>Tuesday</b>.</p>").decode()


def part(data: str = PAGE, name: str = "notes.html", **more: str) -> Body:
    return {"type": "file", "file": {"filename": name, "file_data": data, **more}}


async def post(http: aiohttp.ClientSession, where: str, body: Body, **headers: str) -> Body:
    async with http.post(where, json=body, headers=headers) as response:
        answer: Body = await response.json()
        return {"status": response.status, **answer}


async def test_a_file_of_a_message_is_stored_and_its_text_is_extracted(
    client: openai.OpenAI, shared_gateway: SpawnedGateway
) -> None:
    """As the vendor's client sends it, in both APIs; without a session the past is told besides."""
    question = {"type": "text", "text": "when do we meet, by chat?"}
    past: Any = [
        {"role": "user", "content": [part(name="older.html"), {"type": "text", "text": "look"}]},
        {"role": "assistant", "content": "I see"},
    ]
    said: Any = [*past, {"role": "user", "content": [question, part()]}]
    chat = client.chat.completions.create
    await asyncio.to_thread(chat, model="holdfast", messages=said)
    given: Any = {
        "type": "input_file",
        "filename": "notes.html",
        "file_data": f"data:;base64,{PAGE}",
    }
    asked: Any = {"type": "input_text", "text": "when do we meet, by responses?"}
    items: Any = [{"role": "user", "content": [given, asked]}]
    await asyncio.to_thread(client.responses.create, model="holdfast", input=items)
    for way in ("chat", "responses"):
        (request,) = shared_gateway.model_requests(f"by {way}?")
        text = str(request["messages"][-1]["content"])
        assert "The meeting is on Tuesday" in text
        assert "uploads/notes.html" in text
    (request,) = shared_gateway.model_requests("by chat?")
    before = [str(each["content"]) for each in request["messages"]]
    assert any("look\n\n[Attached then, not available now: older.html]" in each for each in before)


async def test_the_same_request_again_is_the_same_message(
    http: aiohttp.ClientSession, shared_gateway: SpawnedGateway
) -> None:
    """G2: what became of its files does not make another of it; other words do."""
    headers = {"X-Holdfast-Session": "files", "X-Holdfast-Message-Id": "with-files"}
    for words in ("read it once", ""):
        headers["X-Holdfast-Message-Id"] = f"with-files-{len(words)}"
        content = [part(), *([{"type": "text", "text": words}] if words else [])]
        body = {"messages": [{"role": "user", "content": content}]}
        first, second = [await post(http, "/v1/chat/completions", body, **headers) for _ in "ab"]
        assert (first["status"], first["id"]) == (200, second["id"])
    assert len(shared_gateway.model_requests("read it once")) == 1
    other = {"messages": [{"role": "user", "content": [part(), {"type": "text", "text": "more"}]}]}
    assert (await post(http, "/v1/chat/completions", other, **headers))["status"] == 409


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ([part(data="", file_id="file-1")], "contain its data"),
        ([part(data="%%%")], "is invalid"),
        (
            [{"type": "input_file", "file_url": "https://example.org/a.pdf"}],
            "contain its data",
        ),
        ([{"type": "file"}], "contain its data"),
    ],
)
async def test_an_invalid_file_is_refused_with_its_path_in_the_request(
    http: aiohttp.ClientSession, content: list[Body], expected: str
) -> None:
    body = {"messages": [{"role": "user", "content": content}]}
    answer = await post(http, "/v1/chat/completions", body)
    assert answer["status"] == 400
    assert expected in answer["error"]["message"]
    assert answer["error"]["param"] == "messages[0].content[0]"


async def test_only_user_messages_may_have_files(http: aiohttp.ClientSession) -> None:
    body = {"messages": [{"role": "system", "content": [part()]}, {"role": "user", "content": "x"}]}
    answer = await post(http, "/v1/chat/completions", body)
    assert (answer["status"], "not supported" in answer["error"]["message"]) == (400, True)
