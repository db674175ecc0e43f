"""The codec of Anthropic's Messages API: request, thinking, transcript and stream.

Four places are marked for the provider's prompt cache: the tools, the system prompt, and the
ends of the last two user messages. Everything before a mark is the same in the next request, so
each step pays for its new tokens only.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.core.config.settings import Provider
from holdfast.core.messages.transcript import (
    AssistantMessage,
    Image,
    NoteMessage,
    Reasoning,
    StopReason,
    ToolCall,
    ToolMessage,
    ToolOutcome,
    UserMessage,
)
from holdfast.core.turns.model import Completed, ModelEvent, ModelRequest, ToolSchema
from holdfast.core.turns.turn import Usage
from holdfast.models import errors
from holdfast.models.codecs.reply import (
    ReasoningPart,
    ReplyBuilder,
    decode_payload,
    parts_in_order,
    positioned_reasoning,
)
from holdfast.models.codecs.request import (
    IMAGE_PLACEHOLDER,
    NO_ANSWER,
    CallIds,
    PromptCache,
    ToolListCache,
    encode_json,
    image_url_of,
    result_text,
    text_or,
    user_text,
    valid_arguments,
    valid_tool_name,
)
from holdfast.models.target import ModelTarget

API_VERSION = "2023-06-01"
INTERLEAVED_BETA = "interleaved-thinking-2025-05-14"

_Json = dict[str, Any]


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
    """A thinking block that is being received: its pieces, and its place in the reply."""

    __slots__ = ("calls_before", "data", "signature", "text", "text_before")

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

    __slots__ = ("_reply", "_stop", "_target", "_thinking", "_usage_counts", "ended")

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
                text_length = sum(map(len, self._reply.text))
                calls = len(self._reply.calls)
                self._thinking[index] = _PartialThinking(
                    block, text_before=text_length, calls_before=calls
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


_VERSION = re.compile(r"claude-(?:[a-z]+-)?(\d{1,2})(?!\d)(?:[-.](\d{1,2})(?!\d))?")
_NEWEST = (99, 0)
_BUDGETS = {"minimal": 1024, "low": 4096, "medium": 10_000, "high": 24_000}
_ADAPTIVE = {"minimal": "low", "low": "low", "medium": "medium", "high": "high"}
_MIN_BUDGET = 1024
_MIN_REPLY_TOKENS = 1024


def claude_version(name: str) -> tuple[int, int] | None:
    """The version in a model's name; None: it is no Claude. A name without one is a new model."""
    if "claude" not in name:
        return None
    found = _VERSION.search(name)
    return (int(found[1]), int(found[2] or 0)) if found else _NEWEST


def limit_max_tokens(name: str, requested: int | None) -> int:
    """What a reply may take, thoughts included: the API insists on a number."""
    version = claude_version(name)
    if version is None:
        most = 8192
    elif version < (3, 5):
        most = 4096
    else:
        most = 8192 if version < (3, 7) else 32_000
    return min(requested, most) if requested is not None else most


