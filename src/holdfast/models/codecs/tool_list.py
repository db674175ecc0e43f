"""The tools of a request, encoded once: they are the bulk of most requests."""

from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.core.turns.model import ToolSchema

_MAX_CACHED = 64


class ToolListCache:
    """Owns the encoded form of the tools it has seen, in the words of one API mode."""

    __slots__ = ("_encoded", "_encode_tools")

    def __init__(
        self, encode_tools: Callable[[tuple[ToolSchema, ...]], list[dict[str, Any]]]
    ) -> None:
        self._encode_tools = encode_tools
        self._encoded: dict[int, tuple[tuple[ToolSchema, ...], msgspec.Raw]] = {}

    def get(self, tools: tuple[ToolSchema, ...]) -> msgspec.Raw:
        # By identity: an agent's tools are one frozen tuple, and comparing schemas would cost
        # as much as encoding them. The tuple is kept beside its bytes, so its id stays its own.
        known = self._encoded.get(id(tools))
        if known is not None:
            return known[1]
        if len(self._encoded) >= _MAX_CACHED:
            del self._encoded[next(iter(self._encoded))]
        raw = msgspec.Raw(msgspec.json.encode(self._encode_tools(tools)))
        self._encoded[id(tools)] = (tools, raw)
        return raw
