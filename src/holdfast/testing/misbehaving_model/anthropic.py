"""The Messages API: checks requests like the strictest provider, and writes replies."""

from collections.abc import Iterator, Mapping
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
    last_user_text,
    reply_call_id,
    reply_text,
    require,
    sign,
    split_text,
)

_IMAGES = {"image/jpeg", "image/png", "image/gif", "image/webp"}
_ASSISTANT = {"text", "tool_use", "thinking", "redacted_thinking"}
_USER = {"text", "tool_result", "image"}
_THINKING_TYPES = ("thinking", "redacted_thinking")
_MAX_CACHE_MARKS = 4


class _Block(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    type: str
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: dict[str, msgspec.Raw] | None = None
    tool_use_id: str | None = None
    content: str | None = None
    is_error: bool | None = None
    source: dict[str, str] | None = None
    cache_control: dict[str, str] | None = None


class _Message(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    role: str
    content: str | list[_Block]

    @property
    def blocks(self) -> list[_Block]:
        content = self.content
        return [_Block("text", content)] if isinstance(content, str) else content


class _Thinking(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    type: str
    budget_tokens: int | None = None
    display: str | None = None


class AnthropicBody(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    model: str
    max_tokens: int
    messages: list[_Message]
    system: str | list[_Block] | None = None
    stream: bool = False
    tools: msgspec.Raw = msgspec.Raw(b"null")
    tool_choice: msgspec.Raw = msgspec.Raw(b"null")
    thinking: _Thinking | None = None
    output_config: dict[str, str] | None = None
    metadata: dict[str, str] | None = None
    stop_sequences: list[str] | None = None
    temperature: float | None = None
    top_p: float | None = None


_decode = msgspec.json.Decoder(AnthropicBody).decode


class StrictAnthropicReader:
    """Owns the tool lists it has already found good."""

    def __init__(self) -> None:
        self._tools = ToolListChecker(_tool_name)

    def read(self, body: bytes) -> RequestSummary:
        """What was asked; raises `InvalidRequest` for a request that breaks a rule."""
        try:
            request = _decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidRequest(str(error)) from error
        require(bool(request.model), "model is empty")
        require(request.max_tokens > 0, "max_tokens must be at least 1")
        require(bool(request.messages), "messages is empty")
        self._tools.check(bytes(request.tools))
        _check_cache_marks(request)
        _check_messages(request.messages)
        _check_thinking(request)
        return _conversation(request)


def _tool_name(tool: Any) -> str:
    require(isinstance(tool, dict), "a tool that is no object")
    schema = tool.get("input_schema")
    require(isinstance(schema, dict) and schema.get("type") == "object", "a tool's input_schema")
    return str(tool.get("name", ""))


def _check_cache_marks(request: AnthropicBody) -> None:
    system = request.system if isinstance(request.system, list) else []
    for block in system:
        require(block.type == "text" and bool((block.text or "").strip()), "system: an empty text")
    blocks = [block for message in request.messages for block in message.blocks]
    marked = [block for block in [*system, *blocks] if block.cache_control is not None]
    marks = len(marked) + bytes(request.tools).count(b'"cache_control"')
    require(
        marks <= _MAX_CACHE_MARKS,
        f"{marks} blocks with cache_control, and {_MAX_CACHE_MARKS} may be",
    )
    for block in marked:
        require(block.type not in _THINKING_TYPES, "cache_control on a thought")
        require(block.cache_control == {"type": "ephemeral"}, "cache_control of another type")


def _check_messages(messages: list[_Message]) -> None:
    calls = OpenToolCalls()
    before = "assistant"
    for index, message in enumerate(messages):
        at = f"messages[{index}]"
        require(message.role in ("user", "assistant"), f"{at}: role {message.role!r}")
        require(message.role != before, f"{at}: roles must alternate, and a user begins")
        require(bool(message.blocks), f"{at}: empty content")
        if message.role == "user":
            _check_user(message, calls, at)
        else:
            _check_assistant(message, calls, at)
        before = message.role
    require(before == "user", "the last message must be a user's")


def _check_user(message: _Message, calls: OpenToolCalls, at: str) -> None:
    for block in message.blocks:
        require(block.type in _USER, f"{at}: a block of type {block.type!r}")
        if block.type == "tool_result":
            calls.answer(block.tool_use_id or "", block.content, at)
            continue
        calls.require_none(at)
        if block.type == "text":
            require(bool((block.text or "").strip()), f"{at}: an empty text block")
        else:
            _check_image(block.source or {}, at)
    calls.require_none(at)


def _check_image(source: Mapping[str, str], at: str) -> None:
    if source.get("type") == "url":
        require(source.get("url", "").startswith("https://"), f"{at}: the address of an image")
        return
    require(source.get("type") == "base64" and bool(source.get("data")), f"{at}: an image's source")
    require(source.get("media_type") in _IMAGES, f"{at}: the media type of an image")


def _check_assistant(message: _Message, calls: OpenToolCalls, at: str) -> None:
    for block in message.blocks:
        require(block.type in _ASSISTANT, f"{at}: a block of type {block.type!r}")
        match block.type:
            case "text":
                require(bool((block.text or "").strip()), f"{at}: an empty text block")
            case "tool_use":
                require(block.input is not None, f"{at}: a tool_use without input")
                calls.open(block.id or "", block.name or "", at)
            case "thinking":
                signed = block.signature == sign(block.thinking or "")
                require(signed, f"{at}: thinking blocks cannot be modified: invalid signature")
            case _:
                require(bool(block.data), f"{at}: a redacted thought without its data")


def _check_thinking(request: AnthropicBody) -> None:
    thinking = request.thinking
    if thinking is None:
        return
    require(thinking.type in ("enabled", "adaptive", "disabled"), "thinking.type")
    if thinking.type != "enabled":
        return
    budget = thinking.budget_tokens or 0
    require(
        1024 <= budget < request.max_tokens, "thinking.budget_tokens must be 1024 to max_tokens"
    )
    if any(block.type == "tool_result" for block in request.messages[-1].blocks):
        first = request.messages[-2].blocks[0].type
        require(
            first in _THINKING_TYPES, f"expected a thought before the tool calls, found {first!r}"
        )


def _conversation(request: AnthropicBody) -> RequestSummary:
    answered = 0
    asked = ""
    result: str | None = None
    for message in reversed(request.messages):
        if message.role == "assistant":
            answered += 1
            continue
        if asked := last_user_text(block.text for block in message.blocks):
            break
        if not answered and result is None:
            result = next(_results(message), None)
    turn = sum(any(b.type == "text" for b in m.blocks) for m in request.messages)
    asked = asked or (request.messages[-1].blocks[-1].text or "")
    return RequestSummary(request.model, request.stream, asked, answered, result, turn)


def _results(message: _Message) -> Iterator[str]:
    """The results in it, the last one first."""
    for block in reversed(message.blocks):
        if block.type == "tool_result" and block.content is not None:
            yield block.content


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
    events: list[_Json] = [{"type": "message_start", "message": opening}, {"type": "ping"}]
    events += _blocks(message["content"], step)
    if step.fault is not ScriptedFault.NO_FINISH:
        delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
        used = {"output_tokens": message["usage"]["output_tokens"]}
        events.append({"type": "message_delta", "delta": delta, "usage": used})
    if step.fault is not ScriptedFault.NO_DONE:
        events.append({"type": "message_stop"})
    return [*map(_event, events)]


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
    for index, call in enumerate(step.calls):
        content.append(
            {
                "type": "tool_use",
                "id": reply_call_id(conversation, step, index),
                "name": call.name,
                "input": msgspec.Raw(call.text.encode()),
            }
        )
    return content
