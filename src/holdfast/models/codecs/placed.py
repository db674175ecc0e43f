"""Placed thoughts: what a model thought, with its place between what it said and did.

A reply keeps its text, its calls and its reasoning apart; a provider that signs what its model
thought wants it back where it stood. The place is kept in `Reasoning.opaque`, beside the part
that is the provider's own.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from holdfast.core.messages.message import AssistantMessage, Reasoning, ToolCall


class _PositionedPart(msgspec.Struct, frozen=True, omit_defaults=True):
    part: msgspec.Raw
    text: int = 0  # characters that were said before it
    calls: int = 0  # calls that were made before it


class ReasoningPart(NamedTuple):
    part: bytes  # the provider's own, as JSON
    text: str


_POSITIONED_PREFIX = '{"part":'
_decode = msgspec.json.Decoder(_PositionedPart).decode


def positioned_reasoning(part: Any, *, visible: str, text: int, calls: int) -> Reasoning:
    """A thought that came after so many characters and calls; `shown` is what one may read."""
    raw = msgspec.Raw(msgspec.json.encode(part))
    return Reasoning(
        text=visible, opaque=msgspec.json.encode(_PositionedPart(raw, text, calls)).decode()
    )


def parts_in_order(
    message: AssistantMessage, *, include_reasoning: bool
) -> Iterator[ReasoningPart | str | ToolCall]:
    """The reply as it came: thoughts (if they are wanted) between pieces of text and calls."""
    said, called = 0, 0
    for reasoning in message.reasoning if include_reasoning else ():
        if reasoning.opaque is None or not reasoning.opaque.startswith(_POSITIONED_PREFIX):
            continue
        place = _decode(reasoning.opaque)
        yield from _between(message, said, place.text, called, place.calls)
        said, called = max(said, place.text), max(called, place.calls)
        yield ReasoningPart(bytes(place.part), reasoning.text)
    yield from _between(message, said, len(message.text), called, len(message.calls))


def _between(
    message: AssistantMessage, from_text: int, to_text: int, from_call: int, to_call: int
) -> Iterator[str | ToolCall]:
    if piece := message.text[from_text:to_text]:
        yield piece
    yield from message.calls[from_call:to_call]
