"""The Anthropic codec: valid requests, and replies assembled from any fragments."""

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
    ToolOutcome,
    UserMessage,
)
from holdfast.core.secrets import Secret
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
from holdfast.models.codecs.anthropic import (
    AnthropicCodec,
    AnthropicDecoder,
    claude_version,
    limit_max_tokens,
)
from holdfast.models.target import ModelTarget
from holdfast.testing.misbehaving_model.anthropic import StrictAnthropicReader
from holdfast.testing.misbehaving_model.script import sign

MARK = {"cache_control": {"type": "ephemeral"}}


def claude(name: str = "claude-sonnet-4-5", **rest: Any) -> ModelTarget:
    return ModelTarget(
        provider=Provider.ANTHROPIC, name=name, api_mode=ApiMode.ANTHROPIC_MESSAGES, **rest
    )


TARGET = claude()
ASKED = ModelRequest(system="s", messages=(UserMessage(text="hi"),))
TOOL = ToolSchema(name="terminal", description="runs", parameters={"properties": {}})
TEXT = st.text(st.characters(codec=None), max_size=12)  # halves of characters included
IDS = st.sampled_from(["a", "b.1", "c/" * 30]).map(CallId)
CALL = st.builds(
    ToolCall, id=IDS, name=st.text(max_size=70), arguments=st.text(max_size=12) | st.just('{"x":1}')
)
SIGNED = {"type": "thinking", "signature": sign("hm")}
PARTS = st.sampled_from([SIGNED, {"type": "redacted_thinking", "data": "xyz"}])
THOUGHT = st.builds(
    lambda part, text, calls: Reasoning(
        text="hm", opaque='{"part":' + json.dumps(part) + f',"text":{text},"calls":{calls}}}'
    ),
    PARTS,
    st.integers(0, 12),
    st.integers(0, 3),
)
MESSAGE = st.one_of(
    st.builds(
        UserMessage,
        text=TEXT,
        speaker=st.none() | TEXT,
        note=st.none() | TEXT,
        images=st.sampled_from([(), (Image(data="aGk="),), (Image(url="http://x"), Image())]),
    ),
    st.builds(
        AssistantMessage,
        text=TEXT,
        calls=st.lists(CALL, max_size=3).map(tuple),
        reasoning=st.just(()) | st.lists(THOUGHT, max_size=2).map(tuple),
        model=st.sampled_from([TARGET.name, "another"]),
    ),
    st.builds(ToolMessage, call_id=IDS, name=st.just("terminal"), text=TEXT),
    st.builds(NoteMessage, text=TEXT),
)


def sent(*messages: Message, target: ModelTarget = TARGET, **rest: Any) -> dict[str, Any]:
    request = ModelRequest(system="be brief", messages=messages, **rest)
    body = AnthropicCodec().encode(request, target)
    StrictAnthropicReader().read(body)
    return json.loads(body)  # type: ignore[no-any-return]


def reply(*events: dict[str, Any] | bytes, ended: bool = True) -> Completed:
    decoder = AnthropicDecoder(request=ASKED, target=TARGET)
    for event in events:
        decoder.feed([event if isinstance(event, bytes) else json.dumps(event).encode()])
    return decoder.complete(ended=ended)


def start(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, **piece: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": piece}


def stop(reason: str = "end_turn", **usage: int) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


@given(st.lists(MESSAGE, max_size=10), st.sampled_from([None, "minimal", "high"]))
def test_every_projected_history_is_accepted_by_the_strictest_provider(
    history: list[Message], effort: str | None
) -> None:
    """H7: the transcript is always one that a provider accepts."""
    sent(*project(history), tools=(TOOL,), reasoning=effort)


def test_a_trivial_request_is_marked_for_the_cache_where_it_stays_the_same() -> None:
    said = (UserMessage(text="hi"), AssistantMessage(text="hello"), UserMessage(text="go"))
    assert sent(*said, tools=(TOOL,)) == {
        "model": "claude-sonnet-4-5",
        "max_tokens": 32000,
        "stream": True,
        "system": [{"type": "text", "text": "be brief", **MARK}],
        "tools": [
            {
                "name": "terminal",
                "description": "runs",
                "input_schema": {"type": "object", "properties": {}},
                **MARK,
            }
        ],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "hi", **MARK}]},
            {"role": "assistant", "content": [{"type": "text", "text": "hello"}]},
            {"role": "user", "content": [{"type": "text", "text": "go", **MARK}]},
        ],
    }


