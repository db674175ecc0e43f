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
    INTERLEAVED,
    interleaves,
    max_tokens_of,
    thinking_of,
)
from holdfast.models.codecs.anthropic_transcript import CACHED, projected
from holdfast.models.codecs.sound import encoded
from holdfast.models.codecs.tool_list import ToolLists
from holdfast.models.target import ModelTarget

VERSION = "2023-06-01"


class AnthropicMessages:
    """Owns the tools it has encoded."""

    path = "/messages"

    def __init__(self) -> None:
        self._tools = ToolLists(_in_words)

    def headers(self, target: ModelTarget) -> Mapping[str, str]:
        headers = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream",
            "anthropic-version": VERSION,
        }
        if interleaves(target.name):
            headers["anthropic-beta"] = INTERLEAVED
        if target.api_key is not None:
            headers["x-api-key"] = target.api_key.reveal()
            if target.provider is not Provider.ANTHROPIC:
                # Others who speak this mode take the key where they take it in every mode.
                headers["Authorization"] = f"Bearer {target.api_key.reveal()}"
        return headers

    def encode(self, request: ModelRequest, target: ModelTarget) -> bytes:
        max_tokens = max_tokens_of(target.name, request.max_output_tokens)
        messages = projected(request, model=target.name)
        thinking = thinking_of(
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
            body["system"] = [{"type": "text", "text": request.system, **CACHED}]
        if request.tools:
            body["tools"] = self._tools.of(request.tools)
        return encoded(body)

    def decoder(self, request: ModelRequest, target: ModelTarget) -> AnthropicDecoder:
        return AnthropicDecoder(request=request, target=target)


def _in_words(tools: tuple[ToolSchema, ...]) -> list[dict[str, Any]]:
    words: list[dict[str, Any]] = [
        {
            "name": schema.name,
            "description": schema.description,
            "input_schema": {"type": "object", **schema.parameters},
        }
        for schema in tools
    ]
    words[-1] |= CACHED
    return words
