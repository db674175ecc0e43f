"""The answers: what a step, or no step, says in the bytes of chat completions."""

from typing import Any

import msgspec

from holdfast.testing.misbehaving_model.conversation import RequestSummary
from holdfast.testing.misbehaving_model.saying import (
    PIECE_CHARS,
    argument_fragments,
    default_text,
    reply_call_id,
    reply_text,
    split_text,
)
from holdfast.testing.misbehaving_model.script import ScriptedFault, ScriptedReply

_encode = msgspec.json.encode
DONE = b"data: [DONE]\n\n"
_HEAD = b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":'
_DELTA = b',"choices":[{"index":0,"delta":{"role":"assistant","content":'
_DELTA_END = b'},"finish_reason":null}],"usage":null}\n\n'
_FINISH = b',"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":null}\n\n'
_USAGE = b',"choices":[],"usage":'


def echo(conversation: RequestSummary, size: int) -> bytes:
    """The whole stream of an unscripted answer, made with one encoding and a few joins."""
    text = default_text(conversation)
    head = _HEAD + _encode(conversation.model)
    cut = text.index(":") + 1
    delta, end = head + _DELTA, _DELTA_END
    return b"".join(
        (
            delta, _encode(text[:cut]), end,
            delta, _encode(text[cut:]), end,
            head, _FINISH,
            head, _USAGE, _encode(_usage(size, len(text), 0)), b"}\n\n",
            DONE,
        )
    )  # fmt: skip


def whole(conversation: RequestSummary, step: ScriptedReply, size: int) -> bytes:
    """The answer in one piece, for who did not ask for a stream."""
    text = reply_text(conversation, step)
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if step.reasoning:
        message["reasoning_content"] = step.reasoning
    if step.calls:
        message["tool_calls"] = [
            {"id": reply_call_id(conversation, step, place), "type": "function",
             "function": {"name": call.name, "arguments": call.text}}
            for place, call in enumerate(step.calls)
        ]  # fmt: skip
    choice = {"index": 0, "message": message, "finish_reason": _finish(step)}
    return _encode(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": conversation.model,
            "choices": [choice],
            "usage": _usage(size, len(text), step.cached),
        }
    )


def events(conversation: RequestSummary, step: ScriptedReply, size: int) -> list[bytes]:
    """The events of a scripted stream, the end mark included."""
    text = reply_text(conversation, step)
    deltas: list[dict[str, Any]] = []
    deltas += [
        {"reasoning_content": piece} for piece in split_text(step.reasoning or "", PIECE_CHARS)
    ]
    deltas += [{"content": piece} for piece in split_text(text, PIECE_CHARS)]
    deltas += _call_deltas(conversation, step)
    deltas[:1] = [{"role": "assistant", **deltas[0]}] if deltas else [{"role": "assistant"}]
    model = conversation.model
    stream = [_event(model, [{"index": 0, "delta": d, "finish_reason": None}]) for d in deltas]
    if step.fault is not ScriptedFault.NO_FINISH:
        finish = {"index": 0, "delta": {}, "finish_reason": _finish(step)}
        stream.append(_event(model, [finish]))
    stream.append(_event(model, [], usage=_usage(size, len(text), step.cached)))
    if step.fault is not ScriptedFault.NO_DONE:
        stream.append(DONE)
    return stream


def error_event(message: str) -> bytes:
    return b"data: " + error(message) + b"\n\n"


def error(message: str, *, kind: str = "server_error", code: str | None = None) -> bytes:
    return _encode({"error": {"message": message, "type": kind, "param": None, "code": code}})


def _event(model: str, choices: list[dict[str, Any]], usage: dict[str, Any] | None = None) -> bytes:
    chunk = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": model,
        "choices": choices,
        "usage": usage,
    }
    return b"data: " + _encode(chunk) + b"\n\n"


def _finish(step: ScriptedReply) -> str:
    return step.finish or ("tool_calls" if step.calls else "stop")


def _call_deltas(conversation: RequestSummary, step: ScriptedReply) -> list[dict[str, Any]]:
    """Parallel calls as providers stream them: each opens with its id and name, and then their
    arguments come in fragments."""
    opening = [
        _call_delta(place, "", id=reply_call_id(conversation, step, place), name=call.name)
        for place, call in enumerate(step.calls)
    ]
    return opening + [_call_delta(place, piece) for place, piece in argument_fragments(step)]


def _call_delta(
    index: int, arguments: str, *, id: str | None = None, name: str | None = None
) -> dict[str, Any]:
    function = {"arguments": arguments} | ({"name": name} if name else {})
    call: dict[str, Any] = {"index": index, "function": function}
    if id is not None:
        call |= {"id": id, "type": "function"}
    return {"tool_calls": [call]}


def _usage(prompt_chars: int, reply_chars: int, cached: int) -> dict[str, Any]:
    prompt, completion = max(prompt_chars // 4, cached), reply_chars // 4
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }
