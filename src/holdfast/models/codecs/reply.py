"""A reply while it comes in, in no API mode's words."""

import json
from collections.abc import Callable
from hashlib import md5
from typing import TypeVar

import msgspec

from holdfast.core.messages.message import AssistantMessage, Reasoning, StopReason, ToolCall
from holdfast.core.turns.model import Completed, ModelEvent, ModelRequest, ReasoningDelta, TextDelta
from holdfast.core.turns.turn import Usage
from holdfast.models import errors
from holdfast.models.codecs.chat_calls import CallAssembler
from holdfast.models.target import ModelTarget

T = TypeVar("T")


class ReplyBuilder:
    """Owns the text, the thoughts and the calls of one answer as they grow."""

    __slots__ = ("_request", "_target", "_emitted", "calls", "text", "reasoning_text")

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
        """The deltas since this was last asked; neighbouring pieces come as one."""
        text, thought = self._emitted
        events: list[ModelEvent] = []
        if len(self.reasoning_text) > thought:
            events.append(ReasoningDelta("".join(self.reasoning_text[thought:])))
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
        """What ids made here begin with: the conversation's length and end, so that they are
        the same when it is asked again, and not those of a message that is no longer shown."""
        messages = self._request.messages
        end = repr(messages[-1:]).encode("utf-8", "backslashreplace")
        return f"call_{len(messages)}_{md5(end, usedforsecurity=False).hexdigest()[:8]}"


def decode_payload(decode: Callable[[bytes], T], payload: bytes, target: ModelTarget) -> T:
    """The payload as its type; raises `ModelFailed` for one that is none."""
    try:
        return decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _decode_leniently(decode, payload, target)


def _decode_leniently(decode: Callable[[bytes], T], payload: bytes, target: ModelTarget) -> T:
    # Some servers cut text between the two halves of an escaped surrogate pair, which a
    # strict decoder refuses: half a character is no reason to throw a whole reply away.
    try:
        text = json.dumps(json.loads(payload), ensure_ascii=False)
        return decode(text.encode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise errors.undecodable_error(target, payload) from error


def _actual_stop(stop: StopReason, calls: tuple[ToolCall, ...]) -> StopReason:
    """Whether there are calls is seen, not said: servers name the wrong reason."""
    if stop is StopReason.END and calls:
        return StopReason.TOOL_CALLS
    if stop is StopReason.TOOL_CALLS and not calls:
        return StopReason.END
    return stop