def test_the_results_of_parallel_calls_are_one_message_with_the_text_after_them() -> None:
    calls = tuple(ToolCall(id=CallId(f"t.{n}"), name="t", arguments='{"n":1}') for n in range(2))
    body = sent(
        UserMessage(text="x"),
        AssistantMessage(text="look", calls=calls),
        ToolMessage(call_id=calls[0].id, name="t", text="1"),
        ToolMessage(call_id=calls[1].id, name="t", text="", outcome=ToolOutcome.ERROR),
        NoteMessage(text="[System note: x]"),
    )
    assert body["messages"][1]["content"] == [
        {"type": "text", "text": "look"},
        {"type": "tool_use", "id": "t_0", "name": "t", "input": {"n": 1}},
        {"type": "tool_use", "id": "t_1", "name": "t", "input": {"n": 1}},
    ]
    assert body["messages"][2]["content"] == [
        {"type": "tool_result", "tool_use_id": "t_0", "content": "1"},
        {"type": "tool_result", "tool_use_id": "t_1", "content": "(no output)", "is_error": True},
        {"type": "text", "text": "[System note: x]", **MARK},
    ]


def test_images_are_sent_as_addresses_or_data_and_others_are_reported_as_missing() -> None:
    images = (
        Image(media_type="image/jpeg", data="aGk="),
        Image(url="https://x/y.png"),
        Image(url="data:image/gif;base64,aGk="),
        Image(media_type="image/tiff", data="aGk="),
    )
    *shown, last = sent(UserMessage(text="", images=images))["messages"][0]["content"]
    assert [block["source"] for block in shown] == [
        {"type": "base64", "media_type": "image/jpeg", "data": "aGk="},
        {"type": "url", "url": "https://x/y.png"},
        {"type": "base64", "media_type": "image/gif", "data": "aGk="},
    ]
    assert last["type"] == "text"


@pytest.mark.parametrize(
    ("name", "effort", "expected"),
    [
        ("claude-sonnet-4-5", "low", {"thinking": {"type": "enabled", "budget_tokens": 4096}}),
        ("claude-3-7-sonnet-latest", "high",
         {"thinking": {"type": "enabled", "budget_tokens": 24000}}),
        ("claude-opus-4-7", "minimal",
         {"thinking": {"type": "adaptive", "display": "summarized"},
          "output_config": {"effort": "low"}}),
        ("claude-next", "high",
         {"thinking": {"type": "adaptive", "display": "summarized"},
          "output_config": {"effort": "high"}}),
        ("claude-3-5-haiku-20241022", "high", {}),
        ("claude-sonnet-4-5", "none", {}),
        ("smollm2", "high", {}),
    ],
)  # fmt: skip
def test_effort_is_a_budget_or_a_level_depending_on_the_model(
    name: str, effort: str, expected: dict[str, Any]
) -> None:
    body = sent(UserMessage(text="x"), target=claude(name), reasoning=effort)
    assert {key: body[key] for key in ("thinking", "output_config") if key in body} == expected


def test_a_thinking_budget_leaves_room_for_the_reply() -> None:
    body = sent(UserMessage(text="x"), reasoning="high", max_output_tokens=4000)
    assert body["thinking"]["budget_tokens"] == 4000 - 1024
    assert "thinking" not in sent(UserMessage(text="x"), reasoning="high", max_output_tokens=1500)


def test_a_tool_loop_that_began_without_thinking_continues_without() -> None:
    """A fallback or another model made the calls: a thought to begin with cannot be shown."""
    call = ToolCall(id=CallId("a"), name="t", arguments="{}")
    result = ToolMessage(call_id=call.id, name="t", text="ok")
    made = AssistantMessage(calls=(call,), model="another")
    body = sent(UserMessage(text="x"), made, result, reasoning="high")
    assert "thinking" not in body


@pytest.mark.parametrize(
    ("name", "version", "most"),
    [
        ("claude-3-haiku-20240307", (3, 0), 4096),
        ("claude-3-5-sonnet-20241022", (3, 5), 8192),
        ("claude-3-7-sonnet-latest", (3, 7), 32000),
        ("claude-sonnet-4-20250514", (4, 0), 32000),
        ("claude-opus-4-1-20250805", (4, 1), 32000),
        ("anthropic/claude-opus-4.7", (4, 7), 32000),
        ("claude-opus-5", (5, 0), 32000),
        ("smollm2", None, 8192),
    ],
)
def test_the_capabilities_of_a_model_follow_from_its_name(
    name: str, version: tuple[int, int] | None, most: int
) -> None:
    assert (claude_version(name), limit_max_tokens(name, None)) == (version, most)


def test_the_key_is_in_the_header_that_the_provider_expects() -> None:
    codec = AnthropicCodec()
    own = codec.headers(claude(api_key=Secret("sk-1")))
    assert own["x-api-key"] == "sk-1"
    assert own["anthropic-version"] == "2023-06-01"
    assert "Authorization" not in own
    router = ModelTarget(provider=Provider.OPENROUTER, name="m", api_key=Secret("sk-1"))
    assert codec.headers(router)["Authorization"] == "Bearer sk-1"
    assert "anthropic-beta" in own
    assert "anthropic-beta" not in codec.headers(claude("claude-opus-4-7"))


