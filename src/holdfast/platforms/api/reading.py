"""Reading requests: an OpenAI conversation as history, instructions and the message to answer."""

import base64
import re
from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from holdfast.core.ids import CallId
from holdfast.core.message import (
    AssistantMessage,
    Image,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from holdfast.platforms.api.refusals import Refusal, bad
from holdfast.platforms.api.shapes import (
    ChatMessage,
    ChatRequest,
    ImageUrl,
    Item,
    Part,
    ResponsesRequest,
)

_DATA_URL = re.compile(r"data:(image/[\w.+-]+);base64,", re.ASCII)
_TEXTS = {"text", "input_text", "output_text"}
_IMAGES = {"image_url", "input_image"}

NO_TOOLS = (
    "`tools` in a request are not supported: the agent behind this gateway brings its own tools "
    "and runs them itself. Leave `tools` out."
)
NO_FORMAT = "only plain text answers are supported: leave `{param}` out."

T = TypeVar("T")


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """What a request says: the message to answer and what stands before it."""

    asked: UserMessage
    history: tuple[Message, ...] = ()
    instructions: str = ""


def decode(body: bytes, shape: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=shape)
    except msgspec.ValidationError as error:
        raise bad(f"the request does not fit: {error}") from None
    except msgspec.DecodeError as error:
        raise bad(f"the request is not valid JSON: {error}", code="invalid_json") from None


def read_chat(request: ChatRequest) -> Conversation:
    if request.tools or request.functions:
        raise bad(NO_TOOLS, param="tools", code="unsupported_parameter")
    if request.n not in (None, 1):
        raise bad("only one answer is given: leave `n` out.", param="n")
    if (request.response_format or {}).get("type", "text") != "text":
        raise bad(NO_FORMAT.format(param="response_format"), param="response_format")
    return _conversation([_said(message) for message in request.messages], "messages")


def read_responses(request: ResponsesRequest) -> Conversation:
    if request.tools:
        raise bad(NO_TOOLS, param="tools", code="unsupported_parameter")
    if ((request.text or {}).get("format") or {}).get("type", "text") != "text":
        raise bad(NO_FORMAT.format(param="text.format"), param="text")
    if request.background:
        raise bad(
            "`background` is not needed: an answer is kept whether or not you wait for it. "
            "Leave it out and fetch /v1/responses/{id}.",
            param="background",
        )
    if isinstance(request.input, str):
        said: list[str | Message] = [UserMessage(text=request.input)]
    else:
        said = [_item(item) for item in request.input]
    found = _conversation(said, "input")
    instructions = "\n\n".join(filter(None, (request.instructions, found.instructions)))
    return msgspec.structs.replace(found, instructions=instructions)


def _conversation(said: Sequence[str | Message], param: str) -> Conversation:
    """Plain strings are instructions, wherever they stand; the last message must be a user's."""
    messages = [one for one in said if not isinstance(one, str)]
    if not messages or not isinstance(messages[-1], UserMessage):
        raise bad(f"the last of `{param}` must be a user's message.", param=param)
    asked = messages[-1]
    if not asked.text and not asked.images:
        raise bad("the message is empty.", param=param)
    return Conversation(
        asked=asked,
        history=tuple(messages[:-1]),
        instructions="\n\n".join(one for one in said if isinstance(one, str)),
    )


def _said(message: ChatMessage) -> str | Message:
    match message.role:
        case "system" | "developer":
            return _text(message.content)
        case "user":
            return UserMessage(text=_text(message.content), images=_images(message.content))
        case "assistant":
            calls = (
                ToolCall(id=CallId(c.id), name=c.function.name, arguments=c.function.arguments)
                for c in message.tool_calls or ()
            )
            return AssistantMessage(text=_text(message.content), calls=tuple(calls))
        case "tool":
            call_id = CallId(message.tool_call_id)
            return ToolMessage(call_id=call_id, name="", text=_text(message.content))
    raise _unknown("role", message.role)


def _item(item: Item) -> str | Message:
    match item.type:
        case "message":
            return _said(ChatMessage(role=item.role, content=item.content))
        case "function_call":
            call = ToolCall(id=CallId(item.call_id), name=item.name, arguments=item.arguments)
            return AssistantMessage(calls=(call,))
        case "function_call_output":
            text = item.output if isinstance(item.output, str) else str(item.output)
            return ToolMessage(call_id=CallId(item.call_id), name="", text=text)
    raise _unknown("item type", item.type)


def _text(content: str | list[Part] | None) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.text for part in _parts(content) if part.type in _TEXTS)


def _images(content: str | list[Part] | None) -> tuple[Image, ...]:
    parts = () if isinstance(content, str) else _parts(content)
    return tuple(_image(part) for part in parts if part.type in _IMAGES)


def _parts(content: list[Part] | None) -> Iterable[Part]:
    for part in content or ():
        if part.type not in _TEXTS | _IMAGES:
            raise _unknown("content part", part.type)
        yield part


def _image(part: Part) -> Image:
    url = part.image_url.url if isinstance(part.image_url, ImageUrl) else part.image_url or ""
    if found := _DATA_URL.match(url):
        data = url[found.end() :]
        try:
            base64.b64decode(data, validate=True)
        except ValueError:
            raise bad("an image's base64 data is damaged.", param="image_url") from None
        return Image(media_type=found[1], data=data)
    if url.startswith(("https://", "http://")):
        return Image(url=url)
    raise bad("an image must be a data: URL of an image, or an http(s) address.", param="image_url")


def _unknown(what: str, name: str) -> Refusal:
    return bad(f"{what} {name!r} is not supported here.")
