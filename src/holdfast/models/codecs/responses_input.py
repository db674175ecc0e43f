"""The transcript as input items of the Responses API, such that every provider takes it."""

from typing import Any

import msgspec

from holdfast.core.messages.message import (
    AssistantMessage,
    Image,
    NoteMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from holdfast.core.turns.model import ModelRequest
from holdfast.models.codecs.placed import ReasoningPart, parts_in_order
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
