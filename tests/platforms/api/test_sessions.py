"""Tests sessions of the API: history, order of messages and slash commands."""

import asyncio
import random
from typing import Any

import aiohttp
import openai
import pytest
from tests.support.gateway_process import SpawnedGateway, until

Body = dict[str, Any]


async def chat(
    http: aiohttp.ClientSession, *texts: str, session: str = "", **headers: str
) -> tuple[int, str]:
    """Ask with these user messages; the status, and the text or the error."""
    if session:
        headers["X-Holdfast-Session"] = session
    body = {"messages": [{"role": "user", "content": text} for text in texts]}
    async with http.post("/v1/chat/completions", json=body, headers=headers) as response:
        answer = await response.json()
    if response.status != 200:
        return response.status, answer["error"]["message"]
    return 200, answer["choices"][0]["message"]["content"]


def conversation(request: Body) -> list[str]:
    return [message["content"] for message in request["messages"][1:]]


async def test_a_session_has_its_own_history_and_reads_only_the_last_message(
    http: aiohttp.ClientSession, shared_gateway: SpawnedGateway
) -> None:
    await chat(http, "I am at sea", session="kept")
    await chat(http, "a past that is not ours", "where am I, kept?", session="kept")
    (asked,) = shared_gateway.model_requests("where am I, kept?")
    assert conversation(asked) == ["I am at sea", "You said: I am at sea", "where am I, kept?"]


async def test_a_changed_system_message_counts_from_its_request_on(
    http: aiohttp.ClientSession, shared_gateway: SpawnedGateway
) -> None:
    """A4: the prompt stays byte-identical until other system messages are sent."""

    async def prompt_of(text: str, *system: str) -> str:
        messages = [{"role": "system", "content": each} for each in system]
        body = {"messages": [*messages, {"role": "user", "content": text}]}
        headers = {"X-Holdfast-Session": "instructed"}
        async with http.post("/v1/chat/completions", json=body, headers=headers) as response:
            assert response.status == 200, await response.text()
        (asked,) = shared_gateway.model_requests(text)
        return str(asked["messages"][0]["content"])

    first = await prompt_of("instructed one", "Answer like a pirate.", "Be brief.")
    assert first.count("Answer like a pirate.\n\nBe brief.") == 1
    assert await prompt_of("instructed two", "Answer like a pirate.", "Be brief.") == first
    assert await prompt_of("instructed three") == first, "none keeps those of the session"
    fewer = await prompt_of("instructed four", "Answer like a pirate.")
    assert "pirate" in fewer and "Be brief." not in fewer
    other = await prompt_of("instructed five", "Answer like a parrot.")
    assert "parrot" in other and "pirate" not in other
    assert await prompt_of("instructed six") == other
    (asked,) = shared_gateway.model_requests("instructed six")
    assert len(conversation(asked)) == 11, "the conversation goes on"


async def test_the_two_apis_share_a_session(
    http: aiohttp.ClientSession, shared_gateway: SpawnedGateway
) -> None:
    await chat(http, "said by chat", session="shared")
    headers = {"X-Holdfast-Session": "shared"}
    body = {"input": "asked by responses"}
    async with http.post("/v1/responses", json=body, headers=headers) as response:
        assert (await response.json())["output"][0]["content"][0]["text"].startswith("You said")
    (asked,) = shared_gateway.model_requests("asked by responses")
    assert conversation(asked)[0] == "said by chat"


async def test_sessions_do_not_see_each_other(
    http: aiohttp.ClientSession, shared_gateway: SpawnedGateway
) -> None:
    await chat(http, "a secret of one", session="one")
    await chat(http, "asked in the other", session="other")
    assert conversation(shared_gateway.model_requests("asked in the other")[0]) == [
        "asked in the other"
    ]


async def test_without_a_session_the_request_is_the_whole_conversation(
    http: aiohttp.ClientSession, shared_gateway: SpawnedGateway
) -> None:
    body = {
        "model": "holdfast",
        "messages": [
            {"role": "system", "content": "Answer like a pirate."},
            {"role": "user", "content": "ahoy"},
            {"role": "assistant", "content": "arr"},
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": "where is the stateless rum?"},
        ],
    }
    for _ in range(2):
        async with http.post("/v1/chat/completions", json=body) as response:
            assert response.status == 200
    first, second = shared_gateway.model_requests("where is the stateless rum?")
    assert conversation(first) == ["ahoy", "arr", "where is the stateless rum?"]
    assert conversation(second) == conversation(first), "a request left something behind"
    system = first["messages"][0]["content"]
    assert "Answer like a pirate." in system and "Be brief." in system


