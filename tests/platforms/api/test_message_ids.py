"""Tests message ids of the API: a repeated request gets the same reply, also after a crash."""

import asyncio
import signal
from typing import Any

import aiohttp
import openai
import pytest
from tests.support.gateway_process import NewGateway, SpawnedGateway, until
from tests.support.ports import own_port

Reply = tuple[int, dict[str, Any]]


async def ask(
    shared_gateway: SpawnedGateway,
    text: str,
    *,
    message_id: str = "",
    session: str = "",
    **body: Any,
) -> Reply:
    """One request on a connection of its own."""
    headers = dict(shared_gateway.auth)
    if message_id:
        headers["X-Holdfast-Message-Id"] = message_id
    if session:
        headers["X-Holdfast-Session"] = session
    body = {"messages": [{"role": "user", "content": text}], **body}
    async with (
        aiohttp.ClientSession(shared_gateway.address, headers=headers) as http,
        http.post("/v1/chat/completions", json=body) as response,
    ):
        return response.status, await response.json()


def text_of(reply: Reply) -> str:
    status, body = reply
    assert status == 200, body
    text: str = body["choices"][0]["message"]["content"]
    return text


async def test_a_message_sent_by_many_at_once_is_answered_once(
    shared_gateway: SpawnedGateway,
) -> None:
    """G2: accepted once; every one of them gets the answer."""
    before, text = shared_gateway.ledger(), "[latency 0.2] [text from the crowd]"
    replies = await asyncio.gather(
        *(ask(shared_gateway, text, message_id="crowd", session="crowd") for _ in range(20))
    )
    assert {text_of(reply) for reply in replies} == {"from the crowd"}
    assert len({body["id"] for _, body in replies}) == 1
    assert len(shared_gateway.model_requests("from the crowd")) == 1
    assert shared_gateway.ledger()["answered"] == before["answered"] + 1


@pytest.mark.parametrize("session", ["", "late"])
async def test_a_late_duplicate_gets_the_stored_answer(
    shared_gateway: SpawnedGateway, session: str
) -> None:
    text = f"late duplicate {session or 'alone'}"
    first = await ask(shared_gateway, text, message_id="late", session=session)
    again = await ask(shared_gateway, text, message_id="late", session=session)
    assert again == first and text_of(again) == f"You said: {text}"
    assert len(shared_gateway.model_requests(text)) == 1


async def test_an_id_used_for_another_message_is_a_conflict(shared_gateway: SpawnedGateway) -> None:
    await ask(shared_gateway, "the first text", message_id="reused", session="reused")
    before = shared_gateway.ledger()
    status, body = await ask(shared_gateway, "another text", message_id="reused", session="reused")
    assert status == 409 and "was used for another message" in body["error"]["message"]
    await ask(shared_gateway, "the same words", message_id="stateless")
    stream_text = [
        {"role": "user", "content": "an other past"},
        {"role": "assistant", "content": "hm"},
    ]
    said = [*stream_text, {"role": "user", "content": "the same words"}]
    status, _ = await ask(shared_gateway, "", message_id="stateless", messages=said)
    assert status == 409
    assert shared_gateway.ledger()["accepted"] == before["accepted"] + 1


async def test_the_same_id_in_two_sessions_is_two_messages(shared_gateway: SpawnedGateway) -> None:
    """A slash in a name must not make the one look like the other."""
    one = await ask(shared_gateway, "one of two", message_id="c", session="a/b")
    two = await ask(shared_gateway, "two of two", message_id="b/c", session="a")
    assert (text_of(one), text_of(two)) == ("You said: one of two", "You said: two of two")


async def test_a_request_without_an_id_gets_one_that_can_be_used_to_attach(
    shared_gateway: SpawnedGateway,
) -> None:
    async with aiohttp.ClientSession(shared_gateway.address, headers=shared_gateway.auth) as http:
        body = {"input": "no id given"}
        async with http.post("/v1/responses", json=body) as response:
            first = await response.json()
            message_id = response.headers["X-Holdfast-Message-Id"]
        headers = {"X-Holdfast-Message-Id": message_id}
        async with http.post("/v1/responses", json=body, headers=headers) as response:
            assert await response.json() == first
    assert len(shared_gateway.model_requests("no id given")) == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_loses_nothing(
    shared_gateway: SpawnedGateway, stream: bool
) -> None:
    name = f"leaver {stream}"
    text = f"[first 0.3] [delay 0.05] [text the whole answer for a {name}]"
    leaving = asyncio.create_task(ask(shared_gateway, text, message_id=name, stream=stream))
    await until(lambda: shared_gateway.model_requests(name))
    leaving.cancel()
    await asyncio.wait([leaving])
    answer = await ask(shared_gateway, text, message_id=name)
    assert text_of(answer) == f"the whole answer for a {name}"
    assert len(shared_gateway.model_requests(name)) == 1


