"""The transcript in the words of chat completions, such that every provider takes it.

What a model thought goes back to it under the name it came by, and to no other model.
`Reasoning.opaque` says which: `reasoning_content` or `reasoning` (the text itself, returned
under that name), or a JSON array (`reasoning_details`, returned unchanged).
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.core.message import (
    AssistantMessage,
    Image,
    NoteMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from holdfast.core.model import ModelRequest
from holdfast.models.chat_stream import REASONING_FIELDS

_Wire = dict[str, Any]
_IMAGES = ("https://", "http://", "data:image/")


def projected(request: ModelRequest, *, model: str) -> list[_Wire]:
    """The messages of a request, the system prompt first."""
    transcript = _Transcript(model=model)
    if request.system:
        transcript.messages.append({"role": "system", "content": request.system})
    for message in request.messages:
        match message:
            case UserMessage():
                transcript.add_user(_user_content(message))
            case NoteMessage():
                # Not `system`: several providers take that role only at the very beginning,
                # while every one takes `user`. The note's own opening says who speaks.
                transcript.add_user(_said(message.text, otherwise="(empty note)"))
            case AssistantMessage():
                transcript.add_assistant(message)
            case ToolMessage():
                transcript.add_result(message)
    return transcript.messages


class _Transcript:
    """Owns the messages made so far, and keeps the roles alternating and the ids unique: the
    templates of several open models insist on the one, Anthropic on the other."""

    def __init__(self, *, model: str) -> None:
        self.messages: list[_Wire] = []
        self._model = model
        self._seen: set[str] = set()
        self._renamed: dict[str, str] = {}

    def add_user(self, content: str | list[_Wire]) -> None:
        last = self._last("user")
        if last is None:
            self.messages.append({"role": "user", "content": content})
        else:
            last["content"] = [*_parts(last["content"]), *_parts(content)]

    def add_assistant(self, message: AssistantMessage) -> None:
        self._renamed.clear()
        wire = self._last("assistant")
        if wire is None:
            wire = {"role": "assistant", "content": None}
            self.messages.append(wire)
        said = [text for text in (wire["content"], message.text) if text and text.strip()]
        wire["content"] = "\n\n".join(said) or None
        if message.calls:
            wire["tool_calls"] = [self._call(call) for call in message.calls]
        elif not said:
            wire["content"] = "(no answer)"
        if message.model == self._model:
            wire.update(_reasoning(message))

    def add_result(self, message: ToolMessage) -> None:
        call_id = self._renamed.get(message.call_id, message.call_id)
        content = _said(message.text, otherwise="(no output)")
        self.messages.append({"role": "tool", "tool_call_id": call_id, "content": content})

    def _last(self, role: str) -> _Wire | None:
        return self.messages[-1] if self.messages and self.messages[-1]["role"] == role else None

    def _call(self, call: ToolCall) -> _Wire:
        call_id: str = call.id
        if call_id in self._seen:
            call_id = self._renamed[call.id] = f"{call.id}_{len(self._seen)}"
        self._seen.add(call_id)
        name = call.name if _NAME.fullmatch(call.name) else _ODD.sub("_", call.name)[:64]
        function = {"name": name or "unnamed", "arguments": _valid_arguments(call.arguments)}
        return {"id": call_id, "type": "function", "function": function}


def scrubbed(text: str) -> str:
    """The text without halves of characters, which Python allows and no request does."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _said(text: str, *, otherwise: str) -> str:
    return text if text.strip() else otherwise


def _user_content(message: UserMessage) -> str | list[_Wire]:
    text = f"{message.speaker}: {message.text}" if message.speaker else message.text
    if message.note:
        text = f"{message.note}\n\n{text}"
    if not message.images:
        return _said(text, otherwise="(empty message)")
    return [*(_parts(text) if text.strip() else ()), *map(_image, message.images)]


def _parts(content: str | list[_Wire]) -> list[_Wire]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _image(image: Image) -> _Wire:
    url = image.url if image.data is None else f"data:{image.media_type};base64,{image.data}"
    if url is None or not url.startswith(_IMAGES):
        return {"type": "text", "text": "(an image that cannot be shown)"}
    return {"type": "image_url", "image_url": {"url": url}}


# A name of the model's own invention must not make every later request a bad one.
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ODD = re.compile(r"[^a-zA-Z0-9_-]")
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def _valid_arguments(arguments: str) -> str:
    """Arguments that every provider can parse: one bad call must not spoil a conversation."""
    try:
        _decode_object(arguments)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return msgspec.json.encode({"malformed": scrubbed(arguments)}).decode()
    return arguments


def _reasoning(message: AssistantMessage) -> Iterator[tuple[str, Any]]:
    for reasoning in message.reasoning:
        opaque = reasoning.opaque or ""
        if opaque in REASONING_FIELDS:
            yield opaque, reasoning.text
        elif opaque.startswith("["):
            yield "reasoning_details", msgspec.Raw(opaque.encode())
