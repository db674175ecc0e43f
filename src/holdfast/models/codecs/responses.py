"""The responses codec: our request in the words of OpenAI's Responses API, as bytes.

Nothing is kept at the provider (`store` is false): what the model thought comes back encrypted,
and goes back to it with the next request.
"""

from collections.abc import Mapping
from typing import Any

from holdfast.core.turns.model import ModelRequest, ToolSchema
from holdfast.models.codecs.responses_input import encode_input
from holdfast.models.codecs.responses_stream import ResponsesDecoder
from holdfast.models.codecs.sound import encode_json
from holdfast.models.codecs.tool_list import ToolListCache
from holdfast.models.target import EffortField, ModelTarget


class ResponsesCodec:
    """Owns the tools it has encoded."""

    path = "/responses"

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
            "input": encode_input(request, model=target.name),
            "stream": True,
            "store": False,
        }
        if request.system:
            body["instructions"] = request.system
        if request.tools:
            body["tools"] = self._tools.get(request.tools)
        if request.max_output_tokens is not None:
            body["max_output_tokens"] = request.max_output_tokens
        if target.effort_field is not EffortField.NONE:
            # A model that does not reason refuses to be asked for its encrypted thoughts.
            body["include"] = ["reasoning.encrypted_content"]
            if (effort := target.effort(request.reasoning)) is not None:
                body["reasoning"] = {"effort": effort}
        return encode_json(body)

    def decoder(self, request: ModelRequest, target: ModelTarget) -> ResponsesDecoder:
        return ResponsesDecoder(request=request, target=target)


def _encode_tools(tools: tuple[ToolSchema, ...]) -> list[dict[str, Any]]:
    return [
        {
            "type": "function",
            "name": schema.name,
            "description": schema.description,
            "parameters": schema.parameters,
            "strict": False,  # the default here, and a mode that few schemas fit into
        }
        for schema in tools
    ]
