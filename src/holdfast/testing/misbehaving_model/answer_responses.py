"""The answers in the bytes of the Responses API: output items that begin, grow and end."""

from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.testing.misbehaving_model.conversation import RequestSummary
from holdfast.testing.misbehaving_model.saying import (
    PIECE_CHARS,
    argument_fragments,
    reply_call_id,
    reply_text,
    sign,
    split_text,
)
from holdfast.testing.misbehaving_model.script import ScriptedFault, ScriptedReply

_encode = msgspec.json.encode
_Json = dict[str, Any]


def echo(conversation: RequestSummary, size: int) -> bytes:
    return b"".join(events(conversation, ScriptedReply(), size))


def whole(conversation: RequestSummary, step: ScriptedReply, size: int) -> bytes:
    return _encode(_response(conversation, step, size))


def events(conversation: RequestSummary, step: ScriptedReply, size: int) -> list[bytes]:
    """The events of a scripted stream. There is no end mark but the last event."""
    begun = {"id": "resp_1", "object": "response", "status": "in_progress", "output": []}
    told: list[_Json] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
        *_items(conversation, step),
    ]
    if step.fault is ScriptedFault.NO_FINISH:
        return [*map(_event, told), b"data: [DONE]\n\n"]
    response = _response(conversation, step, size)
    told.append({"type": f"response.{response['status']}", "response": response})
    return [*map(_event, told)]


def error(message: str, *, kind: str = "server_error", code: str | None = None) -> bytes:
    return _encode({"error": {"message": message, "type": kind, "param": None, "code": code}})


def error_event(message: str) -> bytes:
    failed = {"id": "resp_1", "object": "response", "status": "failed"}
    problem = {"code": "server_error", "message": message}
    return _event({"type": "response.failed", "response": {**failed, "error": problem}})


def _event(event: _Json) -> bytes:
    kind = str(event["type"]).encode()
    return b"event: " + kind + b"\ndata: " + _encode(event) + b"\n\n"


def _items(conversation: RequestSummary, step: ScriptedReply) -> Iterator[_Json]:
    output = _output(conversation, step)
    for place, item in enumerate(output):
        at = {"output_index": place, "item_id": item["id"]}
        yield {"type": "response.output_item.added", **at, "item": _empty(item)}
        match item["type"]:
            case "reasoning":
                yield from _grown(item["summary"][0]["text"], "reasoning_summary_text", at)
            case "message":
                yield from _grown(item["content"][0]["text"], "output_text", at)
    first = len(output) - len(step.calls)
    for call, piece in argument_fragments(step):
        at = {"output_index": first + call, "item_id": output[first + call]["id"]}
        yield {"type": "response.function_call_arguments.delta", **at, "delta": piece}
    for place, item in enumerate(output):
        yield {"type": "response.output_item.done", "output_index": place, "item": item}


def _grown(text: str, kind: str, at: _Json) -> Iterator[_Json]:
    yield from (
        {"type": f"response.{kind}.delta", **at, "delta": piece}
        for piece in split_text(text, PIECE_CHARS)
    )
    yield {"type": f"response.{kind}.done", **at, "text": text}


def _empty(item: _Json) -> _Json:
    blank = {"content": [], "summary": [], "arguments": "", "encrypted_content": ""}
    return {key: blank.get(key, value) for key, value in item.items()}


def _output(conversation: RequestSummary, step: ScriptedReply) -> list[_Json]:
    output: list[_Json] = []
    if step.reasoning:
        output.append(
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"type": "summary_text", "text": step.reasoning}],
                "encrypted_content": sign(step.reasoning),
            }
        )
    if text := reply_text(conversation, step):
        content = [{"type": "output_text", "text": text, "annotations": []}]
        output.append({"type": "message", "id": "msg_1", "role": "assistant", "content": content})
    for place, call in enumerate(step.calls):
        call_id = reply_call_id(conversation, step, place)
        output.append(
            {"type": "function_call", "id": f"fc_{place}", "call_id": call_id,
             "name": call.name, "arguments": call.text}
        )  # fmt: skip
    return output


def _response(conversation: RequestSummary, step: ScriptedReply, size: int) -> _Json:
    asked, said = max(size // 4, step.cached), len(reply_text(conversation, step)) // 4
    why = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(step.finish or "")
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": conversation.model,
        "status": "incomplete" if why else "completed",
        "incomplete_details": {"reason": why} if why else None,
        "error": None,
        "output": _output(conversation, step),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": asked,
            "output_tokens": said,
            "total_tokens": asked + said,
            "input_tokens_details": {"cached_tokens": step.cached},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }
