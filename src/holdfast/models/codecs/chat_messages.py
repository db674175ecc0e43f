"""The transcript in the words of chat completions, such that every provider takes it.

What a model thought goes back to it under the name it came by, and to no other model.
`Reasoning.opaque` says which: `reasoning_content` or `reasoning` (the text itself, returned
under that name), or a JSON array (`reasoning_details`, returned unchanged).
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.core.messages.message import (
    AssistantMessage,
    Image,
    Message,
    NoteMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from holdfast.core.turns.model import ModelRequest
from holdfast.models.codecs.chat_stream import REASONING_FIELDS
from holdfast.models.codecs.sound import (
    IMAGE_PLACEHOLDER,
    NO_ANSWER,
    CallIds,
    image_url_of,
    result_text,
    text_or,
    user_text,
    valid_arguments,
    valid_tool_name,
)

_Json = dict[str, Any]


def encode_messages(request: ModelRequest, *, model: str) -> list[_Json]:
    """The messages of a request, the system prompt first."""
    transcript = _Transcript(model=model)
    made = transcript.messages
    if request.system:
        made.append({"role": "system", "content": request.system})
    for message in request.messages:
        wire = _plain_message(message)
        if wire is not None and (not made or made[-1]["role"] != wire["role"]):
            made.append(wire)
        else:
            transcript.add(message)
    return made


def _plain_message(message: Message) -> _Json | None:
    """One that is words and nothing else, as nearly all are, and every call of a model looks at
    each of them again. None: there is more to it."""
    text = message.text
    if not text or text.isspace():
        return None
    if isinstance(message, UserMessage):
        more = message.images or message.speaker or message.quoted or message.note
        return None if more or message.documents else {"role": "user", "content": text}
    if isinstance(message, AssistantMessage) and not (message.calls or message.reasoning):
        return {"role": "assistant", "content": text}
    return None


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
