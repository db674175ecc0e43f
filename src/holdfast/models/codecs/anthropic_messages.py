"""The Anthropic messages codec: our request in the words of the Messages API, as bytes.

Four places are marked for the provider's prompt cache: the tools, the system prompt, and the
ends of the last two user messages. What stands before a mark is the same in the next request,
so that each step pays for its own words only.
"""

from collections.abc import Mapping
from typing import Any

from holdfast.core.config.settings import Provider
from holdfast.core.turns.model import ModelRequest, ToolSchema
from holdfast.models.codecs.anthropic_stream import AnthropicDecoder
from holdfast.models.codecs.anthropic_thinking import (
    INTERLEAVED_BETA,
    limit_max_tokens,
    needs_interleaved_beta,
    thinking_fields,
)
from holdfast.models.codecs.anthropic_transcript import CACHE_MARK, encode_messages
from holdfast.models.codecs.sound import encode_json
from holdfast.models.codecs.tool_list import ToolListCache
from holdfast.models.target import ModelTarget

API_VERSION = "2023-06-01"


class AnthropicCodec:
    """Owns the tools it has encoded."""

    path = "/messages"

    def __init__(self) -> None:
        self._tools = ToolListCache(_encode_tools)

    def headers(self, target: ModelTarget) -> Mapping[str, str]:
        headers = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream",
            "anthropic-version": API_VERSION,
        }
        if needs_interleaved_beta(target.name):
            headers["anthropic-beta"] = INTERLEAVED_BETA
        if target.api_key is not None:
            headers["x-api-key"] = target.api_key.reveal()
            if target.provider is not Provider.ANTHROPIC:
                # Others who speak this mode take the key where they take it in every mode.
                headers["Authorization"] = f"Bearer {target.api_key.reveal()}"
        return headers

    def encode(self, request: ModelRequest, target: ModelTarget) -> bytes:
        max_tokens = limit_max_tokens(target.name, request.max_output_tokens)
        messages = encode_messages(request, model=target.name)
        thinking = thinking_fields(
            target.name, request.reasoning, max_tokens=max_tokens, messages=messages
        )
        body: dict[str, Any] = {
            "model": target.name,
            "max_tokens": max_tokens,
            "messages": messages,
            "stream": True,
            **thinking,
        }
        if request.system.strip():
            body["system"] = [{"type": "text", "text": request.system, **CACHE_MARK}]
        if request.tools:
            body["tools"] = self._tools.get(request.tools)
        return encode_json(body)

    def decoder(self, request: ModelRequest, target: ModelTarget) -> AnthropicDecoder:
        return AnthropicDecoder(request=request, target=target)


def _encode_tools(tools: tuple[ToolSchema, ...]) -> list[dict[str, Any]]:
    words: list[dict[str, Any]] = [
        {
            "name": schema.name,
            "description": schema.description,
            "input_schema": {"type": "object", **schema.parameters},
        }
        for schema in tools
    ]
    words[-1] |= CACHE_MARK
    return words
