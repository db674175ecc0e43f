"""The Responses codec: valid requests, and replies assembled from any fragments."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.config.settings import ApiMode, Provider
from holdfast.core.ids import CallId
from holdfast.core.messages.transcript import (
    AssistantMessage,
    Image,
    Message,
    NoteMessage,
    Reasoning,
    StopReason,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from holdfast.core.turns.model import (
    Completed,
    ModelFailed,
    ModelFault,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    ToolSchema,
)
from holdfast.core.turns.projection import project
from holdfast.core.turns.turn import Usage
from holdfast.models.codecs.responses import ResponsesCodec, ResponsesDecoder
from holdfast.models.target import ModelTarget
from holdfast.testing.misbehaving_model.responses import StrictResponsesReader

TARGET = ModelTarget(provider=Provider.OPENAI, name="gpt-5.1", api_mode=ApiMode.RESPONSES)
PLAIN = ModelTarget(provider=Provider.OPENAI, name="gpt-4.1", api_mode=ApiMode.RESPONSES)
ASKED = ModelRequest(system="s", messages=(UserMessage(text="hi"),))
TOOL = ToolSchema(name="terminal", description="runs", parameters={"type": "object"})
TEXT = st.text(st.characters(codec=None), max_size=12)  # halves of characters included
IDS = st.sampled_from(["a", "b.1", "c/" * 30]).map(CallId)
CALL = st.builds(
    ToolCall, id=IDS, name=st.text(max_size=70), arguments=st.text(max_size=12) | st.just('{"x":1}')
)
ENCRYPTED = {"type": "reasoning", "summary": [], "encrypted_content": "xyz"}
THOUGHT = st.builds(
    lambda text, calls: Reasoning(
        opaque=json.dumps({"part": ENCRYPTED, "text": text, "calls": calls}).replace(": ", ":")
    ),
    st.integers(0, 12),
    st.integers(0, 3),
) | st.just(Reasoning(text="x", opaque="reasoning_content"))
MESSAGE = st.one_of(
    st.builds(
        UserMessage,
        text=TEXT,
        speaker=st.none() | TEXT,
        note=st.none() | TEXT,
        images=st.sampled_from([(), (Image(data="aGk="),), (Image(url="ftp://x"), Image())]),
    ),
    st.builds(
        AssistantMessage,
        text=TEXT,
        calls=st.lists(CALL, max_size=3).map(tuple),
        reasoning=st.lists(THOUGHT, max_size=2).map(tuple),
        model=st.sampled_from(["gpt-5.1", "another"]),
    ),
    st.builds(ToolMessage, call_id=IDS, name=st.just("terminal"), text=TEXT),
    st.builds(NoteMessage, text=TEXT),
)


def sent(*messages: Message, target: ModelTarget = TARGET, **rest: Any) -> dict[str, Any]:
    request = ModelRequest(system="be brief", messages=messages, **rest)
    body = ResponsesCodec().encode(request, target)
    StrictResponsesReader().read(body)
    return json.loads(body)  # type: ignore[no-any-return]


def event(kind: str, **rest: Any) -> bytes:
    return json.dumps({"type": f"response.{kind}", **rest}).encode()


def done(**rest: Any) -> bytes:
    return event("completed", response={"status": "completed", "output": [], **rest})


def reply(*payloads: bytes, ended: bool = False) -> Completed:
    decoder = ResponsesDecoder(request=ASKED, target=TARGET)
    for payload in payloads:
        decoder.feed([payload])
    return decoder.complete(ended=ended)


@given(st.lists(MESSAGE, max_size=10))
def test_every_projected_history_is_accepted_by_the_strictest_provider(
    history: list[Message],
) -> None:
    """H7: the transcript is always one that a provider accepts."""
    sent(*project(history))


def test_a_trivial_request_asks_the_provider_to_store_nothing() -> None:
    assert sent(UserMessage(text="hi"), tools=(TOOL,), reasoning="low") == {
        "model": "gpt-5.1",
        "instructions": "be brief",
        "input": [
            {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "hi"}],
            }
        ],
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "low"},
        "tools": [
            {
                "type": "function",
                "name": "terminal",
                "description": "runs",
                "parameters": {"type": "object"},
                "strict": False,
            }
        ],
    }


def test_a_model_without_reasoning_gets_no_reasoning_options() -> None:
    body = sent(UserMessage(text="x"), target=PLAIN, reasoning="high", max_output_tokens=9)
    assert "reasoning" not in body
    assert "include" not in body
    assert body["max_output_tokens"] == 9


def test_images_are_sent_as_addresses_or_data() -> None:
    shown = UserMessage(text="", images=(Image(data="aGk="), Image(url="https://x/y.png")))
    assert [part["image_url"] for part in sent(shown)["input"][0]["content"]] == [
        "data:image/png;base64,aGk=",
        "https://x/y.png",
    ]


def test_encrypted_reasoning_is_sent_back_in_its_position_to_its_own_model_only() -> None:
    calls = [
        {"type": "function_call", "id": f"fc_{n}", "call_id": f"c{n}", "name": "t",
         "arguments": "{}"} for n in range(2)
    ]  # fmt: skip
    thoughts = [
        {"type": "reasoning", "id": f"rs_{n}", "summary": [], "encrypted_content": f"e{n}"}
        for n in range(2)
    ]
    order = [thoughts[0], calls[0], thoughts[1], calls[1]]
    payloads = []
    for index, item in enumerate(order):
        payloads += [
            event("output_item.added", output_index=index, item=item),
            event("output_item.done", output_index=index, item=item),
        ]
    message = reply(*payloads, done()).message
    results = [ToolMessage(call_id=c.id, name="t", text="ok") for c in message.calls]
    items = sent(UserMessage(text="x"), message, *results)["input"][1:5]
    assert [item.get("encrypted_content", item.get("call_id")) for item in items] == [
        "e0", "c0", "e1", "c1",
    ]  # fmt: skip
    other = ModelTarget(provider=Provider.OPENAI, name="o3", api_mode=ApiMode.RESPONSES)
    body = sent(UserMessage(text="x"), message, *results, target=other)
    assert [item["type"] for item in body["input"][1:3]] == ["function_call"] * 2


def test_reasoning_that_cannot_be_sent_back_stays_readable() -> None:
    item = {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "hm"}]}
    message = reply(
        event("output_item.done", output_index=0, item=item),
        event("output_text.delta", output_index=1, delta="x"),
        done(),
    ).message
    assert message.reasoning == (Reasoning(text="hm"),)
    assert len(sent(UserMessage(text="x"), message, UserMessage(text="y"))["input"]) == 3


def test_text_and_thinking_stream_and_adjacent_pieces_are_joined() -> None:
    decoder = ResponsesDecoder(request=ASKED, target=TARGET)
    assert decoder.feed([event("created", response={"status": "in_progress"})]) == []
    assert decoder.feed(
        [
            event("reasoning_summary_part.added", summary_index=0),
            event("reasoning_summary_text.delta", delta="a"),
            event("reasoning_summary_part.added", summary_index=1),
            event("reasoning_summary_text.delta", delta="b"),
        ]
    ) == [ReasoningDelta("a\n\nb")]
    pieces = [event("output_text.delta", output_index=0, delta=text) for text in "xy"]
    assert decoder.feed(pieces) == [TextDelta("xy")]
    assert not decoder.finished
    decoder.feed([done()])
    assert decoder.finished
    assert decoder.ended
    assert decoder.complete(ended=False).message.text == "xy"


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
    payloads = [
        event("output_item.added", output_index=n,
              item={"type": "function_call", "call_id": f"c{n}", "name": f"t{n}", "arguments": ""})
        for n in range(len(texts))
    ]  # fmt: skip
    left = dict(enumerate(texts))
    while left:
        n = data.draw(st.sampled_from(sorted(left)))
        size = data.draw(st.integers(1, len(left[n])))
        piece, left[n] = left[n][:size], left[n][size:]
        payloads.append(event("function_call_arguments.delta", output_index=n, delta=piece))
        if not left[n]:
            del left[n]
    message = reply(*payloads, done()).message
    assert message.stop is StopReason.TOOL_CALLS
    assert [(c.id, c.name, c.arguments) for c in message.calls] == [
        (f"c{n}", f"t{n}", text) for n, text in enumerate(texts)
    ]


def test_items_with_ids_and_without_an_index_are_distinguished() -> None:
    """llama.cpp sends no output_index, and repeats its beginning before each token."""
    item = {"type": "function_call", "call_id": "fc_a", "name": "t", "arguments": ""}
    message = reply(
        event("output_text.delta", item_id="msg_1", delta="x"),
        event("created", response={"status": "in_progress"}),
        event("output_item.added", item=item),
        event("function_call_arguments.delta", item_id="fc_a", delta='{"a"'),
        event("function_call_arguments.delta", item_id="fc_a", delta=":1}"),
        event("output_item.done", item={**item, "arguments": '{"a":1}'}),
        event("output_item.done", item={"type": "message", "id": "msg_1",
              "content": [{"type": "output_text", "text": "x"}]}),
        done(),
    ).message  # fmt: skip
    assert message.text == "x"
    assert [(c.id, c.arguments) for c in message.calls] == [("fc_a", '{"a":1}')]


def test_text_that_was_not_streamed_is_read_from_its_item() -> None:
    item = {"type": "message", "content": [{"type": "output_text", "text": "all of it"}]}
    assert reply(event("output_item.done", output_index=0, item=item), done()).message.text == (
        "all of it"
    )


@pytest.mark.parametrize(
    ("response", "stop"),
    [
        ({"status": "completed"}, StopReason.END),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
         StopReason.LENGTH),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
         StopReason.FILTERED),
    ],
)  # fmt: skip
def test_stop_reason_and_usage_are_reported(response: dict[str, Any], stop: StopReason) -> None:
    usage = {
        "input_tokens": 100,
        "output_tokens": 20,
        "input_tokens_details": {"cached_tokens": 64},
        "output_tokens_details": {"reasoning_tokens": 7},
    }
    said = event("output_text.delta", output_index=0, delta="x")
    kind = str(response["status"])
    completed = reply(said, event(kind, response={**response, "usage": usage}))
    assert completed.message.stop is stop
    assert completed.usage == Usage(
        input_tokens=100, output_tokens=20, cached_tokens=64, reasoning_tokens=7
    )


@pytest.mark.parametrize(
    ("payload", "fault"),
    [
        (b'{"type":"response.output_te', ModelFault.MALFORMED),
        (b'{"type":"error","code":"rate_limit_exceeded","message":"slow"}', ModelFault.RATE_LIMIT),
        (b'{"type":"error","error":{"type":"server_error","message":"x"}}', ModelFault.SERVER),
        (event("failed", response={"error": {"code": "server_error", "message": "x"}}),
         ModelFault.SERVER),
        (event("failed", response={"error": {"code": "insufficient_quota", "message": "x"}}),
         ModelFault.AUTH),
        (event("failed", response={"error": {"code": "context_length_exceeded", "message": "x"}}),
         ModelFault.CONTEXT_TOO_LONG),
        (b'{"error":{"message":"boom"}}', ModelFault.SERVER),
        (b'{"object":"response","status":"failed","error":{"message":"x"}}', ModelFault.SERVER),
    ],
)  # fmt: skip
def test_an_invalid_response_is_a_fault(payload: bytes, fault: ModelFault) -> None:
    with pytest.raises(ModelFailed) as failed:
        reply(payload, ended=True)
    assert failed.value.fault is fault


def test_a_stream_that_ends_early_is_an_incomplete_reply() -> None:
    said = event("output_text.delta", output_index=0, delta="half of")
    with pytest.raises(ModelFailed) as cut:
        reply(said)
    assert cut.value.fault is ModelFault.MALFORMED
    assert reply(said, ended=True).message.text == "half of"
