"""Chat completions: checks requests like the strictest provider, and writes replies."""

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
    default_text,
    last_user_text,
    reply_call_id,
    reply_text,
    require,
    split_text,
)


class _Part(msgspec.Struct, gc=False):
    type: str
    text: str | None = None
    image_url: dict[str, str] | None = None


class _Function(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    name: str
    arguments: str


class _Call(msgspec.Struct, gc=False):
    id: str
    type: str
    function: _Function


class _Message(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    role: str
    content: str | list[_Part] | None = None
    name: str | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None


class ChatBody(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    model: str
    messages: list[_Message]
    stream: bool = False
    stream_options: dict[str, bool] | None = None
    tools: msgspec.Raw = msgspec.Raw(b"null")
    tool_choice: msgspec.Raw = msgspec.Raw(b"null")
    parallel_tool_calls: bool | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    reasoning_effort: str | None = None
    reasoning: dict[str, Any] | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    user: str | None = None


_decode = msgspec.json.Decoder(ChatBody).decode


class StrictChatReader:
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
        require(bool(request.messages), "messages is empty")
        require(request.stream or request.stream_options is None, "stream_options without stream")
        self._tools.check(bytes(request.tools))
        _check_messages(request.messages)
        return _conversation(request)


def _tool_name(tool: Any) -> str:
    try:
        name, parameters = tool["function"]["name"], tool["function"]["parameters"]
    except (KeyError, TypeError) as error:
        raise InvalidRequest(f"a tool without a function, name or parameters: {tool}") from error
    require(tool.get("type") == "function", "a tool whose type is not function")
    require(isinstance(parameters, dict), f"the parameters of tool {name} are no object")
    return str(name)


def _check_messages(messages: list[_Message]) -> None:
    calls = OpenToolCalls()
    before = ""
    for index, message in enumerate(messages):
        at = f"messages[{index}]"
        if message.role == "tool":
            calls.answer(message.tool_call_id or "", message.content, at)
        else:
            calls.require_none(at)
            _check_message(message, before, at)
            _open_calls(message, calls, at)
        before = message.role
    calls.require_none("the end")
    require(before in ("user", "tool"), "the last message must be a user's or a tool's")


def _check_message(message: _Message, previous_role: str, at: str) -> None:
    require(message.role in ("system", "user", "assistant"), f"{at}: role {message.role!r}")
    require(
        message.role != "system" or previous_role == "", f"{at}: a system message that is not first"
    )
    require(
        message.role != previous_role,
        f"{at}: roles must alternate, two {previous_role} messages in a row",
    )
    require(message.tool_call_id is None, f"{at}: tool_call_id outside of a tool's message")
    if message.role == "assistant" and message.tool_calls is not None and message.content is None:
        return
    parts = message.content or ()
    if isinstance(parts, str):
        require(bool(parts.strip()), f"{at}: empty content")
        return
    require(bool(parts), f"{at}: empty content")
    for part in parts:
        _check_part(part, message.role, at)


def _check_part(part: _Part, role: str, at: str) -> None:
    if part.type == "text":
        require(bool(part.text and part.text.strip()), f"{at}: an empty text part")
        return
    require(part.type == "image_url" and role == "user", f"{at}: a part of type {part.type!r}")
    url = (part.image_url or {}).get("url", "")
    require(url.startswith(("https://", "http://", "data:image/")), f"{at}: image url {url[:40]!r}")


def _open_calls(message: _Message, calls: OpenToolCalls, at: str) -> None:
    if message.tool_calls is None:
        return
    require(message.role == "assistant" and bool(message.tool_calls), f"{at}: tool_calls")
    for call in message.tool_calls:
        require(call.type == "function", f"{at}: a call without type")
        check_arguments(call.function.arguments, at)
        calls.open(call.id, call.function.name, at)


def _conversation(request: ChatBody) -> RequestSummary:
    answered = 0
    asked = ""
    result: str | None = None
    for message in reversed(request.messages):
        if message.role == "assistant":
            answered += 1
        elif message.role == "tool" and not answered and result is None:
            result = _text(message)
        elif message.role == "user" and (asked := _user_text(message)):
            break
    turn = sum(message.role == "user" for message in request.messages)
    asked = asked or _text(request.messages[-1])
    return RequestSummary(request.model, request.stream, asked, answered, result, turn)


def _user_text(message: _Message) -> str:
    parts = message.content or ()
    return last_user_text([parts] if isinstance(parts, str) else [part.text for part in parts])


def _text(message: _Message) -> str:
    if isinstance(message.content, str):
        return message.content
    texts = [part.text for part in message.content or () if part.text]
    return texts[-1] if texts else ""


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
            {"id": reply_call_id(conversation, step, index), "type": "function",
             "function": {"name": call.name, "arguments": call.text}}
            for index, call in enumerate(step.calls)
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
        _call_delta(index, "", id=reply_call_id(conversation, step, index), name=call.name)
        for index, call in enumerate(step.calls)
    ]
    return opening + [_call_delta(index, piece) for index, piece in argument_fragments(step)]


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
