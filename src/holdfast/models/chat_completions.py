"""The chat completions codec: our request in OpenAI's words, as bytes."""

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.core.model import ModelRequest, ToolSchema
from holdfast.core.settings import Provider
from holdfast.models.chat_messages import projected, scrubbed
from holdfast.models.chat_stream import ChatDecoder
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
            "messages": projected(request, model=target.name),
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


def _tool(schema: ToolSchema) -> dict[str, Any]:
    function = {
        "name": schema.name,
        "description": schema.description,
        "parameters": schema.parameters,
    }
    return {"type": "function", "function": function}


def _effort(effort: str | None, field: EffortField) -> dict[str, Any]:
    if effort is None or effort == "none" or field is EffortField.NONE:
        return {}
    if field is EffortField.REASONING_OBJECT:
        return {"reasoning": {"effort": effort}}
    return {"reasoning_effort": effort}


def _without_surrogates(value: Any) -> Any:
    """Half a character is valid in a Python string and in no request."""
    if isinstance(value, str):
        return scrubbed(value)
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_surrogates(item) for key, item in value.items()}
    return value
