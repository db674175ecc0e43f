"""Replies of the chat completions codec are assembled from any fragments."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.config.settings import Provider
from holdfast.core.ids import CallId
from holdfast.core.messages.transcript import (
    AssistantMessage,
    Reasoning,
    StopReason,
    ToolCall,
    UserMessage,
)
from holdfast.core.turns.model import (
    Completed,
    ModelFailed,
    ModelFault,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
)
from holdfast.core.turns.turn import Usage
from holdfast.models.codecs.chat_completions import ChatDecoder
from holdfast.models.target import ModelTarget

TARGET = ModelTarget(provider=Provider.LOCAL, name="m", base_url="http://127.0.0.1:1/v1")
ASKED = ModelRequest(system="s", messages=(UserMessage(text="hi"),))


def chunk(delta: dict[str, Any], finish: str | None = None, **rest: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return json.dumps({"choices": [choice], **rest}).encode()


def reply(*payloads: bytes, request: ModelRequest = ASKED, ended: bool = True) -> Completed:
    decoder = ChatDecoder(request=request, target=TARGET)
    for payload in payloads:
        decoder.feed([payload])
    return decoder.complete(ended=ended)


def calls_of(*fragments: dict[str, Any]) -> list[tuple[str, str, str]]:
    payloads = [chunk({"tool_calls": [fragment]}) for fragment in fragments]
    message = reply(*payloads, chunk({}, "tool_calls")).message
    return [(call.id, call.name, call.arguments) for call in message.calls]


def test_text_streams_and_pieces_of_one_batch_are_joined() -> None:
    decoder = ChatDecoder(request=ASKED, target=TARGET)
    assert decoder.feed([chunk({"role": "assistant", "content": ""})]) == []
    assert decoder.feed([chunk({"content": "a"}), chunk({"content": "b"})]) == [TextDelta("ab")]
    assert not decoder.finished
    assert decoder.feed([chunk({"content": "c"}, "stop")]) == [TextDelta("c")]
    assert decoder.finished
    message = decoder.complete(ended=True).message
    assert message == AssistantMessage(text="abc", model="m", stop=StopReason.END)


@given(
    arguments=st.lists(
        st.dictionaries(st.text(max_size=5), st.text(max_size=20), max_size=3),
        min_size=1,
        max_size=4,
    ),
    data=st.data(),
)
def test_parallel_calls_in_any_fragments_assemble_the_same(
    arguments: list[dict[str, str]], data: st.DataObject
) -> None:
    texts = [json.dumps(each) for each in arguments]
    opening = [
        {"index": n, "id": f"id{n}", "function": {"name": f"tool{n}", "arguments": ""}}
        for n in range(len(texts))
    ]
    rest: list[dict[str, Any]] = []
    left = dict(enumerate(texts))
    while left:
        n = data.draw(st.sampled_from(sorted(left)))
        size = data.draw(st.integers(1, len(left[n])))
        rest.append({"index": n, "function": {"arguments": left[n][:size]}})
        left[n] = left[n][size:]
        if not left[n]:
            del left[n]
    assert calls_of(*opening, *rest) == [
        (f"id{n}", f"tool{n}", text) for n, text in enumerate(texts)
    ]


def test_calls_that_share_an_index_are_distinguished_by_their_ids() -> None:
    assert calls_of(
        {"index": 0, "id": "a", "function": {"name": "t", "arguments": '{"x":1}'}},
        {"index": 0, "id": "b", "function": {"name": "t", "arguments": '{"x":2}'}},
    ) == [("a", "t", '{"x":1}'), ("b", "t", '{"x":2}')]


def test_calls_without_an_index_are_distinguished_by_their_names_and_get_ids() -> None:
    made = [
        {"function": {"name": "t", "arguments": {"x": 1}}},
        {"function": {"name": "u", "arguments": ""}},
    ]
    (first, *t), (second, *u) = calls_of(*made)
    assert (t, u) == (["t", '{"x":1}'], ["u", "{}"])
    assert first and second and first != second
    assert [first, second] == [call[0] for call in calls_of(*made)]


def test_an_id_repeated_in_every_fragment_opens_one_call() -> None:
    assert calls_of(
        {"index": 0, "id": "a", "function": {"name": "t", "arguments": "{"}},
        {"index": 0, "id": "a", "function": {"name": "t", "arguments": "}"}},
    ) == [("a", "t", "{}")]


def test_an_id_that_an_earlier_call_has_is_replaced_the_same_way_each_time() -> None:
    earlier = AssistantMessage(calls=(ToolCall(id=CallId("a"), name="t", arguments="{}"),))
    request = ModelRequest(system="", messages=(UserMessage(text="x"), earlier))
    payload = chunk({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "t"}}]}, "stop")
    first, second = (reply(payload, request=request).message.calls for _ in range(2))
    assert first == second
    assert first[0].id != "a"
    longer = ModelRequest(system="", messages=(*request.messages, UserMessage(text="y")))
    assert reply(payload, request=longer).message.calls[0].id not in ("a", first[0].id)


def test_a_reply_with_calls_has_the_stop_reason_tool_calls_whatever_the_server_says() -> None:
    call = {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "t", "arguments": "{}"}}]}
    assert reply(chunk(call, "stop")).message.stop is StopReason.TOOL_CALLS
    assert reply(chunk(call, "length")).message.stop is StopReason.LENGTH
    assert reply(chunk({"content": "x"}, "tool_calls")).message.stop is StopReason.END
    assert reply(chunk({"content": "x"}, "content_filter")).message.stop is StopReason.FILTERED


def test_usage_counts_cached_and_reasoning_tokens() -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 64},
        "completion_tokens_details": {"reasoning_tokens": 7},
    }
    last = json.dumps({"choices": [], "usage": usage}).encode()
    assert reply(chunk({"content": "x"}, "stop"), last).usage == Usage(
        input_tokens=100, output_tokens=20, cached_tokens=64, reasoning_tokens=7
    )


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_streams_and_records_the_field_it_came_in(field: str) -> None:
    decoder = ChatDecoder(request=ASKED, target=TARGET)
    assert decoder.feed([chunk({field: "let me "})]) == [ReasoningDelta("let me ")]
    decoder.feed([chunk({field: "see"}), chunk({"content": "4"}, "stop")])
    message = decoder.complete(ended=True).message
    assert message.reasoning == (Reasoning(text="let me see", opaque=field),)


def test_reasoning_details_are_joined_by_block_with_their_signature() -> None:
    block = {"type": "reasoning.text", "index": 0, "format": "anthropic-claude-v1"}
    done = {"type": "reasoning.encrypted", "index": 1, "data": "xyz"}
    message = reply(
        chunk({"reasoning": "a", "reasoning_details": [{**block, "text": "a"}]}),
        chunk({"reasoning": "b", "reasoning_details": [{**block, "text": "b"}]}),
        chunk({"reasoning_details": [{**block, "signature": "sig"}]}),
        chunk({"reasoning_details": [done]}),
        chunk({"content": "x"}, "stop"),
    ).message
    assert message.reasoning[0] == Reasoning(text="ab", opaque="reasoning")
    assert json.loads(message.reasoning[1].opaque or "") == [
        {**block, "text": "ab", "signature": "sig"},
        done,
    ]


def test_half_an_escaped_character_does_not_lose_the_reply() -> None:
    broken = b'{"choices":[{"delta":{"content":"a\\ud83d"},"finish_reason":"stop"}]}'
    assert reply(broken).message.text == "a?"


@pytest.mark.parametrize("content", [None, ""])
def test_a_stream_without_a_finish_reason_is_complete_only_with_its_end_marker(
    content: str | None,
) -> None:
    said = chunk({"content": "all of it"})
    assert reply(said, chunk({"content": content})).message.text == "all of it"
    with pytest.raises(ModelFailed) as cut:
        reply(said, ended=False)
    assert cut.value.fault is ModelFault.MALFORMED
    with pytest.raises(ModelFailed):
        reply(chunk({"content": content}))


@pytest.mark.parametrize(
    ("payload", "fault"),
    [
        (b'{"choices":[{"delta":{"con', ModelFault.MALFORMED),
        (b"<html>", ModelFault.MALFORMED),
        (b'{"choices": "none"}', ModelFault.MALFORMED),
        (b"[" * 100_000, ModelFault.MALFORMED),
        (b'{"error":{"message":"overloaded","code":502}}', ModelFault.SERVER),
        (b'{"error":{"message":"slow down","code":429}}', ModelFault.RATE_LIMIT),
        (b'{"error":"boom"}', ModelFault.SERVER),
        (b'{"choices":[{"delta":{},"finish_reason":"error"}]}', ModelFault.SERVER),
        (b'{"error":{"message":"maximum context length is 8192","code":400}}',
         ModelFault.CONTEXT_TOO_LONG),
    ],
)  # fmt: skip
def test_an_invalid_response_is_a_fault(payload: bytes, fault: ModelFault) -> None:
    with pytest.raises(ModelFailed) as failed:
        reply(payload)
    assert failed.value.fault is fault


def test_a_call_without_a_name_is_a_fault() -> None:
    with pytest.raises(ModelFailed, match="without naming it"):
        calls_of({"index": 0, "id": "a", "function": {"arguments": "{}"}})


def test_other_choices_than_the_first_are_not_mixed_in() -> None:
    other = {"index": 1, "delta": {"content": "no"}, "finish_reason": "stop"}
    payload = json.dumps({"choices": [other]}).encode()
    assert reply(chunk({"content": "yes"}), payload, chunk({}, "stop")).message.text == "yes"
