"""Tests the official OpenAI client against a real gateway: both APIs, streaming and errors."""

import base64
from typing import Any

import openai
import pytest
from tests.support.gateway_process import SpawnedGateway

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n pretend").decode()


def user(text: str) -> Any:
    return [{"role": "user", "content": text}]


def test_a_chat_completion_has_text_id_and_usage(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="holdfast", messages=user("good morning"))
    assert answer.choices[0].message.content == "You said: good morning"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.id.startswith("chatcmpl-")
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.usage.completion_tokens > 0


def test_a_streamed_chat_completion_is_the_same_text_in_pieces(client: openai.OpenAI) -> None:
    chunks = list(
        client.chat.completions.create(
            model="holdfast",
            messages=user("[delay 0.02] [text one two three four five six]"),
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    pieces = [c.choices[0].delta.content or "" for c in chunks if c.choices]
    assert "".join(pieces) == "one two three four five six"
    assert len(pieces) > 4
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    assert chunks[-1].choices == [] and chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens > 0
    assert len({chunk.id for chunk in chunks}) == 1


def test_the_chat_stream_helper_gathers_the_completion(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(model="holdfast", messages=user("gather")) as stream:
        kinds = [event.type for event in stream]
        whole = stream.get_final_completion()
    assert "content.delta" in kinds and kinds[-1] == "content.done"
    assert whole.choices[0].message.content == "You said: gather"


def test_a_response_has_text_and_can_be_fetched_again(client: openai.OpenAI) -> None:
    answer = client.responses.create(model="holdfast", input="good evening")
    assert answer.output_text == "You said: good evening"
    assert answer.status == "completed" and answer.usage is not None
    again = client.responses.retrieve(answer.id)
    assert again.to_dict() == answer.to_dict()


def test_the_responses_stream_helper_gathers_the_response(client: openai.OpenAI) -> None:
    with client.responses.stream(
        model="holdfast", input="[delay 0.02] [text a b c d e f g h i j]"
    ) as stream:
        events = list(stream)
        whole = stream.get_final_response()
    assert [event.sequence_number for event in events] == list(range(len(events)))
    deltas = [e.delta for e in events if e.type == "response.output_text.delta"]
    assert "".join(deltas) == whole.output_text == "a b c d e f g h i j"
    assert events[-1].type == "response.completed"


def test_a_stored_response_is_streamed_again_from_its_beginning(client: openai.OpenAI) -> None:
    answer = client.responses.create(model="holdfast", input="once more")
    events = list(client.responses.retrieve(answer.id, stream=True))
    assert events[-1].type == "response.completed"
    assert events[-1].response.to_dict() == answer.to_dict()


async def test_the_async_client_speaks_both_apis(shared_gateway: SpawnedGateway) -> None:
    async with shared_gateway.async_client(max_retries=0) as client:
        chat = await client.chat.completions.create(model="holdfast", messages=user("a"))
        assert chat.choices[0].message.content == "You said: a"
        response = await client.responses.create(model="holdfast", input="b")
        assert response.output_text == "You said: b"
        chunks = await client.chat.completions.create(
            model="holdfast", messages=user("c"), stream=True
        )
        pieces = [chunk.choices[0].delta.content or "" async for chunk in chunks]
        assert "".join(pieces) == "You said: c"
        async with client.responses.stream(model="holdfast", input="d") as stream:
            assert (await stream.get_final_response()).output_text == "You said: d"
        assert [model.id async for model in client.models.list()] == ["holdfast"]


def test_the_one_model_is_listed_and_others_are_not_there(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["holdfast"]
    assert client.models.retrieve("holdfast").owned_by == "holdfast"
    with pytest.raises(openai.NotFoundError, match="the only model is"):
        client.models.retrieve("gpt-5")


def test_a_previous_response_is_the_past_of_the_next(
    client: openai.OpenAI, shared_gateway: SpawnedGateway
) -> None:
    first = client.responses.create(model="holdfast", input="my name is Kelp")
    second = client.responses.create(
        model="holdfast", input="what is it, by chain?", previous_response_id=first.id
    )
    third = client.responses.create(
        model="holdfast", input="third in the chain", previous_response_id=second.id
    )
    assert third.output_text == "You said: third in the chain"
    (asked,) = shared_gateway.model_requests("third in the chain")
    assert [m["content"] for m in asked["messages"][1:]] == [
        "my name is Kelp",
        "You said: my name is Kelp",
        "what is it, by chain?",
        "You said: what is it, by chain?",
        "third in the chain",
    ]


def test_a_branch_from_an_earlier_response_knows_nothing_of_the_other(
    client: openai.OpenAI, shared_gateway: SpawnedGateway
) -> None:
    root = client.responses.create(model="holdfast", input="the root")
    for leaf in ("left branch", "right branch"):
        client.responses.create(model="holdfast", input=leaf, previous_response_id=root.id)
    (asked,) = shared_gateway.model_requests("right branch")
    assert "left branch" not in str(asked)


def test_a_failed_response_is_stored_and_cannot_be_continued(client: openai.OpenAI) -> None:
    seen = []
    with pytest.raises(openai.APIError, match="could not be answered"):
        for event in client.responses.create(model="holdfast", input="[status 400]", stream=True):
            seen.append(event)
    failed = seen[-1]
    assert failed.type == "response.failed"
    fetched = client.responses.retrieve(failed.response.id)
    assert fetched.status == "failed" and fetched.error is not None
    assert "could not be answered" in fetched.error.message
    with pytest.raises(openai.BadRequestError, match="nothing can follow it"):
        client.responses.create(model="x", input="go on", previous_response_id=fetched.id)


def test_an_image_reaches_the_model(client: openai.OpenAI, shared_gateway: SpawnedGateway) -> None:
    url = f"data:image/png;base64,{PIXEL}"
    client.chat.completions.create(
        model="holdfast",
        messages=[
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "see this chat picture"},
                    {"type": "image_url", "image_url": {"url": url}},
                ],
            }
        ],
    )
    client.responses.create(
        model="holdfast",
        input=[
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "see this response picture"},
                    {"type": "input_image", "image_url": url, "detail": "auto"},
                ],
            }
        ],
    )
    for text in ("see this chat picture", "see this response picture"):
        (asked,) = shared_gateway.model_requests(text)
        assert asked["messages"][-1]["content"][-1]["image_url"]["url"] == url


