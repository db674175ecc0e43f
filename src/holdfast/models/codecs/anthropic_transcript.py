"""The transcript in the words of the Messages API: roles alternate, results stand first."""

import re
from typing import Any

import msgspec

from holdfast.core.messages.message import (
    AssistantMessage,
    Image,
    NoteMessage,
    ToolCall,
    ToolMessage,
    ToolOutcome,
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
