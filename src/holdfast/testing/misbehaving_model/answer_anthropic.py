"""The answers in the bytes of the Messages API: content blocks that begin, grow and end."""

from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.testing.misbehaving_model.conversation import Conversation
from holdfast.testing.misbehaving_model.saying import (
    PIECE,
    call_id_of,
    fragments,
    pieces,
    signature,
    text_of,
)
from holdfast.testing.misbehaving_model.script import Fault, Step

_encode = msgspec.json.encode
_Wire = dict[str, Any]
_STOPS = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}


def echo(conversation: Conversation, size: int) -> bytes:
    return b"".join(events(conversation, Step(), size))


def whole(conversation: Conversation, step: Step, size: int) -> bytes:
    return _encode(_message(conversation, step, size))


def events(conversation: Conversation, step: Step, size: int) -> list[bytes]:
    """The events of a scripted stream, with a ping as the real one has, and its end mark."""
    message = _message(conversation, step, size)
    opening = {**message, "content": [], "stop_reason": None}
    opening["usage"] = {**message["usage"], "output_tokens": 1}
    told: list[_Wire] = [{"type": "message_start", "message": opening}, {"type": "ping"}]
    told += _blocks(message["content"], step)
    if step.fault is not Fault.NO_FINISH:
        delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
        used = {"output_tokens": message["usage"]["output_tokens"]}
        told.append({"type": "message_delta", "delta": delta, "usage": used})
    if step.fault is not Fault.NO_DONE:
        told.append({"type": "message_stop"})
    return [*map(_event, told)]


def error(message: str, *, kind: str = "api_error", code: str | None = None) -> bytes:
    del code  # this mode has none
    return _encode({"type": "error", "error": {"type": kind, "message": message}})


def error_event(message: str) -> bytes:
    return b"event: error\ndata: " + error(message, kind="overloaded_error") + b"\n\n"


def _event(event: _Wire) -> bytes:
    kind = str(event["type"]).encode()
    return b"event: " + kind + b"\ndata: " + _encode(event) + b"\n\n"


def _blocks(blocks: list[_Wire], step: Step) -> Iterator[_Wire]:
    first = len(blocks) - len(step.calls)
    for index, block in enumerate(blocks[:first]):
        empty = {key: value if key == "type" else "" for key, value in block.items()}
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        kind = block["type"]
        for piece in pieces(block[kind], PIECE):
            yield _delta(index, {"type": f"{kind}_delta", kind: piece})
        if kind == "thinking":
            yield _delta(index, {"type": "signature_delta", "signature": block["signature"]})
        yield {"type": "content_block_stop", "index": index}
    for index, block in enumerate(blocks[first:], start=first):
        opened = {**block, "input": {}}
        yield {"type": "content_block_start", "index": index, "content_block": opened}
    for call, piece in fragments(step):
        yield _delta(first + call, {"type": "input_json_delta", "partial_json": piece})
    for index in range(first, len(blocks)):
        yield {"type": "content_block_stop", "index": index}


def _delta(index: int, delta: _Wire) -> _Wire:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def _message(conversation: Conversation, step: Step, size: int) -> _Wire:
    text = text_of(conversation, step)
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


def _content(conversation: Conversation, step: Step, text: str) -> list[_Wire]:
    content: list[_Wire] = []
    if step.reasoning:
        signed = signature(step.reasoning)
        content.append({"type": "thinking", "thinking": step.reasoning, "signature": signed})
    if text:
        content.append({"type": "text", "text": text})
    for place, call in enumerate(step.calls):
        content.append(
            {
                "type": "tool_use",
                "id": call_id_of(conversation, step, place),
                "name": call.name,
                "input": msgspec.Raw(call.text.encode()),
            }
        )
    return content
