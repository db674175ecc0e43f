"""The chat completions stream: chunks in, deltas and one whole reply out."""

from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.core.messages.message import Reasoning, StopReason
from holdfast.core.turns.model import Completed, ModelEvent, ModelRequest
from holdfast.core.turns.turn import Usage
from holdfast.models import errors
from holdfast.models.codecs.chat_calls import CallFragment
from holdfast.models.codecs.reply import ReplyBuilder, decode_payload
from holdfast.models.target import ModelTarget

REASONING_FIELDS = ("reasoning_content", "reasoning")


class _Part(msgspec.Struct, gc=False):
    text: str = ""


class _Delta(msgspec.Struct, gc=False):
    content: str | list[_Part] | None = None
    tool_calls: list[CallFragment] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None
    refusal: str | None = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Delta | None = None
    message: _Delta | None = None  # from a server that did not stream
    finish_reason: str | None = None
    index: int = 0


class _InputDetails(msgspec.Struct, gc=False):
    cached_tokens: int | None = None


class _OutputDetails(msgspec.Struct, gc=False):
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _InputDetails | None = None
    completion_tokens_details: _OutputDetails | None = None
    prompt_cache_hit_tokens: int | None = None  # DeepSeek's name for it


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: dict[str, Any] | str | None = None


_decode = msgspec.json.Decoder(_Chunk).decode
_STOPS = {
    "tool_calls": StopReason.TOOL_CALLS,
    "function_call": StopReason.TOOL_CALLS,
    "length": StopReason.LENGTH,
    "content_filter": StopReason.FILTERED,
}


class ChatDecoder:
    """Owns one reply while it comes in."""

    __slots__ = ("_details", "_reply", "_stop", "_target", "_reasoning_field", "_usage")

    ended = False  # the end mark of this mode is the stream's, not a payload's

    def __init__(self, *, request: ModelRequest, target: ModelTarget) -> None:
        self._target = target
        self._reply = ReplyBuilder(request=request, target=target)
        self._reasoning_field = ""
        self._details: list[dict[str, Any]] = []
        self._stop: str | None = None
        self._usage = Usage()

    @property
    def finished(self) -> bool:
        return self._stop is not None

    def feed(self, payloads: Iterable[bytes]) -> list[ModelEvent]:
        for payload in payloads:
            chunk = decode_payload(_decode, payload, self._target)
            if chunk.error:
                raise errors.provider_error(self._target, payload)
            self._handle(chunk)
        return self._reply.new_events()

    def complete(self, *, ended: bool) -> Completed:
        if self._stop is None and not (ended and self._reply):
            raise errors.truncated_error(self._target)
        stop = _STOPS.get(self._stop or "", StopReason.END)
        return self._reply.build(stop=stop, reasoning=self._reasoning(), usage=self._usage)

    def _handle(self, chunk: _Chunk) -> None:
        if chunk.usage is not None:
            self._usage = _usage(chunk.usage)
        for choice in chunk.choices or ():
            if choice.index != 0:
                continue
            delta = choice.delta or choice.message
            if delta is not None:
                self._handle_delta(delta)
            if choice.finish_reason:  # some servers say "" until they mean it
                self._finish(choice.finish_reason)

    def _handle_delta(self, delta: _Delta) -> None:
        content = delta.content if delta.content is not None else delta.refusal
        if content:
            if not isinstance(content, str):
                content = "".join(part.text for part in content)
            self._reply.text.append(content)
        if delta.tool_calls is not None:
            self._reply.calls.add(delta.tool_calls)
        if delta.reasoning_content:
            self._append_reasoning("reasoning_content", delta.reasoning_content)
        elif delta.reasoning:
            self._append_reasoning("reasoning", delta.reasoning)
        if delta.reasoning_details is not None:
            _merge_details(self._details, delta.reasoning_details)

    def _append_reasoning(self, field: str, text: str) -> None:
        self._reasoning_field = field
        self._reply.reasoning_text.append(text)

    def _finish(self, reason: str) -> None:
        if reason == "error":
            raise errors.provider_error(self._target, b"")
        self._stop = reason

    def _reasoning(self) -> tuple[Reasoning, ...]:
        kept = []
        if self._reply.reasoning_text:
            thought = "".join(self._reply.reasoning_text)
            kept.append(Reasoning(text=thought, opaque=self._reasoning_field))
        if self._details:
            kept.append(Reasoning(opaque=msgspec.json.encode(self._details).decode()))
        return tuple(kept)


def _usage(usage: _Usage) -> Usage:
    cached = usage.prompt_cache_hit_tokens
    if usage.prompt_tokens_details is not None:
        cached = usage.prompt_tokens_details.cached_tokens
    details = usage.completion_tokens_details
    return Usage(
        input_tokens=usage.prompt_tokens or 0,
        output_tokens=usage.completion_tokens or 0,
        cached_tokens=cached or 0,
        reasoning_tokens=(details.reasoning_tokens or 0) if details is not None else 0,
    )


def _merge_details(merged: list[dict[str, Any]], fragments: list[dict[str, Any]]) -> None:
    """Joins the pieces of a block; a signature comes last and must stay with its own text."""
    for fragment in fragments:
        last = merged[-1] if merged else {}
        same = all(last.get(key) == fragment.get(key) for key in ("type", "index"))
        if not merged or not same or "index" not in fragment:
            merged.append(dict(fragment))
            continue
        for key, value in fragment.items():
            if key in ("text", "summary", "data") and isinstance(last.get(key), str) and value:
                last[key] += value
            elif value is not None:
                last[key] = value