async def test_a_stream_joined_late_starts_from_the_beginning(
    shared_gateway: SpawnedGateway,
) -> None:
    text = "[delay 0.1] [text one two three four five six seven eight nine ten eleven]"
    headers = {"X-Holdfast-Message-Id": "joined"}
    async with shared_gateway.async_client() as client:

        async def stream_text(seen: asyncio.Event) -> str:
            pieces = []
            async for chunk in await client.chat.completions.create(
                model="holdfast",
                messages=[{"role": "user", "content": text}],
                stream=True,
                extra_headers=headers,
            ):
                pieces.append(chunk.choices[0].delta.content or "")
                if len(pieces) > 3:
                    seen.set()
            return "".join(pieces)

        begun = asyncio.Event()
        first = asyncio.create_task(stream_text(begun))
        await begun.wait()
        second = await stream_text(asyncio.Event())
        assert second == await first == "one two three four five six seven eight nine ten eleven"


def _silent(text: str) -> dict[str, Any]:
    """The first who asks for this is not answered, however long it takes to cut them off."""
    return {"match": text, "fault": "silence"}


async def test_replies_survive_kill_9_and_are_delivered_once(new_gateway: NewGateway) -> None:
    """G2, H3, H4: a duplicate after the restart attaches to what is stored or resumed."""
    gateway = new_gateway().start()
    first = await ask(gateway, "told before the kill", message_id="m1", session="s")
    interrupted_text = "[text told after the kill]"
    gateway.model.script(_silent("told after the kill"))
    interrupted = asyncio.create_task(ask(gateway, interrupted_text, message_id="m2", session="s"))
    await until(lambda: gateway.model_requests("told after the kill"))
    gateway.end(signal.SIGKILL)
    with pytest.raises(aiohttp.ClientError):
        await interrupted
    await asyncio.to_thread(gateway.start)
    resumed = await ask(gateway, interrupted_text, message_id="m2", session="s")
    assert text_of(resumed) == "told after the kill"
    assert await ask(gateway, "told before the kill", message_id="m1", session="s") == first
    status, _ = await ask(gateway, "something else", message_id="m1", session="s")
    assert status == 409
    assert len(gateway.model_requests("told before the kill")) == 1
    ledger = gateway.ledger()
    assert (ledger["accepted"], ledger["answered"]) == (2, 2)


async def test_clients_survive_a_stop_in_the_middle_of_a_turn(new_gateway: NewGateway) -> None:
    """A client that named its message never notices; one that did not is told the name."""
    gateway = new_gateway(HOLDFAST_GATEWAY_PORT=str(own_port())).start()
    async with gateway.async_client(max_retries=8) as client:

        def ask_later(text: str, **headers: str) -> asyncio.Task[Any]:
            messages: Any = [{"role": "user", "content": text}]
            return asyncio.ensure_future(
                client.chat.completions.create(
                    model="holdfast", messages=messages, extra_headers=headers
                )
            )

        gateway.model.script(_silent("carried over"), _silent("told the name"))
        named = ask_later("[text carried over]", **{"X-Holdfast-Message-Id": "carried"})
        nameless = ask_later("[text told the name]")
        await until(
            lambda: (
                gateway.model_requests("carried over") and gateway.model_requests("told the name")
            )
        )
        assert await asyncio.to_thread(gateway.end) == 0
        with pytest.raises(openai.InternalServerError, match="X-Holdfast-Message-Id: ") as caught:
            await nameless
        await asyncio.to_thread(gateway.start)
        assert (await named).choices[0].message.content == "carried over"
    message_id = caught.value.message.rpartition(" ")[2]
    late = await ask(gateway, "[text told the name]", message_id=message_id)
    assert text_of(late) == "told the name"
    assert gateway.ledger()["accepted"] == 2
