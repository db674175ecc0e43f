"""The strict reader of chat completions: takes only what the strictest provider would take."""

from typing import Any

import msgspec

from holdfast.testing.misbehaving_model.conversation import (
    InvalidRequest,
    OpenToolCalls,
    RequestSummary,
    ToolListChecker,
    check_arguments,
    last_user_text,
    require,
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
    for place, message in enumerate(messages):
        at = f"messages[{place}]"
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
