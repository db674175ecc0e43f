"""The strict reader: takes only requests that the strictest provider would take."""

import re
from typing import Any

import msgspec


class Invalid(Exception):
    """A request no provider has to take; the text says which rule it breaks."""


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


class Body(msgspec.Struct, gc=False, forbid_unknown_fields=True):
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


class Conversation(msgspec.Struct, frozen=True, gc=False):
    """What the script needs to know of a request."""

    model: str
    stream: bool
    asked: str  # the text of the last user message, or of its last part
    answered: int  # assistant messages since then
    result: str | None  # the last tool result, where none but a note follows it
    turn: int  # user messages in all: with `answered`, the place in the conversation


_decode = msgspec.json.Decoder(Body).decode
_NOTE = re.compile(r"\A\[System note:[^\]]*\]\s*")
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class StrictReader:
    """Owns the tool lists it has already found good: they are the same in most requests."""

    def __init__(self) -> None:
        self._good_tools: set[bytes] = set()

    def read(self, body: bytes) -> Conversation:
        """What was asked; raises `Invalid` for a request that breaks a rule."""
        try:
            request = _decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Invalid(str(error)) from error
        _check(bool(request.model), "model is empty")
        _check(bool(request.messages), "messages is empty")
        _check(request.stream or request.stream_options is None, "stream_options without stream")
        self._check_tools(bytes(request.tools))
        _check_messages(request.messages)
        return _conversation(request)

    def _check_tools(self, raw: bytes) -> None:
        if raw == b"null" or raw in self._good_tools:
            return
        tools = msgspec.json.decode(raw)
        _check(isinstance(tools, list) and bool(tools), "tools is no list, or empty")
        names = [_tool_name(tool) for tool in tools]
        _check(len(set(names)) == len(names), f"two tools have one name: {names}")
        if len(self._good_tools) < 1000:
            self._good_tools.add(raw)


def _check(holds: bool, rule: str) -> None:
    if not holds:
        raise Invalid(rule)


def _tool_name(tool: Any) -> str:
    try:
        name, parameters = tool["function"]["name"], tool["function"]["parameters"]
    except (KeyError, TypeError) as error:
        raise Invalid(f"a tool without a function, name or parameters: {tool}") from error
    _check(tool.get("type") == "function", "a tool whose type is not function")
    _check(isinstance(parameters, dict), f"the parameters of tool {name} are no object")
    _check(_TOOL_NAME.fullmatch(str(name)) is not None, f"tool name {name!r} is not allowed")
    return str(name)


def _check_messages(messages: list[_Message]) -> None:
    waiting: list[str] = []  # calls without a result
    seen: set[str] = set()
    before = ""
    for place, message in enumerate(messages):
        at = f"messages[{place}]"
        if message.role == "tool":
            _check_result(message, waiting, at)
        else:
            _check(not waiting, f"{at}: tool calls {waiting} have no result directly after them")
            _check_spoken(message, before, at)
            waiting = _call_ids(message, seen, at)
        before = message.role
    _check(not waiting, f"tool calls {waiting} have no result")
    _check(before in ("user", "tool"), "the last message must be a user's or a tool's")


def _check_result(message: _Message, waiting: list[str], at: str) -> None:
    call_id = message.tool_call_id or ""
    _check(call_id in waiting, f"{at}: a result for {call_id!r}, no open call of the last message")
    content = message.content
    _check(isinstance(content, str) and bool(content.strip()), f"{at}: an empty result")
    waiting.remove(call_id)


def _check_spoken(message: _Message, before: str, at: str) -> None:
    _check(message.role in ("system", "user", "assistant"), f"{at}: role {message.role!r}")
    _check(message.role != "system" or before == "", f"{at}: a system message that is not first")
    _check(message.role != before, f"{at}: roles must alternate, two {before} messages in a row")
    _check(message.tool_call_id is None, f"{at}: tool_call_id outside of a tool's message")
    if message.role == "assistant" and message.tool_calls is not None and message.content is None:
        return
    parts = message.content or ()
    if isinstance(parts, str):
        _check(bool(parts.strip()), f"{at}: empty content")
        return
    _check(bool(parts), f"{at}: empty content")
    for part in parts:
        _check_part(part, message.role, at)


def _check_part(part: _Part, role: str, at: str) -> None:
    if part.type == "text":
        _check(bool(part.text and part.text.strip()), f"{at}: an empty text part")
        return
    _check(part.type == "image_url" and role == "user", f"{at}: a part of type {part.type!r}")
    url = (part.image_url or {}).get("url", "")
    _check(url.startswith(("https://", "http://", "data:image/")), f"{at}: image url {url[:40]!r}")


def _call_ids(message: _Message, seen: set[str], at: str) -> list[str]:
    if message.tool_calls is None:
        return []
    _check(message.role == "assistant" and bool(message.tool_calls), f"{at}: tool_calls")
    ids = []
    for call in message.tool_calls:
        _check(call.type == "function" and bool(call.id), f"{at}: a call without type or id")
        _check(call.id not in seen, f"{at}: the call id {call.id!r} was used before")
        _check(_TOOL_NAME.fullmatch(call.function.name) is not None, f"{at}: a call's name")
        _check_arguments(call.function.arguments, at)
        seen.add(call.id)
        ids.append(call.id)
    return ids


def _check_arguments(arguments: str, at: str) -> None:
    try:
        msgspec.json.decode(arguments, type=dict[str, msgspec.Raw])
    except msgspec.DecodeError as error:
        raise Invalid(f"{at}: arguments that are no JSON object: {error}") from error


def _conversation(request: Body) -> Conversation:
    answered = 0
    asked = ""
    result: str | None = None
    for message in reversed(request.messages):
        if message.role == "assistant":
            answered += 1
        elif message.role == "tool" and not answered and result is None:
            result = _text(message)
        elif message.role == "user" and (asked := _asked(message)):
            break
    turn = sum(message.role == "user" for message in request.messages)
    asked = asked or _text(request.messages[-1])
    return Conversation(request.model, request.stream, asked, answered, result, turn)


def _asked(message: _Message) -> str:
    """What a person said in it. A gateway's own note is not a question: a turn that is gone on
    with after a cut must meet the script it had before."""
    parts = message.content or ()
    texts = [parts] if isinstance(parts, str) else [part.text for part in parts if part.text]
    said = [spoken for text in texts if (spoken := _NOTE.sub("", text, count=1))]
    return said[-1] if said else ""


def _text(message: _Message) -> str:
    if isinstance(message.content, str):
        return message.content
    texts = [part.text for part in message.content or () if part.text]
    return texts[-1] if texts else ""
