"""The codec of OpenAI's Responses API: request, input items and stream.

The provider stores nothing (`store` is false): reasoning comes back encrypted, and is returned
with the next request.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from holdfast.core.messages.transcript import (
    AssistantMessage,
    Image,
    NoteMessage,
    Reasoning,
    StopReason,
    ToolCall,
    ToolMessage,
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
from holdfast.models.target import EffortField, ModelTarget

_Json = dict[str, Any]


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
        "_reasoning",
        "_reply",
        "_stop",
        "_streamed",
        "_target",
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
    """The error object of an event: in the event itself, or in its response."""
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


def encode_input(request: ModelRequest, *, model: str) -> list[Any]:
    """The input items of a request; the system prompt is not among them."""
    transcript = _Transcript(model=model)
    for message in request.messages:
        match message:
            case UserMessage():
                transcript.add_user(_user_content(message))
            case NoteMessage():
                transcript.add_user([_text(text_or(message.text, default="(empty note)"))])
            case AssistantMessage():
                transcript.add_assistant(message)
            case ToolMessage():
                transcript.add_result(message)
    return transcript.items


class _Transcript:
    """Owns the items made so far; users' neighbouring messages are one, for the templates of
    open models that insist on it."""

    def __init__(self, *, model: str) -> None:
        self.items: list[Any] = []
        self._model = model
        self._ids = CallIds()

    def add_user(self, content: list[_Json]) -> None:
        last = self.items[-1] if self.items else None
        if isinstance(last, dict) and last.get("role") == "user":
            last["content"] += content
        else:
            self.items.append({"type": "message", "role": "user", "content": content})

    def add_assistant(self, message: AssistantMessage) -> None:
        self._ids.begin_reply()
        thoughts: list[msgspec.Raw] = []  # one that led to nothing would be refused
        for part in parts_in_order(message, include_reasoning=message.model == self._model):
            if isinstance(part, ReasoningPart):
                if part.part.startswith(b'{"type":"reasoning"'):
                    thoughts.append(msgspec.Raw(part.part))
            elif isinstance(part, ToolCall) or part.strip():
                self.items += thoughts
                self.items.append(
                    self._call(part) if isinstance(part, ToolCall) else _assistant_message(part)
                )
                thoughts.clear()
        if not message.calls and not message.text.strip():
            self.items.append(_assistant_message(NO_ANSWER))

    def add_result(self, message: ToolMessage) -> None:
        call_id = self._ids.for_result(message.call_id)
        output = result_text(message)
        self.items.append({"type": "function_call_output", "call_id": call_id, "output": output})

    def _call(self, call: ToolCall) -> _Json:
        return {
            "type": "function_call",
            "call_id": self._ids.for_call(call.id),
            "name": valid_tool_name(call.name),
            "arguments": valid_arguments(call.arguments),
        }


def _assistant_message(text: str) -> _Json:
    content = [{"type": "output_text", "text": text}]
    return {"type": "message", "role": "assistant", "content": content}


def _user_content(message: UserMessage) -> list[_Json]:
    text = user_text(message)
    if not message.images:
        return [_text(text or "(empty message)")]
    return [*([_text(text)] if text else ()), *map(_image, message.images)]


def _text(text: str) -> _Json:
    return {"type": "input_text", "text": text}


def _image(image: Image) -> _Json:
    url = image_url_of(image)
    if url is None:
        return _text(IMAGE_PLACEHOLDER)
    return {"type": "input_image", "image_url": url, "detail": "auto"}


class ResponsesCodec:
    """Encodes requests and decodes replies; owns the cache of encoded tool lists."""

    path = "/responses"

    def __init__(self) -> None:
        self._prompts = PromptCache()
        self._tools = ToolListCache(_encode_tools)

    def headers(self, target: ModelTarget) -> Mapping[str, str]:
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        if target.api_key is not None:
            headers["Authorization"] = f"Bearer {target.api_key.reveal()}"
        return headers

    def encode(self, request: ModelRequest, target: ModelTarget) -> bytes:
        body: dict[str, Any] = {
            "model": target.name,
            "input": encode_input(request, model=target.name),
            "stream": True,
            "store": False,
        }
        if request.system:
            body["instructions"] = self._prompts.get(request.system)
        if request.tools:
            body["tools"] = self._tools.get(request.tools)
        if request.max_output_tokens is not None:
            body["max_output_tokens"] = request.max_output_tokens
        if target.effort_field is not EffortField.NONE:
            # A model that does not reason refuses to be asked for its encrypted thoughts.
            body["include"] = ["reasoning.encrypted_content"]
            if (effort := target.effort(request.reasoning)) is not None:
                body["reasoning"] = {"effort": effort}
        return encode_json(body)

    def decoder(self, request: ModelRequest, target: ModelTarget) -> ResponsesDecoder:
        return ResponsesDecoder(request=request, target=target)


def _encode_tools(tools: tuple[ToolSchema, ...]) -> list[dict[str, Any]]:
    return [
        {
            "type": "function",
            "name": schema.name,
            "description": schema.description,
            "parameters": schema.parameters,
            "strict": False,  # the default here, and a mode that few schemas fit into
        }
        for schema in tools
    ]
