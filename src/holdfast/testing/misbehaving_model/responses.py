"""The Responses API: checks requests like the strictest provider, and writes replies."""

from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.testing.misbehaving_model.script import (
    PIECE_CHARS,
    InvalidRequest,
    OpenToolCalls,
    RequestSummary,
    ScriptedFault,
    ScriptedReply,
    ToolListChecker,
    argument_fragments,
    check_arguments,
    last_user_text,
    reply_call_id,
    reply_text,
    require,
    sign,
    split_text,
)

_INCLUDES = {"reasoning.encrypted_content", "message.output_text.logprobs"}
_EFFORTS = {None, "none", "minimal", "low", "medium", "high", "xhigh"}
_PARTS = {"user": {"input_text", "input_image"}, "assistant": {"output_text", "refusal"}}


class _Part(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    type: str
    text: str | None = None
    image_url: str | None = None
    detail: str | None = None
    annotations: list[Any] | None = None


class _Item(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    type: str = "message"
    id: str | None = None
    role: str | None = None
    content: str | list[_Part] | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    output: str | None = None
    summary: list[_Part] | None = None
    encrypted_content: str | None = None
    status: str | None = None

    @property
    def replies(self) -> bool:
        """Whether it is of the model's making."""
        return self.type in ("function_call", "reasoning") or self.role == "assistant"


class _Reasoning(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    effort: str | None = None
    summary: str | None = None


class ResponsesBody(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    model: str
    input: str | list[_Item]
    instructions: str | None = None
    stream: bool = False
    store: bool = True
    include: list[str] | None = None
    tools: msgspec.Raw = msgspec.Raw(b"null")
    tool_choice: msgspec.Raw = msgspec.Raw(b"null")
    parallel_tool_calls: bool | None = None
    max_output_tokens: int | None = None
    reasoning: _Reasoning | None = None
    prompt_cache_key: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    user: str | None = None


_decode = msgspec.json.Decoder(ResponsesBody).decode


class StrictResponsesReader:
    """Owns the tool lists it has already found good."""

    def __init__(self) -> None:
        self._tools = ToolListChecker(_tool_name)

    def read(self, body: bytes) -> RequestSummary:
        """What was asked; raises `InvalidRequest` for a request that breaks a rule."""
        try:
            request = _decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidRequest(str(error)) from error
        items = request.input
        if isinstance(items, str):
            items = [_Item(role="user", content=items)]
        require(bool(request.model), "model is empty")
        require(bool(items), "input is empty")
        require(set(request.include or ()) <= _INCLUDES, f"include: {request.include}")
        if request.reasoning is not None:
            require(request.reasoning.effort in _EFFORTS, "reasoning.effort")
        self._tools.check(bytes(request.tools))
        _check_items(items, stored=request.store)
        return _conversation(request, items)


def _tool_name(tool: Any) -> str:
    require(isinstance(tool, dict) and tool.get("type") == "function", "a tool of another type")
    require(isinstance(tool.get("parameters"), dict), "the parameters of a tool are no object")
    require(tool.get("strict") is False, "a strict tool whose schema is none of the strict ones")
    return str(tool.get("name", ""))


def _check_items(items: list[_Item], *, stored: bool) -> None:
    calls = OpenToolCalls()
    before = items[0]
    for index, item in enumerate(items):
        at = f"input[{index}]"
        if before.type == "reasoning" and index:
            require(item.replies, f"{at}: a reasoning item without the item it led to")
        match item.type:
            case "message":
                if not item.replies:
                    calls.require_none(at)
                _check_message(item, at)
            case "function_call":
                check_arguments(item.arguments or "", at)
                calls.open(item.call_id or "", item.name or "", at)
            case "function_call_output":
                calls.answer(item.call_id or "", item.output, at)
            case "reasoning":
                _check_reasoning(item, at, stored=stored)
            case other:
                raise InvalidRequest(f"{at}: an item of type {other!r}")
        before = item
    calls.require_none("the end")
    require(not before.replies, "the last item must be a user's message or a call's output")


def _check_message(item: _Item, at: str) -> None:
    require(item.role in _PARTS, f"{at}: role {item.role!r}")
    parts = item.content or ()
    if isinstance(parts, str):
        require(bool(parts.strip()), f"{at}: empty content")
        return
    require(bool(parts), f"{at}: empty content")
    for part in parts:
        require(part.type in _PARTS[item.role or ""], f"{at}: a part of type {part.type!r}")
        if part.type == "input_image":
            url = part.image_url or ""
            require(url.startswith(("https://", "http://", "data:image/")), f"{at}: {url[:40]!r}")
        else:
            require(bool(part.text and part.text.strip()), f"{at}: an empty text part")


def _check_reasoning(item: _Item, at: str, *, stored: bool) -> None:
    require(item.summary is not None, f"{at}: a reasoning item without its summary")
    found = stored or bool(item.encrypted_content or item.content)
    require(found, f"{at}: item {item.id!r} not found: items are not kept when store is false")


def _conversation(request: ResponsesBody, items: list[_Item]) -> RequestSummary:
    answered = 0
    asked = ""
    result: str | None = None
    later_replies = False
    for item in reversed(items):
        answered += item.replies and not later_replies
        later_replies = item.replies
        if item.type == "function_call_output" and not answered and result is None:
            result = item.output
        elif item.role == "user" and (asked := last_user_text(_texts(item))):
            break
    turn = sum(item.role == "user" for item in items)
    asked = asked or next(iter(_texts(items[-1])), "") or ""
    return RequestSummary(request.model, request.stream, asked, answered, result, turn)


def _texts(item: _Item) -> list[str | None]:
    content = item.content or ()
    return [content] if isinstance(content, str) else [part.text for part in content]


_encode = msgspec.json.encode
_Json = dict[str, Any]


def echo(conversation: RequestSummary, size: int) -> bytes:
    return b"".join(events(conversation, ScriptedReply(), size))


def whole(conversation: RequestSummary, step: ScriptedReply, size: int) -> bytes:
    return _encode(_response(conversation, step, size))


def events(conversation: RequestSummary, step: ScriptedReply, size: int) -> list[bytes]:
    """The events of a scripted stream. There is no end mark but the last event."""
    begun = {"id": "resp_1", "object": "response", "status": "in_progress", "output": []}
    events: list[_Json] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
        *_items(conversation, step),
    ]
    if step.fault is ScriptedFault.NO_FINISH:
        return [*map(_event, events), b"data: [DONE]\n\n"]
    response = _response(conversation, step, size)
    events.append({"type": f"response.{response['status']}", "response": response})
    return [*map(_event, events)]


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
    for index, item in enumerate(output):
        at = {"output_index": index, "item_id": item["id"]}
        yield {"type": "response.output_item.added", **at, "item": _empty(item)}
        match item["type"]:
            case "reasoning":
                yield from _text_deltas(item["summary"][0]["text"], "reasoning_summary_text", at)
            case "message":
                yield from _text_deltas(item["content"][0]["text"], "output_text", at)
    first = len(output) - len(step.calls)
    for call, piece in argument_fragments(step):
        at = {"output_index": first + call, "item_id": output[first + call]["id"]}
        yield {"type": "response.function_call_arguments.delta", **at, "delta": piece}
    for index, item in enumerate(output):
        yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _text_deltas(text: str, kind: str, at: _Json) -> Iterator[_Json]:
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
    for index, call in enumerate(step.calls):
        call_id = reply_call_id(conversation, step, index)
        output.append(
            {"type": "function_call", "id": f"fc_{index}", "call_id": call_id,
             "name": call.name, "arguments": call.text}
        )  # fmt: skip
    return output


def _response(conversation: RequestSummary, step: ScriptedReply, size: int) -> _Json:
    asked, text_tokens = max(size // 4, step.cached), len(reply_text(conversation, step)) // 4
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
            "output_tokens": text_tokens,
            "total_tokens": asked + text_tokens,
            "input_tokens_details": {"cached_tokens": step.cached},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }
