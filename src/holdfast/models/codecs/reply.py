"""A reply while it streams in, independent of the API mode: text, tool calls, positioned reasoning.

A provider that signs its model's reasoning wants it back in place, between text and calls. Its
position is stored in `Reasoning.opaque`, beside the provider's own part.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator
from hashlib import md5
from typing import Any, NamedTuple, TypeVar

import msgspec

from holdfast.core.ids import CallId
from holdfast.core.messages.transcript import AssistantMessage, Reasoning, StopReason, ToolCall
from holdfast.core.turns.model import Completed, ModelEvent, ModelRequest, ReasoningDelta, TextDelta
from holdfast.core.turns.turn import Usage
from holdfast.models import errors
from holdfast.models.target import ModelTarget

T = TypeVar("T")

_POSITIONED_PREFIX = '{"part":'


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class CallFragment(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _PartialCall:
    __slots__ = ("arguments", "id", "name")

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []


class CallAssembler:
    """Owns the calls of one reply while their fragments come in."""

    __slots__ = ("_by_index", "_partial_calls")

    def __init__(self) -> None:
        self._partial_calls: list[_PartialCall] = []
        self._by_index: dict[int, _PartialCall] = {}

    def __len__(self) -> int:
        return len(self._partial_calls)

    def add(self, fragments: Iterable[CallFragment]) -> None:
        for fragment in fragments:
            slot = self._call_for(fragment)
            if fragment.id:
                slot.id = fragment.id
            function = fragment.function
            if function is None:
                continue
            if function.name and not slot.name:
                slot.name = function.name
            if function.arguments:
                slot.arguments.append(_arguments_text(function.arguments))

    def begin(self, index: int, *, id: str, name: str) -> None:
        """A call whose id and name come before its arguments. Idempotent."""
        slot = self._by_index.get(index)
        if slot is None:
            slot = self._by_index[index] = _PartialCall()
            self._partial_calls.append(slot)
        slot.id, slot.name = id or slot.id, name or slot.name

    def append(self, index: int, arguments: str) -> bool:
        """Append to the arguments of a call; False: there is no call of that index."""
        slot = self._by_index.get(index)
        if slot is not None:
            slot.arguments.append(arguments)
        return slot is not None

    def set_arguments(self, index: int, arguments: str) -> None:
        """Set the complete arguments, which replace the fragments before."""
        slot = self._by_index.get(index)
        if slot is not None:
            slot.arguments = [arguments]

    def finish(
        self, *, used_ids: Collection[str], prefix: Callable[[], str]
    ) -> tuple[ToolCall, ...]:
        """The calls in the order in which they began.

        An id that is missing, or that an earlier call has (`used_ids`), is replaced by one made
        from `prefix` and the call's position: the same reply gives the same ids.
        """
        used = set(used_ids)
        calls = []
        for position, slot in enumerate(self._partial_calls):
            call_id = slot.id
            if not call_id or call_id in used:
                call_id = _free_id(f"{prefix()}_{position}", used)
            used.add(call_id)
            arguments = "".join(slot.arguments).strip() or "{}"
            calls.append(ToolCall(id=CallId(call_id), name=slot.name, arguments=arguments))
        return tuple(calls)

    def _call_for(self, fragment: CallFragment) -> _PartialCall:
        index = fragment.index
        slot = self._last() if index is None else self._by_index.get(index)
        if slot is None or _is_new_call(fragment, slot):
            slot = _PartialCall()
            self._partial_calls.append(slot)
        if index is not None:
            self._by_index[index] = slot
        return slot

    def _last(self) -> _PartialCall | None:
        return self._partial_calls[-1] if self._partial_calls else None


def _is_new_call(fragment: CallFragment, slot: _PartialCall) -> bool:
    """Some servers give every call the index 0, or none: then id or name distinguish them."""
    if fragment.id and slot.id:
        return fragment.id != slot.id
    named = fragment.function is not None and bool(fragment.function.name)
    return fragment.index is None and named and bool(slot.name)


def _arguments_text(arguments: str | dict[str, Any]) -> str:
    return arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()


def _free_id(base: str, used: Collection[str]) -> str:
    candidate, n = base, 1
    while candidate in used:
        candidate, n = f"{base}_{n}", n + 1
    return candidate


class _PositionedPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """The stored form of `Reasoning.opaque`: a provider's part and its position in the reply."""

    part: msgspec.Raw
    text: int = 0  # characters of text before it
    calls: int = 0  # calls before it


class ReasoningPart(NamedTuple):
    part: bytes  # the provider's own, as JSON
    text: str


_decode = msgspec.json.Decoder(_PositionedPart).decode


