"""The Responses stream: its events in, deltas and one whole reply out."""

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


class _Part(msgspec.Struct, gc=False):
    type: str = ""
    text: str = ""
    refusal: str = ""


class _Item(msgspec.Struct, gc=False):
    type: str = ""
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    content: list[_Part] | None = None
    summary: list[_Part] | None = None
    encrypted_content: str | None = None


class _CachedTokens(msgspec.Struct, gc=False):
    cached_tokens: int | None = None


class _ReasoningTokens(msgspec.Struct, gc=False):
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _CachedTokens | None = None
    output_tokens_details: _ReasoningTokens | None = None


class _Incomplete(msgspec.Struct, gc=False):
    reason: str | None = None


class _Response(msgspec.Struct, gc=False):
    status: str | None = None
    output: list[_Item] | None = None
    usage: _Usage | None = None
    incomplete_details: _Incomplete | None = None


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    delta: str | None = None
    arguments: str | None = None
    item: _Item | None = None
    item_id: str | None = None
    output_index: int | None = None
    summary_index: int = 0
    response: _Response | None = None
    object: str = ""


_decode = msgspec.json.Decoder(_Event).decode
_decode_response = msgspec.json.Decoder(_Response).decode


class ResponsesDecoder:
    """Owns one reply while it comes in."""

    __slots__ = (
        "_indexes",
        "_positions",
        "_reply",
        "_stop",
        "_target",
        "_reasoning",
        "_streamed",
        "_usage",
    )

    def __init__(self, *, request: ModelRequest, target: ModelTarget) -> None:
        self._target = target
        self._reply = ReplyBuilder(request=request, target=target)
        self._reasoning: list[Reasoning] = []
        self._indexes: dict[str, int] = {}  # of servers that name items and do not count them
        self._positions: dict[int, tuple[int, int]] = {}  # of thoughts: text and calls before them
        self._streamed: set[int] = set()  # items whose text came in pieces
        self._stop: StopReason | None = None
        self._usage = Usage()

    @property
    def finished(self) -> bool:
        return self._stop is not None

    @property
    def ended(self) -> bool:
        return self._stop is not None

    def feed(self, payloads: Iterable[bytes]) -> list[ModelEvent]:
        for payload in payloads:
            event = decode_payload(_decode, payload, self._target)
            kind = event.type
            if kind == "response.output_text.delta" and event.delta:
                self._streamed.add(self._index(event))
                self._reply.text.append(event.delta)
            elif kind.endswith(".delta"):
                self._handle_delta(event)
            else:
                self._handle(event, payload)
        return self._reply.new_events()

    def complete(self, *, ended: bool) -> Completed:
        if self._stop is None and not (ended and self._reply):
            raise errors.truncated_error(self._target)
        stop = self._stop or StopReason.END
        return self._reply.build(stop=stop, reasoning=tuple(self._reasoning), usage=self._usage)

    def _handle_delta(self, event: _Event) -> None:
        if not event.delta:
            return
        match event.type:
            case "response.function_call_arguments.delta":
                self._reply.calls.append(self._index(event), event.delta)
            case "response.refusal.delta":
                self._streamed.add(self._index(event))
                self._reply.text.append(event.delta)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                self._reply.reasoning_text.append(event.delta)

    def _handle(self, event: _Event, payload: bytes) -> None:
        match event.type:
            case "response.output_item.added" if event.item is not None:
                self._begin_item(event.item, self._index(event))
            case "response.output_item.done" if event.item is not None:
                self._end_item(event.item, self._index(event))
            case "response.function_call_arguments.done" if event.arguments:
                self._reply.calls.set_arguments(self._index(event), event.arguments)
            case "response.reasoning_summary_part.added" if event.summary_index:
                self._reply.reasoning_text.append("\n\n")
            case "response.completed" | "response.incomplete" if event.response is not None:
                self._finish(event.response)
            case "response.failed" | "error":
                raise errors.provider_error(self._target, _extract_error(payload, self._target))
            case "":
                self._handle_unstreamed(event, payload)

    def _handle_unstreamed(self, event: _Event, payload: bytes) -> None:
        """An answer in one piece, or an error where an answer should be."""
        if event.object != "response":
            raise errors.provider_error(self._target, payload)
        response = decode_payload(_decode_response, payload, self._target)
        if response.status == "failed":
            raise errors.provider_error(self._target, payload)
        for index, item in enumerate(response.output or ()):
            self._begin_item(item, index)
            self._end_item(item, index)
        self._finish(response)

    def _begin_item(self, item: _Item, index: int) -> None:
        if item.type == "function_call":
            self._reply.calls.begin(index, id=item.call_id or item.id or "", name=item.name or "")
        elif item.type == "reasoning":
            self._positions[index] = sum(map(len, self._reply.text)), len(self._reply.calls)

    def _end_item(self, item: _Item, index: int) -> None:
        if item.type == "function_call":
            self._begin_item(item, index)
            if item.arguments:
                self._reply.calls.set_arguments(index, item.arguments)
        elif item.type == "reasoning":
            self._add_reasoning(item, index)
        elif item.type == "message" and index not in self._streamed:
            self._reply.text += [part.text or part.refusal for part in item.content or ()]

    def _add_reasoning(self, item: _Item, index: int) -> None:
        """What can be returned: encrypted, or in clear as open models think. An id alone is
        good only at a provider that kept the item, and it was asked not to."""
        shown = "\n\n".join(part.text for part in item.summary or item.content or ())
        part: dict[str, Any] = {"type": "reasoning", "summary": _parts(item.summary)}
        if item.content:
            part["content"] = _parts(item.content)
        if item.encrypted_content:
            part["encrypted_content"] = item.encrypted_content
        if len(part) > 2:
            text, calls = self._positions.get(index, (0, 0))
            self._reasoning.append(
                positioned_reasoning(part, visible=shown, text=text, calls=calls)
            )
        elif shown:
            self._reasoning.append(Reasoning(text=shown))

    def _finish(self, response: _Response) -> None:
        if response.usage is not None:
            self._usage = _usage(response.usage)
        why = response.incomplete_details.reason if response.incomplete_details else None
        if why == "content_filter":
            self._stop = StopReason.FILTERED
        else:
            self._stop = StopReason.LENGTH if why else StopReason.END

    def _index(self, event: _Event) -> int:
        if event.output_index is not None:
            return event.output_index
        item = event.item
        name = event.item_id or (item is not None and (item.id or item.call_id)) or ""
        return self._indexes.setdefault(name, len(self._indexes))


def _parts(parts: list[_Part] | None) -> list[dict[str, str]]:
    return [{"type": part.type, "text": part.text} for part in parts or ()]


class _Failed(msgspec.Struct, gc=False):
    response: "_Failed | None" = None
    error: msgspec.Raw = msgspec.Raw(b"")


_decode_failed = msgspec.json.Decoder(_Failed).decode


def _extract_error(payload: bytes, target: ModelTarget) -> bytes:
    """The error object of an event, which stands in it, or in the response in it."""
    failed = decode_payload(_decode_failed, payload, target)
    error = failed.response.error if failed.response is not None else failed.error
    return b'{"error":' + bytes(error) + b"}" if error else payload


def _usage(usage: _Usage) -> Usage:
    cached, thought = usage.input_tokens_details, usage.output_tokens_details
    return Usage(
        input_tokens=usage.input_tokens or 0,
        output_tokens=usage.output_tokens or 0,
        cached_tokens=(cached.cached_tokens or 0) if cached is not None else 0,
        reasoning_tokens=(thought.reasoning_tokens or 0) if thought is not None else 0,
    )