async def test_tool_calls_of_a_given_history_are_not_executed(
    http: aiohttp.ClientSession, shared_gateway: SpawnedGateway
) -> None:
    """H2: what a client tells of its past is nothing that our agent began."""
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "terminal", "arguments": '{"command": "echo ran-it"}'},
    }
    body = {
        "messages": [
            {"role": "user", "content": "run it"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "user", "content": "what came of the told call?"},
        ]
    }
    async with http.post("/v1/chat/completions", json=body) as response:
        assert response.status == 200, await response.text()
    (asked,) = shared_gateway.model_requests("what came of the told call?")
    (result,) = [m for m in asked["messages"] if m["role"] == "tool"]
    assert "No result of this call is recorded" in result["content"]


async def test_a_given_history_with_calls_and_results_is_a_valid_model_request(
    http: aiohttp.ClientSession, shared_gateway: SpawnedGateway
) -> None:
    body = {
        "input": [
            {"role": "user", "content": "look it up"},
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "forty-two"},
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "it is 42", "annotations": []}],
            },
            {"role": "user", "content": "are you sure of the told result?"},
        ],
        "instructions": "Doubt everything.",
    }
    async with http.post("/v1/responses", json=body) as response:
        assert response.status == 200, await response.text()
    (asked,) = shared_gateway.model_requests("are you sure of the told result?")
    assert [m["role"] for m in asked["messages"]] == [
        "system", "user", "assistant", "tool", "assistant", "user",
    ]  # fmt: skip
    assert "Doubt everything." in asked["messages"][0]["content"]


async def test_two_requests_in_one_session_are_answered_in_order_each_by_itself(
    http: aiohttp.ClientSession, shared_gateway: SpawnedGateway
) -> None:
    """H5: the order of acceptance."""
    slow = asyncio.create_task(chat(http, "[latency 0.5] [text slow one]", session="order"))
    await until(lambda: shared_gateway.model_requests("slow one"))
    quick = []
    for n in range(3):
        accepted = shared_gateway.ledger()["accepted"]
        quick.append(asyncio.create_task(chat(http, f"queued {n}", session="order")))
        await until(lambda before=accepted: shared_gateway.ledger()["accepted"] > before)
    assert await slow == (200, "slow one")
    assert [await one for one in quick] == [(200, f"You said: queued {n}") for n in range(3)]
    (asked,) = shared_gateway.model_requests("queued 2")
    texts = [text for text in conversation(asked) if text.startswith("queued")]
    assert texts == ["queued 0", "queued 1", "queued 2"]


async def test_slash_text_without_a_session_is_plain_text(http: aiohttp.ClientSession) -> None:
    assert await chat(http, "/help me") == (200, "You said: /help me")


async def test_commands_of_a_session_are_answered_by_the_gateway(
    http: aiohttp.ClientSession, shared_gateway: SpawnedGateway
) -> None:
    status, text = await chat(http, "/help", session="commands")
    assert status == 200
    for name in ("/help", "/new", "/stop", "/status", "/model"):
        assert name in text
    _, text = await chat(http, "/hlep", session="commands")
    assert text == "There is no command /hlep. Did you mean /help? /help lists the commands."
    _, text = await chat(http, "/stop", session="commands")
    assert text == "Nothing is running."
    _, text = await chat(http, "/status", session="commands")
    assert "Model: scripted" in text
    assert not shared_gateway.model_requests("/hlep")


async def test_new_starts_a_conversation_without_the_old_history(
    http: aiohttp.ClientSession, shared_gateway: SpawnedGateway
) -> None:
    await chat(http, "before the new one", session="renewed")
    assert await chat(http, "/new", session="renewed") == (200, "A new conversation begins.")
    await chat(http, "after the new one", session="renewed")
    assert conversation(shared_gateway.model_requests("after the new one")[0]) == [
        "after the new one"
    ]


async def test_model_applies_to_this_session_only(
    http: aiohttp.ClientSession, shared_gateway: SpawnedGateway
) -> None:
    await chat(http, "by the usual one", session="chooser")
    shown = (await chat(http, "/model", session="chooser"))[1]
    assert shown.startswith("The model is scripted ")
    await chat(http, "/model another", session="chooser")
    await chat(http, "by the other one", session="chooser")
    await chat(http, "elsewhere, as usual", session="no chooser")
    await chat(http, "/model default", session="chooser")
    await chat(http, "by the usual one again", session="chooser")
    for text, model in (
        ("by the other one", "another"),
        ("elsewhere, as usual", "scripted"),
        ("by the usual one again", "scripted"),
    ):
        assert shared_gateway.model_requests(text)[0]["model"] == model