def positioned_reasoning(part: Any, *, visible: str, text: int, calls: int) -> Reasoning:
    """Reasoning that came after `text` characters and `calls` calls; `visible` is its readable
    text."""
    raw = msgspec.Raw(msgspec.json.encode(part))
    return Reasoning(
        text=visible, opaque=msgspec.json.encode(_PositionedPart(raw, text, calls)).decode()
    )


def parts_in_order(
    message: AssistantMessage, *, include_reasoning: bool
) -> Iterator[ReasoningPart | str | ToolCall]:
    """The reply in its original order: text, calls and (on request) the reasoning between them."""
    text, calls = 0, 0  # how far the reply is done
    for reasoning in message.reasoning if include_reasoning else ():
        if reasoning.opaque is None or not reasoning.opaque.startswith(_POSITIONED_PREFIX):
            continue
        positioned = _decode(reasoning.opaque)
        yield from _between(message, text, positioned.text, calls, positioned.calls)
        text, calls = max(text, positioned.text), max(calls, positioned.calls)
        yield ReasoningPart(bytes(positioned.part), reasoning.text)
    yield from _between(message, text, len(message.text), calls, len(message.calls))


def _between(
    message: AssistantMessage, from_text: int, to_text: int, from_call: int, to_call: int
) -> Iterator[str | ToolCall]:
    if piece := message.text[from_text:to_text]:
        yield piece
    yield from message.calls[from_call:to_call]


class ReplyBuilder:
    """Owns the text, reasoning and calls of one reply while they stream in."""

    __slots__ = ("_emitted", "_request", "_target", "calls", "reasoning_text", "text")

    def __init__(self, *, request: ModelRequest, target: ModelTarget) -> None:
        self._request = request
        self._target = target
        self.text: list[str] = []
        self.reasoning_text: list[str] = []
        self.calls = CallAssembler()
        self._emitted = (0, 0)

    def __bool__(self) -> bool:
        return bool(self.text or self.calls)

    def new_events(self) -> list[ModelEvent]:
        """The deltas since the last call; adjacent pieces are joined."""
        text, reasoning = self._emitted
        events: list[ModelEvent] = []
        if len(self.reasoning_text) > reasoning:
            events.append(ReasoningDelta("".join(self.reasoning_text[reasoning:])))
        if len(self.text) > text:
            events.append(TextDelta("".join(self.text[text:])))
        self._emitted = len(self.text), len(self.reasoning_text)
        return events

    def build(
        self, *, stop: StopReason, reasoning: tuple[Reasoning, ...], usage: Usage
    ) -> Completed:
        calls = self._finished_calls()
        message = AssistantMessage(
            text="".join(self.text),
            calls=calls,
            reasoning=reasoning,
            model=self._target.name,
            stop=_actual_stop(stop, calls),
        )
        return Completed(message, usage)

    def _finished_calls(self) -> tuple[ToolCall, ...]:
        if not self.calls:
            return ()
        earlier = frozenset(
            call.id
            for message in self._request.messages
            if isinstance(message, AssistantMessage)
            for call in message.calls
        )
        calls = self.calls.finish(used_ids=earlier, prefix=self._id_prefix)
        if not all(call.name for call in calls):
            raise errors.unnamed_call_error(self._target)
        return calls

    def _id_prefix(self) -> str:
        """The prefix of generated call ids, from the length and end of the conversation: a repeated
        request gives the same ids, and other requests do not."""
        messages = self._request.messages
        end = repr(messages[-1:]).encode("utf-8", "backslashreplace")
        return f"call_{len(messages)}_{md5(end, usedforsecurity=False).hexdigest()[:8]}"


def decode_payload(decode: Callable[[bytes], T], payload: bytes, target: ModelTarget) -> T:
    """The decoded payload; raises `ModelFailed` where it is invalid."""
    try:
        return decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _decode_leniently(decode, payload, target)


def _decode_leniently(decode: Callable[[bytes], T], payload: bytes, target: ModelTarget) -> T:
    # Some servers cut text between the two halves of an escaped surrogate pair, which a
    # strict decoder refuses: half a character is no reason to lose a whole reply.
    try:
        text = json.dumps(json.loads(payload), ensure_ascii=False)
        return decode(text.encode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise errors.undecodable_error(target, payload) from error


def _actual_stop(stop: StopReason, calls: tuple[ToolCall, ...]) -> StopReason:
    """Corrected by the calls of the reply: some servers report the wrong stop reason."""
    if stop is StopReason.END and calls:
        return StopReason.TOOL_CALLS
    if stop is StopReason.TOOL_CALLS and not calls:
        return StopReason.END
    return stop