def test_text_and_thinking_stream_and_adjacent_pieces_are_joined() -> None:
    decoder = AnthropicDecoder(request=ASKED, target=TARGET)

    def feed(*events: dict[str, Any]) -> list[Any]:
        return decoder.feed([json.dumps(event).encode() for event in events])

    assert feed({"type": "ping"}, start(0, type="thinking", thinking="", signature="")) == []
    thoughts = [delta(0, type="thinking_delta", thinking=text) for text in "ab"]
    assert feed(*thoughts) == [ReasoningDelta("ab")]
    feed(delta(0, type="signature_delta", signature="s1"), start(1, type="text", text=""))
    assert feed(*[delta(1, type="text_delta", text=text) for text in "xy"]) == [TextDelta("xy")]
    assert not decoder.finished
    feed(stop())
    assert decoder.finished
    assert not decoder.ended
    feed({"type": "message_stop"})
    assert decoder.ended


def test_signed_and_redacted_thinking_is_sent_back_unchanged_in_its_position() -> None:
    signed = sign("hm")
    message = reply(
        start(0, type="thinking", thinking="", signature=""),
        delta(0, type="thinking_delta", thinking="hm"),
        delta(0, type="signature_delta", signature=signed[:5]),
        delta(0, type="signature_delta", signature=signed[5:]),
        start(1, type="text", text=""),
        delta(1, type="text_delta", text="let me look"),
        start(2, type="redacted_thinking", data="xyz"),
        start(3, type="tool_use", id="toolu_1", name="t", input={}),
        stop("tool_use"),
        {"type": "message_stop"},
    ).message
    result = ToolMessage(call_id=message.calls[0].id, name="t", text="ok")
    body = sent(UserMessage(text="x"), message, result, reasoning="high")
    assert body["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": signed},
        {"type": "text", "text": "let me look"},
        {"type": "redacted_thinking", "data": "xyz"},
        {"type": "tool_use", "id": "toolu_1", "name": "t", "input": {}},
    ]
    assert "thinking" in body
    other = sent(UserMessage(text="x"), message, result, target=claude("claude-opus-4-7"))
    assert [block["type"] for block in other["messages"][1]["content"]] == ["text", "tool_use"]


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
    left = {n: json.dumps(each) for n, each in enumerate(arguments)}
    events = [start(n, type="tool_use", id=f"c{n}", name=f"t{n}", input={}) for n in left]
    while left:
        n = data.draw(st.sampled_from(sorted(left)))
        size = data.draw(st.integers(1, len(left[n])))
        piece, left[n] = left[n][:size], left[n][size:]
        events.append(delta(n, type="input_json_delta", partial_json=piece))
        if not left[n]:
            del left[n]
    message = reply(*events, stop("tool_use")).message
    assert message.stop is StopReason.TOOL_CALLS
    assert [(c.id, c.name, json.loads(c.arguments)) for c in message.calls] == [
        (f"c{n}", f"t{n}", each) for n, each in enumerate(arguments)
    ]


def test_usage_counts_input_tokens_and_the_cached_ones_among_them() -> None:
    used = {
        "input_tokens": 10,
        "cache_read_input_tokens": 60,
        "cache_creation_input_tokens": 30,
        "output_tokens": 1,
    }
    completed = reply(
        {"type": "message_start", "message": {"usage": used}},
        delta(0, type="text_delta", text="x"),
        stop("max_tokens", output_tokens=20),
    )
    assert completed.usage == Usage(input_tokens=100, output_tokens=20, cached_tokens=60)
    assert completed.message.stop is StopReason.LENGTH


@pytest.mark.parametrize(
    ("payload", "fault"),
    [
        (b'{"type":"content_block_de', ModelFault.MALFORMED),
        (
            b'{"type":"error","error":{"type":"overloaded_error","message":"x"}}',
            ModelFault.OVERLOADED,
        ),
        (
            b'{"type":"error","error":{"type":"rate_limit_error","message":"x"}}',
            ModelFault.RATE_LIMIT,
        ),
        (
            b'{"type":"error","error":{"type":"authentication_error","message":"x"}}',
            ModelFault.AUTH,
        ),
        (b'{"type":"error","error":{"type":"invalid_request_error",'
         b'"message":"prompt is too long: 210000 tokens"}}', ModelFault.CONTEXT_TOO_LONG),
        (b'{"error":{"message":"boom"}}', ModelFault.SERVER),
    ],
)  # fmt: skip
def test_an_invalid_response_is_a_fault(payload: bytes, fault: ModelFault) -> None:
    with pytest.raises(ModelFailed) as failed:
        reply(payload)
    assert failed.value.fault is fault


def test_a_stream_that_ends_early_is_an_incomplete_reply() -> None:
    with pytest.raises(ModelFailed) as cut:
        reply(delta(0, type="text_delta", text="half of"), ended=False)
    assert cut.value.fault is ModelFault.MALFORMED