async def test_stop_from_another_connection_ends_the_turn_and_what_waits(
    http: aiohttp.ClientSession, shared_gateway: SpawnedGateway
) -> None:
    """F9: for good. OpenAI's client, which retries on a conflict, does not ask again."""
    before = shared_gateway.ledger()
    async with shared_gateway.async_client(max_retries=2) as client:
        endless = asyncio.ensure_future(
            client.chat.completions.create(
                model="holdfast",
                messages=[{"role": "user", "content": "[latency 30] endless"}],
                extra_headers={"X-Holdfast-Session": "stopped"},
            )
        )
        await until(lambda: shared_gateway.model_requests("endless"))
        waiting = asyncio.create_task(chat(http, "waits behind it", session="stopped"))
        await until(lambda: shared_gateway.ledger()["accepted"] == before["accepted"] + 2)
        assert (await chat(http, "/stop", session="stopped")) == (200, "Stopped.")
        assert (await waiting)[0] == 409
        with pytest.raises(openai.ConflictError, match="cancelled: stopped by its user"):
            await endless
    assert len(shared_gateway.model_requests("endless")) == 1
    assert await chat(http, "still here?", session="stopped") == (200, "You said: still here?")
    after = shared_gateway.ledger()
    assert after["superseded"] == before["superseded"] + 2
    assert after["accepted"] == before["accepted"] + 4


async def test_commands_at_any_time_leave_no_request_waiting(
    http: aiohttp.ClientSession, shared_gateway: SpawnedGateway
) -> None:
    """G3, G4: every message and every command ends, and no lane stays behind."""
    before = shared_gateway.ledger()
    texts = ["hi", "[latency 0.05] hi", "/stop", "/new", "/status", "/model default"] * 20
    random.Random(8787).shuffle(texts)

    async def send_after(index: int, text: str) -> int:
        await asyncio.sleep(index * 0.005)
        return (await chat(http, text, session=f"hectic {index % 3}"))[0]

    async with asyncio.timeout(30):
        found = await asyncio.gather(*(send_after(index, text) for index, text in enumerate(texts)))
    for text, status in zip(texts, found, strict=True):
        assert status in ((200,) if text.startswith("/") else (200, 409))
    await until(lambda: shared_gateway.status()["in_flight"] == 0)
    await until(lambda: not any(shared_gateway.status()["turns"].values()))
    after = shared_gateway.ledger()
    assert after["accepted"] == before["accepted"] + len(texts)
    assert after["queued"] == after["running"] == after["failed"] - before["failed"] == 0


async def test_new_ends_the_turn_that_runs_and_what_waits_behind_it(
    http: aiohttp.ClientSession, shared_gateway: SpawnedGateway
) -> None:
    """G4: superseded, and told so."""
    running = asyncio.create_task(chat(http, "[latency 30] left behind", session="left"))
    await until(lambda: shared_gateway.model_requests("left behind"))
    accepted = shared_gateway.ledger()["accepted"]
    waiting = asyncio.create_task(chat(http, "never begun", session="left"))
    await until(lambda: shared_gateway.ledger()["accepted"] == accepted + 1)
    assert (await chat(http, "/new", session="left"))[0] == 200
    assert (await running)[0] == (await waiting)[0] == 409
    assert not shared_gateway.model_requests("never begun")


async def test_a_stop_at_the_moment_of_the_reply_ends_the_turn_once(
    http: aiohttp.ClientSession, shared_gateway: SpawnedGateway
) -> None:
    """H7: the turn ends once, by whichever was first."""
    texts = ["quick", "[status 400]"]

    async def race(index: int) -> tuple[int, int]:
        session = f"instant {index}"
        answer = asyncio.create_task(chat(http, texts[index % 2], session=session))
        await asyncio.sleep(index % 40 * 0.002)
        stop = await chat(http, "/stop", session=session)
        return (await answer)[0], stop[0]

    async with asyncio.timeout(40):
        for batch in range(0, 240, 24):
            found = await asyncio.gather(*(race(index) for index in range(batch, batch + 24)))
            assert {status for status, _ in found} <= {200, 409, 502}
            assert {status for _, status in found} == {200}
    await until(lambda: shared_gateway.status()["in_flight"] == 0)
