"""Tests the misbehaving model: strict validation, and faults from a script."""

import json
from typing import Any

import pytest

from holdfast.testing.misbehaving_model.chat_completions import StrictChatReader
from holdfast.testing.misbehaving_model.script import (
    InvalidRequest,
    ReplyScript,
    RequestSummary,
    ScriptedCall,
    ScriptedFault,
    ScriptedReply,
    parse_directives,
)

SYSTEM = {"role": "system", "content": "s"}
USER = {"role": "user", "content": "hi"}
REPLY = {"role": "assistant", "content": "hello"}
RESULT = {"role": "tool", "tool_call_id": "a", "content": "ok"}


def call(id: str = "a", arguments: str = "{}", name: str = "t") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def calls(*made: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(made)}


def read(*messages: dict[str, Any], **rest: Any) -> RequestSummary:
    body = {"model": "m", "messages": messages, "stream": True, **rest}
    return StrictChatReader().read(json.dumps(body).encode())


def tool(name: str = "t", **rest: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {}, **rest}}


def test_a_valid_conversation_is_accepted() -> None:
    found = read(SYSTEM, USER, calls(call("a"), call("b")), {**RESULT, "tool_call_id": "b"}, RESULT)
    assert found == RequestSummary("m", True, "hi", 1, "ok", 1)


def test_a_note_of_the_gateway_is_not_a_user_message() -> None:
    """F6: a resumed turn meets the script it had before it was cut."""
    note = {"role": "user", "content": "[System note: a restart]"}
    found = read(USER, calls(call()), RESULT, note)
    assert (found.user_text, found.replies_since, found.result) == ("hi", 1, "ok")
    in_front = {"role": "user", "content": "[System note: x]\n\nhi"}
    assert read(in_front).user_text == "hi"


@pytest.mark.parametrize(
    ("messages", "rule"),
    [
        ((), "messages is empty"),
        ((USER, SYSTEM), "not first"),
        ((USER, USER), "alternate"),
        ((USER, REPLY), "last message"),
        ((USER, RESULT), "no open call"),
        ((USER, calls(call())), "no result"),
        ((USER, calls(call()), USER), "no result directly after"),
        ((USER, calls(call("a"), call("b")), RESULT), "no result"),
        ((USER, calls(call()), RESULT, RESULT), "no open call"),
        ((USER, calls(call("a"), call("a")), RESULT), "used before"),
        ((USER, calls(call()), RESULT, calls(call()), RESULT), "used before"),
        ((USER, calls(call(arguments="{")), RESULT), "no JSON object"),
        ((USER, calls(call(arguments="[]")), RESULT), "no JSON object"),
        ((USER, calls(call(name="a.b")), RESULT), "name"),
        ((USER, calls(), USER), "tool_calls"),
        ((USER, calls(call()), {**RESULT, "content": " "}), "empty result"),
        (({"role": "user", "content": " "},), "empty content"),
        (({"role": "user", "content": []},), "empty content"),
        (({"role": "user", "content": [{"type": "text", "text": ""}]},), "empty text part"),
        (({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]},),
         "image url"),
        (({"role": "wizard", "content": "x"},), "role"),
        (({"role": "user", "content": "x", "tool_call_id": "a"},), "tool_call_id"),
        (({"role": "user", "content": "x", "surprise": 1},), "surprise"),
    ],
)  # fmt: skip
def test_a_conversation_that_breaks_a_rule_is_refused(
    messages: tuple[dict[str, Any], ...], rule: str
) -> None:
    with pytest.raises(InvalidRequest, match=rule):
        read(*messages)


@pytest.mark.parametrize(
    ("rest", "rule"),
    [
        ({"surprise": 1}, "surprise"),
        ({"stream": False, "stream_options": {"include_usage": True}}, "stream_options"),
        ({"model": ""}, "model"),
        ({"tools": []}, "tools"),
        ({"tools": [{"type": "function"}]}, "without a function"),
        ({"tools": [tool("a b")]}, "not allowed"),
        ({"tools": [tool("a"), tool("a")]}, "one name"),
        ({"tools": [tool("a", parameters="x")]}, "no object"),
    ],
)
def test_a_body_that_breaks_a_rule_is_refused(rest: dict[str, Any], rule: str) -> None:
    with pytest.raises(InvalidRequest, match=rule):
        read(USER, **rest)


def test_directives_make_steps_and_other_brackets_are_just_text() -> None:
    assert parse_directives("[System note: x] and [nothing]") == ()
    assert parse_directives(
        '[tool t {"a": ["]", 1]}] [latency 0.5] [then] [text a b] [fault cut]'
    ) == [
        ScriptedReply(calls=(ScriptedCall(name="t", arguments='{"a": ["]", 1]}'),), latency=0.5),
        ScriptedReply(text="a b", fault=ScriptedFault.CUT),
    ]


@pytest.mark.parametrize("text", ["[fault nope]", "[status soon]", "[latency x]", "[times]"])
def test_an_invalid_directive_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="directive"):
        parse_directives(text)


def test_a_directive_applies_as_often_as_it_says() -> None:
    script = ReplyScript()
    asked = RequestSummary("m", True, "[status 500] [times 2]", 0, None, 1)
    assert [script.choose(asked) is not None for _ in range(3)] == [True, True, False]


def test_a_posted_step_applies_as_often_as_it_says_to_matching_requests() -> None:
    script = ReplyScript()
    script.post([ScriptedReply(match="x", times=2, text="1")])
    asked = [RequestSummary("m", True, text, 0, None, 1) for text in ("a", "x", "ax", "x")]
    assert [script.choose(each) is not None for each in asked] == [False, True, True, False]
