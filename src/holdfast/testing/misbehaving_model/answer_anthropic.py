"""The answers in the bytes of the Messages API: content blocks that begin, grow and end."""

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
_STOPS = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}


def echo(conversation: RequestSummary, size: int) -> bytes:
    return b"".join(events(conversation, ScriptedReply(), size))


def whole(conversation: RequestSummary, step: ScriptedReply, size: int) -> bytes:
    return _encode(_message(conversation, step, size))


def events(conversation: RequestSummary, step: ScriptedReply, size: int) -> list[bytes]:
    """The events of a scripted stream, with a ping as the real one has, and its end mark."""
    message = _message(conversation, step, size)
    opening = {**message, "content": [], "stop_reason": None}
    opening["usage"] = {**message["usage"], "output_tokens": 1}
    told: list[_Json] = [{"type": "message_start", "message": opening}, {"type": "ping"}]
    told += _blocks(message["content"], step)
    if step.fault is not ScriptedFault.NO_FINISH:
        delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
        used = {"output_tokens": message["usage"]["output_tokens"]}
        told.append({"type": "message_delta", "delta": delta, "usage": used})
    if step.fault is not ScriptedFault.NO_DONE:
        told.append({"type": "message_stop"})
    return [*map(_event, told)]


def error(message: str, *, kind: str = "api_error", code: str | None = None) -> bytes:
    del code  # this mode has none
    return _encode({"type": "error", "error": {"type": kind, "message": message}})


def error_event(message: str) -> bytes:
    return b"event: error\ndata: " + error(message, kind="overloaded_error") + b"\n\n"


def _event(event: _Json) -> bytes:
    kind = str(event["type"]).encode()
    return b"event: " + kind + b"\ndata: " + _encode(event) + b"\n\n"


def _blocks(blocks: list[_Json], step: ScriptedReply) -> Iterator[_Json]:
    first = len(blocks) - len(step.calls)
    for index, block in enumerate(blocks[:first]):
        empty = {key: value if key == "type" else "" for key, value in block.items()}
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        kind = block["type"]
        for piece in split_text(block[kind], PIECE_CHARS):
            yield _delta(index, {"type": f"{kind}_delta", kind: piece})
        if kind == "thinking":
            yield _delta(index, {"type": "signature_delta", "signature": block["signature"]})
        yield {"type": "content_block_stop", "index": index}
    for index, block in enumerate(blocks[first:], start=first):
        opened = {**block, "input": {}}
        yield {"type": "content_block_start", "index": index, "content_block": opened}
    for call, piece in argument_fragments(step):
        yield _delta(first + call, {"type": "input_json_delta", "partial_json": piece})
    for index in range(first, len(blocks)):
        yield {"type": "content_block_stop", "index": index}


def _delta(index: int, delta: _Json) -> _Json:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def _message(conversation: RequestSummary, step: ScriptedReply, size: int) -> _Json:
    text = reply_text(conversation, step)
    finish = _STOPS.get(step.finish or "", "tool_use" if step.calls else "end_turn")
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": conversation.model,
        "content": _content(conversation, step, text),
        "stop_reason": finish,
        "stop_sequence": None,
        "usage": {
            "input_tokens": max(0, size // 4 - step.cached),
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": step.cached,
            "output_tokens": len(text) // 4,
        },
    }


def _content(conversation: RequestSummary, step: ScriptedReply, text: str) -> list[_Json]:
    content: list[_Json] = []
    if step.reasoning:
        signed = sign(step.reasoning)
        content.append({"type": "thinking", "thinking": step.reasoning, "signature": signed})
    if text:
        content.append({"type": "text", "text": text})
    for place, call in enumerate(step.calls):
        content.append(
            {
                "type": "tool_use",
                "id": reply_call_id(conversation, step, place),
                "name": call.name,
                "input": msgspec.Raw(call.text.encode()),
            }
        )
    return content