def test_each_error_has_the_class_that_the_client_gives_it(
    client: openai.OpenAI, shared_gateway: SpawnedGateway
) -> None:
    with (
        shared_gateway.client(api_key="sk-wrong", max_retries=0) as unauthorised_client,
        pytest.raises(openai.AuthenticationError, match="holdfast token"),
    ):
        unauthorised_client.models.list()
    tool: Any = {"type": "function", "function": {"name": "f", "parameters": {}}}
    with pytest.raises(openai.BadRequestError, match="has its own tools") as caught:
        client.chat.completions.create(model="holdfast", messages=user("x"), tools=[tool])
    assert caught.value.param == "tools"
    with pytest.raises(openai.BadRequestError, match="has its own tools"):
        client.responses.create(
            model="holdfast",
            input="x",
            tools=[{"type": "function", "name": "f", "parameters": {}, "strict": True}],
        )
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        client.responses.retrieve("resp_999999999")
    with pytest.raises(openai.NotFoundError, match="POST /v1/embeddings does not"):
        client.embeddings.create(model="holdfast", input="x")


@pytest.mark.parametrize(("status", "why"), [(400, "refused the request"), (401, "API key")])
def test_a_model_error_is_reported_to_the_client_and_the_ledger(
    shared_gateway: SpawnedGateway, status: int, why: str
) -> None:
    """G3: failed, told why. The client's own retries do not ask again."""
    text, before = f"[status {status}] ledger", shared_gateway.ledger()
    with shared_gateway.client(max_retries=2) as client:
        with pytest.raises(openai.InternalServerError, match=why):
            client.chat.completions.create(model="holdfast", messages=user(text))
        with pytest.raises(openai.APIError, match=why):
            list(client.chat.completions.create(model="holdfast", messages=user(text), stream=True))
        with pytest.raises(openai.APIError, match=why):
            list(client.responses.create(model="holdfast", input=text, stream=True))
    after = shared_gateway.ledger()
    assert after["failed"] == before["failed"] + 3
    assert after["accepted"] == before["accepted"] + 3


@pytest.mark.parametrize("split", ["", "[delay 0.01] "])
def test_a_secret_is_in_no_stream_and_no_response(
    client: openai.OpenAI, shared_gateway: SpawnedGateway, split: str
) -> None:
    """Law 13: the gate knows a secret's value, also where it comes in pieces."""
    text = f"{split}[text it is {shared_gateway.token}, keep it]"
    whole = client.chat.completions.create(model="holdfast", messages=user(text))
    assert whole.choices[0].message.content == "it is [redacted], keep it"
    chunks = client.chat.completions.create(model="holdfast", messages=user(text), stream=True)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text == "it is [redacted], keep it"
