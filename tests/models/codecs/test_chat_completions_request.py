"""Requests of the chat completions codec are valid for the strictest provider."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.config.settings import Provider
from holdfast.core.ids import CallId
from holdfast.core.messages.transcript import (
    AssistantMessage,
    Image,
    Message,
    NoteMessage,
    Reasoning,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from holdfast.core.secrets import Secret
from holdfast.core.turns.model import ModelRequest, ToolSchema
from holdfast.core.turns.projection import project
from holdfast.models.codecs.chat_completions import ChatCompletionsCodec
from holdfast.models.target import ModelTarget
from holdfast.testing.misbehaving_model.chat_completions import StrictChatReader

TARGET = ModelTarget(provider=Provider.LOCAL, name="m", base_url="http://127.0.0.1:1/v1")
TOOL = ToolSchema(name="terminal", description="runs", parameters={"type": "object"})
TEXT = st.text(st.characters(codec=None), max_size=12)  # halves of characters included
IDS = st.sampled_from(["a", "b", "c"]).map(CallId)
CALL = st.builds(
    ToolCall, id=IDS, name=st.text(max_size=70), arguments=st.text(max_size=12) | st.just('{"x":1}')
)
MESSAGE = st.one_of(
    st.builds(
        UserMessage,
        text=TEXT,
        speaker=st.none() | TEXT,
        note=st.none() | TEXT,
        images=st.sampled_from([(), (Image(data="aGk="),), (Image(url="ftp://x"), Image())]),
    ),
    st.builds(AssistantMessage, text=TEXT, calls=st.lists(CALL, max_size=3).map(tuple)),
    st.builds(ToolMessage, call_id=IDS, name=st.just("terminal"), text=TEXT),
    st.builds(NoteMessage, text=TEXT),
)


def sent(*messages: Message, target: ModelTarget = TARGET, **rest: Any) -> dict[str, Any]:
    request = ModelRequest(system="be brief", messages=messages, **rest)
    body = ChatCompletionsCodec().encode(request, target)
    StrictChatReader().read(body)
    return json.loads(body)  # type: ignore[no-any-return]


@given(st.lists(MESSAGE, max_size=10))
def test_every_projected_history_is_accepted_by_the_strictest_provider(
    history: list[Message],
) -> None:
    """H7: the transcript is always one that a provider accepts."""
    sent(*project(history))


def test_a_trivial_request_is_the_prompt_the_text_and_the_tools() -> None:
    assert sent(UserMessage(text="hi"), tools=(TOOL,)) == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "hi"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "terminal",
                    "description": "runs",
                    "parameters": {"type": "object"},
                },
            }
        ],
    }


def test_a_note_and_a_speaker_precede_the_unchanged_text() -> None:
    """F6: the note stands in front of the user's unchanged text."""
    said = UserMessage(text="  go on ", speaker="Ada", note="[System note: x]")
    assert sent(said)["messages"][1]["content"] == "[System note: x]\n\nAda:   go on "


def test_images_follow_the_text_as_addresses_or_data() -> None:
    shown = UserMessage(
        text="what is it?",
        images=(Image(media_type="image/jpeg", data="aGk="), Image(url="https://x/y.png")),
    )
    assert sent(shown)["messages"][1]["content"] == [
        {"type": "text", "text": "what is it?"},
        {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,aGk="}},
        {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
    ]


def test_a_note_alone_is_a_user_message_and_joins_the_adjacent_one() -> None:
    body = sent(UserMessage(text="do it"), NoteMessage(text="[System note: restarted]"))
    assert body["messages"][1:] == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "do it"},
                {"type": "text", "text": "[System note: restarted]"},
            ],
        }
    ]


def test_malformed_arguments_are_sent_back_inside_an_object() -> None:
    call = ToolCall(id=CallId("a"), name="terminal", arguments='{"command": "l')
    body = sent(
        UserMessage(text="x"),
        AssistantMessage(calls=(call,)),
        ToolMessage(call_id=CallId("a"), name="terminal", text="bad arguments"),
    )
    arguments = body["messages"][2]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(arguments) == {"malformed": '{"command": "l'}


def test_a_call_id_used_again_is_renamed_together_with_its_result() -> None:
    call = ToolCall(id=CallId("a"), name="t", arguments="{}")
    step = (AssistantMessage(calls=(call,)), ToolMessage(call_id=call.id, name="t", text="1"))
    messages = sent(UserMessage(text="x"), *step, *step)["messages"]
    assert messages[2]["tool_calls"][0]["id"] == "a" == messages[3]["tool_call_id"]
    assert messages[4]["tool_calls"][0]["id"] != "a"
    assert messages[4]["tool_calls"][0]["id"] == messages[5]["tool_call_id"]


def test_reasoning_is_sent_back_unchanged_in_its_own_field_to_its_own_model() -> None:
    details = '[{"type":"reasoning.text","text":"a","signature":"s"}]'
    reasoning = (Reasoning(text="a", opaque="reasoning"), Reasoning(opaque=details))
    own = AssistantMessage(text="4", reasoning=reasoning, model="m")
    back = sent(UserMessage(text="x"), own, UserMessage(text="y"))["messages"][2]
    assert back["reasoning"] == "a"
    assert back["reasoning_details"] == json.loads(details)
    other = AssistantMessage(text="4", reasoning=reasoning, model="another")
    back = sent(UserMessage(text="x"), other, UserMessage(text="y"))["messages"][2]
    assert back == {"role": "assistant", "content": "4"}


@pytest.mark.parametrize(
    ("provider", "name", "expected"),
    [
        (Provider.OPENAI, "gpt-5.1", {"reasoning_effort": "low", "max_completion_tokens": 9}),
        (Provider.OPENAI, "gpt-4.1", {"max_completion_tokens": 9}),
        (Provider.OPENROUTER, "x/y", {"reasoning": {"effort": "low"}, "max_tokens": 9}),
        (Provider.LOCAL, "m", {"max_tokens": 9}),
    ],
)
def test_effort_is_sent_only_where_the_model_supports_it(
    provider: Provider, name: str, expected: dict[str, Any]
) -> None:
    target = ModelTarget(provider=provider, name=name, base_url="http://127.0.0.1:1/v1")
    plain = sent(UserMessage(text="x"), target=target, reasoning="none")
    body = sent(UserMessage(text="x"), target=target, reasoning="low", max_output_tokens=9)
    assert {key: body[key] for key in body.keys() - plain.keys()} == expected


def test_the_key_is_a_bearer_token_and_without_a_key_there_is_no_header() -> None:
    codec = ChatCompletionsCodec()
    with_key = ModelTarget(provider=Provider.OPENAI, name="m", api_key=Secret("sk-1"))
    assert codec.headers(with_key)["Authorization"] == "Bearer sk-1"
    assert "Authorization" not in codec.headers(TARGET)


def test_encoded_tools_are_cached_and_never_confused_with_others() -> None:
    codec = ChatCompletionsCodec()
    for n in range(200):
        tools = (ToolSchema(name=f"tool{n}", description="", parameters={}),)
        request = ModelRequest(system="", messages=(UserMessage(text="x"),), tools=tools)
        for _ in range(2):
            body = json.loads(codec.encode(request, TARGET))
            assert body["tools"][0]["function"]["name"] == f"tool{n}"
