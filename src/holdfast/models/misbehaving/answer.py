"""The answers: what a step, or no step, says in the bytes of chat completions."""

from typing import Any

import msgspec

from holdfast.models.misbehaving.script import Fault, Step
from holdfast.models.misbehaving.strict import Conversation

_encode = msgspec.json.encode
DONE = b"data: [DONE]\n\n"
_HEAD = b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":'
_DELTA = b',"choices":[{"index":0,"delta":{"role":"assistant","content":'
_DELTA_END = b'},"finish_reason":null}],"usage":null}\n\n'
_FINISH = b',"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":null}\n\n'
_USAGE = b',"choices":[],"usage":'


def spoken(conversation: Conversation) -> str:
    """What is said where no script says otherwise."""
    if conversation.result is not None:
        return f"Done: {conversation.result[:200]}"
    return f"You said: {conversation.asked}"


def echo(conversation: Conversation, size: int) -> bytes:
    """The whole stream of an unscripted answer, made with one encoding and a few joins."""
    text = spoken(conversation)
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


def whole(conversation: Conversation, step: Step, size: int) -> bytes:
    """The answer in one piece, for who did not ask for a stream."""
    text = _text(conversation, step)
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if step.reasoning:
        message["reasoning_content"] = step.reasoning
    if step.calls:
        message["tool_calls"] = [
            {"id": _call_id(conversation, step, place), "type": "function",
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


def events(conversation: Conversation, step: Step, size: int) -> list[bytes]:
    """The events of a scripted stream, the end mark included."""
    text = _text(conversation, step)
    deltas: list[dict[str, Any]] = []
    deltas += [{"reasoning_content": piece} for piece in _pieces(step.reasoning or "", 8)]
    deltas += [{"content": piece} for piece in _pieces(text, 8)]
    deltas += _call_deltas(conversation, step)
    deltas[:1] = [{"role": "assistant", **deltas[0]}] if deltas else [{"role": "assistant"}]
    model = conversation.model
    stream = [_event(model, [{"index": 0, "delta": d, "finish_reason": None}]) for d in deltas]
    if step.fault is not Fault.NO_FINISH:
        finish = {"index": 0, "delta": {}, "finish_reason": _finish(step)}
        stream.append(_event(model, [finish]))
    stream.append(_event(model, [], usage=_usage(size, len(text), step.cached)))
    if step.fault is not Fault.NO_DONE:
        stream.append(DONE)
    return stream


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


def _text(conversation: Conversation, step: Step) -> str:
    if step.text is not None:
        return step.text
    return "" if step.calls else spoken(conversation)


def _finish(step: Step) -> str:
    return step.finish or ("tool_calls" if step.calls else "stop")


def _pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def _call_id(conversation: Conversation, step: Step, place: int) -> str:
    return step.calls[place].id or f"call_{conversation.answered}_{place}_{conversation.turn}"


def _call_deltas(conversation: Conversation, step: Step) -> list[dict[str, Any]]:
    """Parallel calls as providers stream them: each opens with its id and name, and then their
    arguments come in fragments, here one call's after the other's in turn."""
    opening = [
        _call_delta(place, "", id=_call_id(conversation, step, place), name=call.name)
        for place, call in enumerate(step.calls)
    ]
    rows = [_pieces(call.text, step.fragment or len(call.text) or 1) for call in step.calls]
    longest = max(map(len, rows), default=0)
    rest = [
        _call_delta(place, row[at])
        for at in range(longest)
        for place, row in enumerate(rows)
        if at < len(row)
    ]
    return opening + rest


def _call_delta(
    place: int, arguments: str, *, id: str | None = None, name: str | None = None
) -> dict[str, Any]:
    function = {"arguments": arguments} | ({"name": name} if name else {})
    call: dict[str, Any] = {"index": place, "function": function}
    if id is not None:
        call |= {"id": id, "type": "function"}
    return {"tool_calls": [call]}


def _usage(asked: int, said: int, cached: int) -> dict[str, Any]:
    prompt, completion = max(asked // 4, cached), said // 4
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }
