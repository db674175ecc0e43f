"""The Messages stream: content blocks in, deltas and one whole reply out."""

from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.core.messages.message import Reasoning, StopReason
from holdfast.core.turns.model import Completed, ModelEvent, ModelRequest
from holdfast.core.turns.turn import Usage
from holdfast.models import errors
from holdfast.models.codecs.placed import placed
from holdfast.models.codecs.reply import Reply, decoded
from holdfast.models.target import ModelTarget


class _Block(msgspec.Struct, gc=False):
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
    content: list[_Block] | None = None
    usage: _Usage | None = None
    stop_reason: str | None = None


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    index: int = 0
    delta: _Block | None = None
    content_block: _Block | None = None
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


class _Thinking:
    """A thinking block on its way in: its pieces, and where it stands in the reply."""

    __slots__ = ("calls", "data", "said", "signature", "text")

    def __init__(self, block: _Block, *, said: int, calls: int) -> None:
        self.text = [block.thinking or ""]
        self.signature = block.signature or ""
        self.data = block.data
        self.said = said
        self.calls = calls

    def kept(self) -> Reasoning:
        part: dict[str, str] = {"type": "thinking", "signature": self.signature}
        if self.data is not None:
            part = {"type": "redacted_thinking", "data": self.data}
        return placed(part, shown="".join(self.text), text=self.said, calls=self.calls)


class AnthropicDecoder:
    """Owns one reply while it comes in."""

    __slots__ = ("_counted", "_reply", "_stop", "_target", "_thoughts", "ended")

    def __init__(self, *, request: ModelRequest, target: ModelTarget) -> None:
        self._target = target
        self._reply = Reply(request=request, target=target)
        self._thoughts: dict[int, _Thinking] = {}
        self._counted = _Usage()
        self._stop: str | None = None
        self.ended = False

    @property
    def finished(self) -> bool:
        return self._stop is not None

    def feed(self, payloads: Iterable[bytes]) -> list[ModelEvent]:
        for payload in payloads:
            event = decoded(_decode, payload, self._target)
            if event.type == "content_block_delta" and event.delta is not None:
                self._take_delta(event.index, event.delta)
            else:
                self._take(event, payload)
        return self._reply.fresh()

    def complete(self, *, ended: bool) -> Completed:
        if self._stop is None and not (ended and self._reply):
            raise errors.cut(self._target)
        return self._reply.whole(
            stop=_STOPS.get(self._stop or "", StopReason.END),
            reasoning=tuple(thought.kept() for thought in self._thoughts.values()),
            usage=_usage(self._counted),
        )

    def _take_delta(self, index: int, delta: _Block) -> None:
        if delta.text:
            self._reply.text.append(delta.text)
        elif delta.partial_json:
            self._reply.calls.append(index, delta.partial_json)
        elif index in self._thoughts:
            self._think(self._thoughts[index], delta)

    def _think(self, thought: _Thinking, delta: _Block) -> None:
        if delta.thinking:
            thought.text.append(delta.thinking)
            self._reply.thought.append(delta.thinking)
        if delta.signature:
            thought.signature += delta.signature

    def _take(self, event: _Event, payload: bytes) -> None:
        match event.type:
            case "content_block_start" if event.content_block is not None:
                self._begin(event.index, event.content_block)
            case "message_start" if event.message is not None:
                self._count(event.message.usage)
            case "message_delta":
                self._count(event.usage)
                if event.delta is not None and event.delta.stop_reason:
                    self._stop = event.delta.stop_reason
            case "message_stop":
                self.ended = True
            case "message":
                self._take_unstreamed(decoded(_decode_message, payload, self._target))
            case "error" | "":
                raise errors.reported(self._target, payload)

    def _take_unstreamed(self, message: _Message) -> None:
        for index, block in enumerate(message.content or ()):
            self._begin(index, block)
        self._count(message.usage)
        self._stop = message.stop_reason or "end_turn"
        self.ended = True

    def _begin(self, index: int, block: _Block) -> None:
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
                self._thoughts[index] = _Thinking(block, said=said, calls=calls)
                if block.thinking:
                    self._reply.thought.append(block.thinking)

    def _count(self, usage: _Usage | None) -> None:
        """What comes later counts from the beginning: it replaces, it does not add."""
        for name, value in msgspec.structs.asdict(usage).items() if usage is not None else ():
            if value is not None:
                self._counted = msgspec.structs.replace(self._counted, **{name: value})


def _usage(counted: _Usage) -> Usage:
    """All that was read, from the cache or not, as the other modes count it."""
    cached = counted.cache_read_input_tokens or 0
    fresh = (counted.input_tokens or 0) + (counted.cache_creation_input_tokens or 0)
    return Usage(
        input_tokens=fresh + cached,
        output_tokens=counted.output_tokens or 0,
        cached_tokens=cached,
    )
