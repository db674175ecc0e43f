"""The chat completions codec: our request in OpenAI's words, as bytes.

What a model thought goes back to it under the name it came by, and to no other model.
`Reasoning.opaque` says which: `reasoning_content` or `reasoning` (the text itself, returned
under that name), or a JSON array (`reasoning_details`, returned unchanged).
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from holdfast.core.message import (
    AssistantMessage,
    Image,
    Message,
    NoteMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from holdfast.core.model import ModelRequest, ToolSchema
from holdfast.core.settings import Provider
from holdfast.models.chat_stream import REASONING_FIELDS, ChatDecoder
from holdfast.models.target import EffortField, ModelTarget

_TOOLS_KEPT = 64


class ChatCompletions:
    """Owns the encoded form of the tools it has seen: they are the bulk of most requests."""

    path = "/chat/completions"

    def __init__(self) -> None:
        self._tools: dict[int, tuple[tuple[ToolSchema, ...], msgspec.Raw]] = {}

    def headers(self, target: ModelTarget) -> Mapping[str, str]:
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        if target.api_key is not None:
            headers["Authorization"] = f"Bearer {target.api_key.reveal()}"
        return headers

    def encode(self, request: ModelRequest, target: ModelTarget) -> bytes:
        body: dict[str, Any] = {
            "model": target.name,
            "messages": _messages(request, model=target.name),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.tools:
            body["tools"] = self._encoded_tools(request.tools)
        if request.max_output_tokens is not None:
            # OpenAI's reasoning models refuse the old name, most other servers know only it.
            openai = target.provider is Provider.OPENAI
            name = "max_completion_tokens" if openai else "max_tokens"
            body[name] = request.max_output_tokens
        body.update(_effort(request.reasoning, target.effort_field))
        try:
            return _encode(body)
        except UnicodeEncodeError:
            return _encode(_without_surrogates(body))

    def decoder(self, request: ModelRequest, target: ModelTarget) -> ChatDecoder:
        return ChatDecoder(request=request, target=target)

    def _encoded_tools(self, tools: tuple[ToolSchema, ...]) -> msgspec.Raw:
        # By identity: an agent's tools are one frozen tuple, and comparing schemas would cost
        # as much as encoding them. The tuple is kept beside its bytes, so its id stays its own.
        known = self._tools.get(id(tools))
        if known is not None:
            return known[1]
        if len(self._tools) >= _TOOLS_KEPT:
            del self._tools[next(iter(self._tools))]
        raw = msgspec.Raw(_encode([_tool(schema) for schema in tools]))
        self._tools[id(tools)] = (tools, raw)
        return raw


_encode = msgspec.json.Encoder().encode
_Wire = dict[str, Any]


def _tool(schema: ToolSchema) -> _Wire:
    function = {
        "name": schema.name,
        "description": schema.description,
        "parameters": schema.parameters,
    }
    return {"type": "function", "function": function}


def _effort(effort: str | None, field: EffortField) -> _Wire:
    if effort is None or effort == "none" or field is EffortField.NONE:
        return {}
    if field is EffortField.REASONING_OBJECT:
        return {"reasoning": {"effort": effort}}
    return {"reasoning_effort": effort}


def _messages(request: ModelRequest, *, model: str) -> list[_Wire]:
    wire: list[_Wire] = []
    if request.system:
        wire.append({"role": "system", "content": request.system})
    for message in request.messages:
        projected = _message(message, model=model)
        if wire and projected["role"] == "user" == wire[-1]["role"]:
            # Templates of several open models refuse two user messages in a row.
            both = [*_parts(wire[-1]["content"]), *_parts(projected["content"])]
            wire[-1] = {"role": "user", "content": both}
        else:
            wire.append(projected)
    return wire


def _message(message: Message, *, model: str) -> _Wire:
    match message:
        case UserMessage():
            return {"role": "user", "content": _user_content(message)}
        case AssistantMessage():
            return _assistant(message, model=model)
        case ToolMessage():
            content = message.text or "(no output)"
            return {"role": "tool", "tool_call_id": message.call_id, "content": content}
        case NoteMessage():
            # Not `system`: several providers take that role only at the very beginning, while
            # every one takes `user` anywhere. The note's own opening says who speaks.
            return {"role": "user", "content": message.text or "(empty note)"}


def _user_content(message: UserMessage) -> str | list[_Wire]:
    text = f"{message.speaker}: {message.text}" if message.speaker else message.text
    if message.note:
        text = f"{message.note}\n\n{text}" if text else message.note
    images = [part for part in map(_image, message.images) if part is not None]
    if not images:
        return text or "(empty message)"
    return [*(_parts(text) if text else ()), *images]


def _parts(content: str | list[_Wire]) -> list[_Wire]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _image(image: Image) -> _Wire | None:
    url = image.url if image.data is None else f"data:{image.media_type};base64,{image.data}"
    return {"type": "image_url", "image_url": {"url": url}} if url else None


def _assistant(message: AssistantMessage, *, model: str) -> _Wire:
    wire: _Wire = {"role": "assistant", "content": message.text or None}
    if message.calls:
        wire["tool_calls"] = [_call(call) for call in message.calls]
    elif not message.text:
        wire["content"] = "(no answer)"
    if message.model == model:
        wire.update(_reasoning(message))
    return wire


def _call(call: ToolCall) -> _Wire:
    function = {"name": call.name, "arguments": _valid_arguments(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def _valid_arguments(arguments: str) -> str:
    """Arguments that every provider can parse: one bad call must not spoil a conversation."""
    try:
        _decode_object(arguments)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return _encode({"malformed_arguments": _scrubbed(arguments)}).decode()
    return arguments


def _reasoning(message: AssistantMessage) -> Iterable[tuple[str, Any]]:
    for reasoning in message.reasoning:
        opaque = reasoning.opaque or ""
        if opaque in REASONING_FIELDS:
            yield opaque, reasoning.text
        elif opaque.startswith("["):
            yield "reasoning_details", msgspec.Raw(opaque.encode())


def _scrubbed(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _without_surrogates(value: Any) -> Any:
    """Half a character is valid in a Python string and in no request."""
    if isinstance(value, str):
        return _scrubbed(value)
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_surrogates(item) for key, item in value.items()}
    return value
