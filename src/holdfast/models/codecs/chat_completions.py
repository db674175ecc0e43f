"""The codec of OpenAI's chat completions: request, transcript and stream.

Reasoning goes back to the model it came from under its own field name, and to no other model.
`Reasoning.opaque` says which: `reasoning_content` or `reasoning` (the text itself, returned
under that name), or a JSON array (`reasoning_details`, returned unchanged).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from holdfast.core.config.settings import Provider
from holdfast.core.messages.transcript import (
    AssistantMessage,
    Image,
    Message,
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
from holdfast.models.codecs.reply import CallFragment, ReplyBuilder, decode_payload
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

    __slots__ = ("_details", "_reasoning_field", "_reply", "_stop", "_target", "_usage")

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
        reasoning = []
        if self._reply.reasoning_text:
            thought = "".join(self._reply.reasoning_text)
            reasoning.append(Reasoning(text=thought, opaque=self._reasoning_field))
        if self._details:
            reasoning.append(Reasoning(opaque=msgspec.json.encode(self._details).decode()))
        return tuple(reasoning)


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


def encode_messages(request: ModelRequest, *, model: str) -> list[_Json]:
    """The messages of a request, the system prompt first."""
    transcript = _Transcript(model=model)
    made = transcript.messages
    if request.system:
        made.append({"role": "system", "content": request.system})
    role = "system"
    for message in request.messages:
        # Every call of a model encodes each message again. Nearly all are text and nothing else,
        # in another role than the one before: they are encoded here, without a call for each.
        text = message.text
        if not text or text.isspace():
            pass
        elif isinstance(message, AssistantMessage):
            if role != "assistant" and not (message.calls or message.reasoning):
                role = "assistant"
                made.append({"role": role, "content": text})
                continue
        elif isinstance(message, UserMessage) and role != "user":
            more = message.images or message.speaker or message.quoted or message.note
            if not (more or message.documents):
                role = "user"
                made.append({"role": role, "content": text})
                continue
        transcript.add(message)
        role = made[-1]["role"] if made else ""
    return made


class _Transcript:
    """Owns the messages made so far, and keeps the roles alternating and the ids unique: the
    templates of several open models insist on the one, Anthropic on the other."""

    def __init__(self, *, model: str) -> None:
        self.messages: list[_Json] = []
        self._model = model
        self._ids = CallIds()

    def add(self, message: Message) -> None:
        match message:
            case UserMessage():
                self.add_user(_user_content(message))
            case AssistantMessage():
                self.add_assistant(message)
            case NoteMessage():
                # Not `system`: several providers take that role only at the very beginning,
                # while every one takes `user`. The note's own opening says who speaks.
                self.add_user(text_or(message.text, default="(empty note)"))
            case ToolMessage():
                self.add_result(message)

    def add_user(self, content: str | list[_Json]) -> None:
        last = self._last("user")
        if last is None:
            self.messages.append({"role": "user", "content": content})
        else:
            last["content"] = [*_parts(last["content"]), *_parts(content)]

    def add_assistant(self, message: AssistantMessage) -> None:
        self._ids.begin_reply()
        wire = self._last("assistant")
        if wire is None:
            wire = {"role": "assistant", "content": None}
            self.messages.append(wire)
        spoken = [text for text in (wire["content"], message.text) if text and text.strip()]
        wire["content"] = "\n\n".join(spoken) or None
        if message.calls:
            wire["tool_calls"] = [self._call(call) for call in message.calls]
        elif not spoken:
            wire["content"] = NO_ANSWER
        if message.model == self._model:
            wire.update(_reasoning(message))

    def add_result(self, message: ToolMessage) -> None:
        call_id, content = self._ids.for_result(message.call_id), result_text(message)
        self.messages.append({"role": "tool", "tool_call_id": call_id, "content": content})

    def _last(self, role: str) -> _Json | None:
        return self.messages[-1] if self.messages and self.messages[-1]["role"] == role else None

    def _call(self, call: ToolCall) -> _Json:
        function = {
            "name": valid_tool_name(call.name),
            "arguments": valid_arguments(call.arguments),
        }
        return {"id": self._ids.for_call(call.id), "type": "function", "function": function}


def _user_content(message: UserMessage) -> str | list[_Json]:
    text = user_text(message)
    if not message.images:
        return text or "(empty message)"
    return [*(_parts(text) if text else ()), *map(_image, message.images)]


def _parts(content: str | list[_Json]) -> list[_Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _image(image: Image) -> _Json:
    url = image_url_of(image)
    if url is None:
        return {"type": "text", "text": IMAGE_PLACEHOLDER}
    return {"type": "image_url", "image_url": {"url": url}}


def _reasoning(message: AssistantMessage) -> Iterator[tuple[str, Any]]:
    for reasoning in message.reasoning:
        opaque = reasoning.opaque or ""
        if opaque in REASONING_FIELDS:
            yield opaque, reasoning.text
        elif opaque.startswith("["):
            yield "reasoning_details", msgspec.Raw(opaque.encode())


class ChatCompletionsCodec:
    """Encodes requests and decodes replies; owns the caches of encoded tool lists and prompts."""

    path = "/chat/completions"

    def __init__(self) -> None:
        self._prompts = PromptCache()
        self._tools = ToolListCache(_encode_tools)

    def headers(self, target: ModelTarget) -> Mapping[str, str]:
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        if target.api_key is not None:
            headers["Authorization"] = f"Bearer {target.api_key.reveal()}"
        return headers

    def encode(self, request: ModelRequest, target: ModelTarget) -> bytes:
        messages = encode_messages(request, model=target.name)
        if request.system:
            messages[0]["content"] = self._prompts.get(request.system)
        body: dict[str, Any] = {
            "model": target.name,
            "messages": messages,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.tools:
            body["tools"] = self._tools.get(request.tools)
        if request.max_output_tokens is not None:
            # OpenAI's reasoning models refuse the old name, most other servers know only it.
            openai = target.provider is Provider.OPENAI
            name = "max_completion_tokens" if openai else "max_tokens"
            body[name] = request.max_output_tokens
        body.update(_effort_fields(request.reasoning, target))
        return encode_json(body)

    def decoder(self, request: ModelRequest, target: ModelTarget) -> ChatDecoder:
        return ChatDecoder(request=request, target=target)


def _encode_tools(tools: tuple[ToolSchema, ...]) -> list[dict[str, Any]]:
    return [
        {
            "type": "function",
            "function": {
                "name": schema.name,
                "description": schema.description,
                "parameters": schema.parameters,
            },
        }
        for schema in tools
    ]


def _effort_fields(effort: str | None, target: ModelTarget) -> dict[str, Any]:
    effort = target.effort(effort)
    if effort is None or target.effort_field is EffortField.NONE:
        return {}
    if target.effort_field is EffortField.REASONING_OBJECT:
        return {"reasoning": {"effort": effort}}
    return {"reasoning_effort": effort}
