"""The shapes of OpenAI requests: what is read of them. What is not named here is ignored."""

from typing import Any

import msgspec


class ImageUrl(msgspec.Struct, frozen=True):
    url: str


class FilePart(msgspec.Struct, frozen=True, kw_only=True):
    filename: str = ""
    file_data: str = ""


class ContentPart(FilePart, frozen=True, kw_only=True):
    """A piece of content, in the words of either API."""

    type: str
    file: FilePart | None = None
    text: str = ""
    refusal: str = ""
    image_url: ImageUrl | str | None = None


class RequestFunction(msgspec.Struct, frozen=True):
    name: str = ""
    arguments: str = "{}"


class RequestToolCall(msgspec.Struct, frozen=True):
    id: str
    function: RequestFunction = RequestFunction()


class ChatMessage(msgspec.Struct, frozen=True):
    role: str
    content: str | list[ContentPart] | None = None
    tool_calls: list[RequestToolCall] | None = None
    tool_call_id: str = ""


class StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool | None = None


class ChatRequest(msgspec.Struct, frozen=True):
    messages: list[ChatMessage]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = None
    tools: list[Any] | None = None
    functions: list[Any] | None = None
    response_format: dict[str, Any] | None = None


class ResponsesItem(msgspec.Struct, frozen=True):
    """One item of a Responses input: a message, a call, or the output of one."""

    type: str = "message"
    role: str = ""
    content: str | list[ContentPart] | None = None
    call_id: str = ""
    name: str = ""
    arguments: str = "{}"
    output: Any = ""


class ResponsesRequest(msgspec.Struct, frozen=True):
    input: str | list[ResponsesItem]
    instructions: str | None = None
    stream: bool | None = None
    previous_response_id: str | None = None
    tools: list[Any] | None = None
    text: dict[str, Any] | None = None
    background: bool | None = None
    conversation: Any = None
