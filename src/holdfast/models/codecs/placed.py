"""Placed thoughts: what a model thought, with its place between what it said and did.

A reply keeps its text, its calls and its reasoning apart; a provider that signs what its model
thought wants it back where it stood. The place is kept in `Reasoning.opaque`, beside the part
that is the provider's own.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from holdfast.core.messages.message import AssistantMessage, Reasoning, ToolCall


class _Placed(msgspec.Struct, frozen=True, omit_defaults=True):
    part: msgspec.Raw
    text: int = 0  # characters that were said before it
    calls: int = 0  # calls that were made before it


class Thought(NamedTuple):
    part: bytes  # the provider's own, as JSON
    text: str


_MARK = '{"part":'
_decode = msgspec.json.Decoder(_Placed).decode


def placed(part: Any, *, shown: str, text: int, calls: int) -> Reasoning:
    """A thought that came after so many characters and calls; `shown` is what one may read."""
    raw = msgspec.Raw(msgspec.json.encode(part))
    return Reasoning(text=shown, opaque=msgspec.json.encode(_Placed(raw, text, calls)).decode())


def in_order(message: AssistantMessage, *, thoughts: bool) -> Iterator[Thought | str | ToolCall]:
    """The reply as it came: thoughts (if they are wanted) between pieces of text and calls."""
    said, called = 0, 0
    for reasoning in message.reasoning if thoughts else ():
        if reasoning.opaque is None or not reasoning.opaque.startswith(_MARK):
            continue
        place = _decode(reasoning.opaque)
        yield from _between(message, said, place.text, called, place.calls)
        said, called = max(said, place.text), max(called, place.calls)
        yield Thought(bytes(place.part), reasoning.text)
    yield from _between(message, said, len(message.text), called, len(message.calls))


def _between(
    message: AssistantMessage, said: int, to_text: int, called: int, to_call: int
) -> Iterator[str | ToolCall]:
    if piece := message.text[said:to_text]:
        yield piece
    yield from message.calls[called:to_call]