def thinking_fields(
    name: str, effort: str | None, *, max_tokens: int, messages: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """What the body says of thinking: an effort where the model decides, a budget before that,
    nothing where it cannot think."""
    version = claude_version(name)
    if version is None or version < (3, 7) or effort not in _BUDGETS:
        return {}
    if version >= (4, 6):
        thinking = {"type": "adaptive", "display": "summarized"}
        return {"thinking": thinking, "output_config": {"effort": _ADAPTIVE[effort]}}
    budget = min(_BUDGETS[effort], max_tokens - _MIN_REPLY_TOKENS)
    if budget < _MIN_BUDGET or not _can_start_thinking(messages):
        return {}
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def needs_interleaved_beta(name: str) -> bool:
    """Whether it thinks between its tool calls only when a header asks for it."""
    version = claude_version(name)
    return version is not None and (4, 0) <= version < (4, 6)


def _can_start_thinking(messages: Sequence[Mapping[str, Any]]) -> bool:
    """With a budget, the reply whose tools have just run must begin with a thought; one that
    another model made, or this one without thinking, has none to show."""
    if messages[-1]["content"][0]["type"] != "tool_result":
        return True
    return "thinking" in messages[-2]["content"][0]["type"]


CACHE_MARK: _Json = {"cache_control": {"type": "ephemeral"}}
_DATA = re.compile(r"data:(image/(?:jpeg|png|gif|webp));base64,(.+)", re.DOTALL)
_MARKED_MESSAGES = 2  # user messages whose end is marked: this request's, and the one before it


def encode_messages(request: ModelRequest, *, model: str) -> list[_Json]:
    """The messages of a request; the system prompt is not among them."""
    transcript = _Transcript(model=model)
    for message in request.messages:
        match message:
            case UserMessage():
                transcript.add("user", _user_content(message))
            case NoteMessage():
                transcript.add("user", [_text(text_or(message.text, default="(empty note)"))])
            case AssistantMessage():
                transcript.add("assistant", transcript.reply(message))
            case ToolMessage():
                transcript.add("user", [transcript.result(message)])
    transcript.mark()
    return transcript.messages


class _Transcript:
    """Owns the messages made so far: neighbours of one role are one message, so that the
    results of parallel calls stand together, and what a user said after them comes last."""

    def __init__(self, *, model: str) -> None:
        self.messages: list[_Json] = []
        self._model = model
        self._ids = CallIds()

    def add(self, role: str, blocks: list[_Json]) -> None:
        if self.messages and self.messages[-1]["role"] == role:
            self.messages[-1]["content"] += blocks
        else:
            self.messages.append({"role": role, "content": blocks})

    def mark(self) -> None:
        users = [message for message in self.messages if message["role"] == "user"]
        for message in users[-_MARKED_MESSAGES:]:
            message["content"][-1] |= CACHE_MARK

    def reply(self, message: AssistantMessage) -> list[_Json]:
        self._ids.begin_reply()
        blocks: list[_Json] = []
        for part in parts_in_order(message, include_reasoning=message.model == self._model):
            match part:
                case ReasoningPart():
                    blocks += _thinking_blocks(part)
                case ToolCall():
                    blocks.append(self._call(part))
                case str() if part.strip():
                    blocks.append(_text(part))
        if not message.calls and not message.text.strip():
            blocks.append(_text(NO_ANSWER))
        return blocks

    def result(self, message: ToolMessage) -> _Json:
        result: _Json = {
            "type": "tool_result",
            "tool_use_id": self._ids.for_result(message.call_id),
            "content": result_text(message),
        }
        if message.outcome is not ToolOutcome.OK:
            result["is_error"] = True
        return result

    def _call(self, call: ToolCall) -> _Json:
        return {
            "type": "tool_use",
            "id": self._ids.for_call(call.id),
            "name": valid_tool_name(call.name),
            "input": msgspec.Raw(valid_arguments(call.arguments).encode()),
        }


class _ThinkingBlock(msgspec.Struct):
    type: str
    signature: str = ""
    data: str = ""


def _thinking_blocks(part: ReasoningPart) -> list[_Json]:
    """The block as it came; unsigned ones are no use to the provider, which refuses them."""
    block = msgspec.json.decode(part.part, type=_ThinkingBlock)
    if block.type == "redacted_thinking":
        return [{"type": block.type, "data": block.data}]
    if block.type == "thinking" and block.signature:
        return [{"type": block.type, "thinking": part.text, "signature": block.signature}]
    return []


def _user_content(message: UserMessage) -> list[_Json]:
    text = user_text(message)
    if not message.images:
        return [_text(text or "(empty message)")]
    return [*([_text(text)] if text else ()), *map(_image, message.images)]


def _text(text: str) -> _Json:
    return {"type": "text", "text": text}


def _image(image: Image) -> _Json:
    url = image_url_of(image) or ""
    if data := _DATA.fullmatch(url):
        source = {"type": "base64", "media_type": data[1], "data": data[2]}
    elif url.startswith("https://"):
        source = {"type": "url", "url": url}
    else:
        return _text(IMAGE_PLACEHOLDER)
    return {"type": "image", "source": source}


class AnthropicCodec:
    """Encodes requests and decodes replies; owns the cache of encoded tool lists."""

    path = "/messages"

    def __init__(self) -> None:
        self._prompts = PromptCache()
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
                # Other providers of this API expect the key as in every other API mode.
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
            prompt = self._prompts.get(request.system)
            body["system"] = [{"type": "text", "text": prompt, **CACHE_MARK}]
        if request.tools:
            body["tools"] = self._tools.get(request.tools)
        return encode_json(body)

    def decoder(self, request: ModelRequest, target: ModelTarget) -> AnthropicDecoder:
        return AnthropicDecoder(request=request, target=target)


def _encode_tools(tools: tuple[ToolSchema, ...]) -> list[dict[str, Any]]:
    encoded: list[dict[str, Any]] = [
        {
            "name": schema.name,
            "description": schema.description,
            "input_schema": {"type": "object", **schema.parameters},
        }
        for schema in tools
    ]
    encoded[-1] |= CACHE_MARK
    return encoded
