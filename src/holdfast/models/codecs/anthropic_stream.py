"""The Messages stream: content blocks in, deltas and one whole reply out."""

from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.core.messages.message import Reasoning, StopReason
from holdfast.core.turns.model import Completed, ModelEvent, ModelRequest
from holdfast.core.turns.turn import Usage
from holdfast.models import errors
from holdfast.models.codecs.placed import positioned_reasoning
from holdfast.models.codecs.reply import ReplyBuilder, decode_payload
from holdfast.models.target import ModelTarget


class _StreamBlock(msgspec.Struct, gc=False):
    """A content block as it begins, a piece of one, or, in `message_delta`, the end."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    partial_json: str | None = None
    id: str | None = None
    name: str | None = None
    input: dict[str, Any] | None = None
    stop_reason: str | None = None


class _Usage(msgspec.Struct, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class _Message(msgspec.Struct, gc=False):
    content: list[_StreamBlock] | None = None
    usage: _Usage | None = None
    stop_reason: str | None = None


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    index: int = 0
    delta: _StreamBlock | None = None
    content_block: _StreamBlock | None = None
    message: _Message | None = None
    usage: _Usage | None = None


_decode = msgspec.json.Decoder(_Event).decode
_decode_message = msgspec.json.Decoder(_Message).decode
_STOPS = {
    "tool_use": StopReason.TOOL_CALLS,
    "max_tokens": StopReason.LENGTH,
    "model_context_window_exceeded": StopReason.LENGTH,
    "refusal": StopReason.FILTERED,
}


class _PartialThinking:
    """A thinking block on its way in: its pieces, and where it stands in the reply."""

    __slots__ = ("calls_before", "data", "text_before", "signature", "text")

    def __init__(self, block: _StreamBlock, *, text_before: int, calls_before: int) -> None:
        self.text = [block.thinking or ""]
        self.signature = block.signature or ""
        self.data = block.data
        self.text_before = text_before
        self.calls_before = calls_before

    def to_reasoning(self) -> Reasoning:
        part: dict[str, str] = {"type": "thinking", "signature": self.signature}
        if self.data is not None:
            part = {"type": "redacted_thinking", "data": self.data}
        return positioned_reasoning(
            part, visible="".join(self.text), text=self.text_before, calls=self.calls_before
        )


class AnthropicDecoder:
    """Owns one reply while it comes in."""

    __slots__ = ("_usage_counts", "_reply", "_stop", "_target", "_thinking", "ended")

    def __init__(self, *, request: ModelRequest, target: ModelTarget) -> None:
        self._target = target
        self._reply = ReplyBuilder(request=request, target=target)
        self._thinking: dict[int, _PartialThinking] = {}
        self._usage_counts = _Usage()
        self._stop: str | None = None
        self.ended = False

    @property
    def finished(self) -> bool:
        return self._stop is not None

    def feed(self, payloads: Iterable[bytes]) -> list[ModelEvent]:
        for payload in payloads:
            event = decode_payload(_decode, payload, self._target)
            if event.type == "content_block_delta" and event.delta is not None:
                self._handle_delta(event.index, event.delta)
            else:
                self._handle(event, payload)
        return self._reply.new_events()

    def complete(self, *, ended: bool) -> Completed:
        if self._stop is None and not (ended and self._reply):
            raise errors.truncated_error(self._target)
        return self._reply.build(
            stop=_STOPS.get(self._stop or "", StopReason.END),
            reasoning=tuple(thought.to_reasoning() for thought in self._thinking.values()),
            usage=_usage(self._usage_counts),
        )

    def _handle_delta(self, index: int, delta: _StreamBlock) -> None:
        if delta.text:
            self._reply.text.append(delta.text)
        elif delta.partial_json:
            self._reply.calls.append(index, delta.partial_json)
        elif index in self._thinking:
            self._append_thinking(self._thinking[index], delta)

    def _append_thinking(self, thinking: _PartialThinking, delta: _StreamBlock) -> None:
        if delta.thinking:
            thinking.text.append(delta.thinking)
            self._reply.reasoning_text.append(delta.thinking)
        if delta.signature:
            thinking.signature += delta.signature

    def _handle(self, event: _Event, payload: bytes) -> None:
        match event.type:
            case "content_block_start" if event.content_block is not None:
                self._begin_block(event.index, event.content_block)
            case "message_start" if event.message is not None:
                self._count(event.message.usage)
            case "message_delta":
                self._count(event.usage)
                if event.delta is not None and event.delta.stop_reason:
                    self._stop = event.delta.stop_reason
            case "message_stop":
                self.ended = True
            case "message":
                self._handle_unstreamed(decode_payload(_decode_message, payload, self._target))
            case "error" | "":
                raise errors.provider_error(self._target, payload)

    def _handle_unstreamed(self, message: _Message) -> None:
        for index, block in enumerate(message.content or ()):
            self._begin_block(index, block)
        self._count(message.usage)
        self._stop = message.stop_reason or "end_turn"
        self.ended = True

    def _begin_block(self, index: int, block: _StreamBlock) -> None:
        match block.type:
            case "text" if block.text:
                self._reply.text.append(block.text)
            case "tool_use":
                self._reply.calls.begin(index, id=block.id or "", name=block.name or "")
                if block.input:
                    self._reply.calls.append(index, msgspec.json.encode(block.input).decode())
            case "thinking" | "redacted_thinking":
                said = sum(map(len, self._reply.text))
                calls = len(self._reply.calls)
                self._thinking[index] = _PartialThinking(
                    block, text_before=said, calls_before=calls
                )
                if block.thinking:
                    self._reply.reasoning_text.append(block.thinking)

    def _count(self, usage: _Usage | None) -> None:
        """What comes later counts from the beginning: it replaces, it does not add."""
        for name, value in msgspec.structs.asdict(usage).items() if usage is not None else ():
            if value is not None:
                self._usage_counts = msgspec.structs.replace(self._usage_counts, **{name: value})


def _usage(counted: _Usage) -> Usage:
    """All that was read, from the cache or not, as the other modes count it."""
    cached = counted.cache_read_input_tokens or 0
    fresh = (counted.input_tokens or 0) + (counted.cache_creation_input_tokens or 0)
    return Usage(
        input_tokens=fresh + cached,
        output_tokens=counted.output_tokens or 0,
        cached_tokens=cached,
    )
