"""The chat completions codec: our request in OpenAI's words, as bytes."""

from collections.abc import Mapping
from typing import Any

from holdfast.core.config.settings import Provider
from holdfast.core.turns.model import ModelRequest, ToolSchema
from holdfast.models.codecs.chat_messages import encode_messages
from holdfast.models.codecs.chat_stream import ChatDecoder
from holdfast.models.codecs.sound import encode_json
from holdfast.models.codecs.tool_list import ToolListCache
from holdfast.models.target import EffortField, ModelTarget


class ChatCompletionsCodec:
    """Owns the tools it has encoded."""

    path = "/chat/completions"

    def __init__(self) -> None:
        self._tools = ToolListCache(_encode_tools)

    def headers(self, target: ModelTarget) -> Mapping[str, str]:
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        if target.api_key is not None:
            headers["Authorization"] = f"Bearer {target.api_key.reveal()}"
        return headers

    def encode(self, request: ModelRequest, target: ModelTarget) -> bytes:
        body: dict[str, Any] = {
            "model": target.name,
            "messages": encode_messages(request, model=target.name),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.tools:
            body["tools"] = self._tools.get(request.tools)
        if request.max_output_tokens is not None:
            # OpenAI's reasoning models refuse the old name, most other servers know only it.
            openai = target.provider is Provider.OPENAI
            name = "max_completion_tokens" if openai else "max_tokens"
            body[name] = request.max_output_tokens
        body.update(_effort_fields(request.reasoning, target))
        return encode_json(body)

    def decoder(self, request: ModelRequest, target: ModelTarget) -> ChatDecoder:
        return ChatDecoder(request=request, target=target)


def _encode_tools(tools: tuple[ToolSchema, ...]) -> list[dict[str, Any]]:
    return [
        {
            "type": "function",
            "function": {
                "name": schema.name,
                "description": schema.description,
                "parameters": schema.parameters,
            },
        }
        for schema in tools
    ]


def _effort_fields(effort: str | None, target: ModelTarget) -> dict[str, Any]:
    effort = target.effort(effort)
    if effort is None or target.effort_field is EffortField.NONE:
        return {}
    if target.effort_field is EffortField.REASONING_OBJECT:
        return {"reasoning": {"effort": effort}}
    return {"reasoning_effort": effort}
