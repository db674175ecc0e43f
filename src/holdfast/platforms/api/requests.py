"""Parses OpenAI requests (chat completions and Responses) into the inbound message, its history,
instructions and files.

Fields that are not named here are ignored.
"""

import base64
import binascii
import mimetypes
import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from holdfast.core.ids import CallId, InboxId
from holdfast.core.messages.inbox import BusyMode, Inbound
from holdfast.core.messages.source import ATTACHED_PREFIX, Attachment, Source
from holdfast.core.messages.transcript import (
    AssistantMessage,
    Image,
    Message,
    ToolCall,
    ToolMessage,
    ToolOutcome,
    UserMessage,
)
from holdfast.core.people.api_tokens import ApiClient
from holdfast.core.turns.projection import NO_RESULT, open_calls
from holdfast.platforms.api.http import OpenAiError, bad_request

T = TypeVar("T")

SESSION_HEADER = "X-Holdfast-Session"
MESSAGE_ID_HEADER = "X-Holdfast-Message-Id"
_MAX_HEADER_LENGTH = 200

# https://platform.openai.com/docs/guides/pdf-files: `file` in a chat, `input_file` in a response.
FILE_TYPES = frozenset({"file", "input_file"})
_TEXT_TYPES = {"text", "input_text", "output_text", "refusal"}
_IMAGE_TYPES = {"image_url", "input_image"}
_FILE_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w.+=-]+)*;base64,", re.ASCII)
_IMAGE_DATA_URL = re.compile(r"data:(image/[\w.+-]+);base64,", re.ASCII)
_ERROR_PATH = re.compile(r" - at `\$\.?(.*)`$")

NO_TOOLS = (
    "`tools` in a request are not supported: the agent behind this gateway has its own "
    "tools and runs them itself. Leave `tools` out."
)
NO_FORMAT = "only plain text answers are supported: leave `{param}` out."
NO_CONVERSATION = (
    "`conversation` is not supported: name the session in the header X-Holdfast-Session, "
    "or continue a response with `previous_response_id`."
)
NO_BACKGROUND = (
    "`background` is not needed: an answer is stored whether or not you wait for it. Leave "
    "it out and fetch /v1/responses/{id}."
)


class ImageUrl(msgspec.Struct, frozen=True):
    url: str


class FilePart(msgspec.Struct, frozen=True, kw_only=True):
    filename: str = ""
    file_data: str = ""


class ContentPart(FilePart, frozen=True, kw_only=True):
    """A piece of content, with the fields of either API."""

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


Content = str | list[ContentPart] | None


class RequestFile(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    data: bytes


def extract_files(content: Content, path: str) -> tuple[RequestFile, ...]:
    if not content or isinstance(content, str):
        return ()
    return tuple(
        _parse_file(part, f"{path}.content[{number}]", number)
        for number, part in enumerate(content)
        if part.type in FILE_TYPES
    )


def describe_past_files(content: Content) -> str:
    """A note for files in the history of a request, which are not stored again."""
    parts = [] if not content or isinstance(content, str) else content
    names = [_file_part(part).filename or "a file" for part in parts if part.type in FILE_TYPES]
    return f"[Attached then, not available now: {', '.join(names)}]" if names else ""


def to_attachments(files: tuple[RequestFile, ...]) -> tuple[Attachment, ...]:
    return tuple(_to_attachment(file) for file in files)


def _to_attachment(file: RequestFile) -> Attachment:
    async def fetch() -> bytes:
        return file.data

    return Attachment(name=file.name, size=len(file.data), fetch=fetch)


def _file_part(part: ContentPart) -> FilePart:
    """The file fields. In a chat they are an object of their own, in a response they are fields of
    the part."""
    return part.file if part.file is not None else part


def _parse_file(part: ContentPart, path: str, number: int) -> RequestFile:
    file = _file_part(part)
    if not file.file_data:
        raise bad_request(
            f"{path}: a file must contain its data, as base64 in `file_data`; uploaded "
            "files (`file_id`) and URLs (`file_url`) are not supported.",
            param=path,
        )
    head = _FILE_DATA_URL.match(file.file_data)
    try:
        encoded = file.file_data[head.end() :] if head else file.file_data
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise bad_request(f"{path}: the base64 data of the file is invalid.", param=path) from None
    extension = mimetypes.guess_extension(head[1]) if head and head[1] else None
    return RequestFile(name=file.filename or f"file-{number + 1}{extension or ''}", data=data)


def extract_text(content: Content, path: str, *, files: bool = False) -> str:
    """The text of a content. With `files`, file parts are allowed, and contribute no text."""
    if isinstance(content, str):
        return content
    known = _TEXT_TYPES | _IMAGE_TYPES | (FILE_TYPES if files else set())
    for number, part in enumerate(content or ()):
        if part.type not in known:
            where = f"{path}.content[{number}]"
            raise bad_request(
                f"{where}: a part of type {part.type!r} is not supported.", param=where
            )
    return "\n".join(
        part.text or part.refusal for part in content or () if part.type in _TEXT_TYPES
    )


def extract_images(content: Content, path: str) -> tuple[Image, ...]:
    if not content or isinstance(content, str):
        return ()
    return tuple(
        _parse_image(part, f"{path}.content[{number}].image_url")
        for number, part in enumerate(content)
        if part.type in _IMAGE_TYPES
    )


def _parse_image(part: ContentPart, path: str) -> Image:
    url = part.image_url.url if isinstance(part.image_url, ImageUrl) else part.image_url or ""
    if found := _IMAGE_DATA_URL.match(url):
        data = url[found.end() :]
        try:
            base64.b64decode(data, validate=True)
        except ValueError:
            raise bad_request(
                f"{path}: the base64 data of the image is invalid.", param=path
            ) from None
        return Image(media_type=found[1], data=data)
    if url.startswith(("https://", "http://")):
        return Image(url=url)
    raise bad_request(
        f"{path}: an image must be a data URL (`data:image/png;base64,…`) or an http(s) URL.",
        param=path,
    )


class ApiConversation(msgspec.Struct, frozen=True, kw_only=True):
    """The message to answer, with the history and instructions of the request."""

    message: UserMessage
    history: tuple[Message, ...] = ()
    instructions: str = ""
    files: tuple[RequestFile, ...] = ()  # of the message to answer


class MessageWithFiles(msgspec.Struct, frozen=True, kw_only=True):
    """A user's message with files."""

    message: UserMessage
    files: tuple[RequestFile, ...]
    file_names: str

    @property
    def as_history(self) -> UserMessage:
        """The message without its files, which are named in its text."""
        text = "\n\n".join(each for each in (self.message.text, self.file_names) if each.strip())
        return msgspec.structs.replace(self.message, text=text)


def parse_chat_request(body: bytes) -> tuple[ChatRequest, ApiConversation]:
    request = _decode(body, _CHAT_REQUESTS)
    if request.tools or request.functions:
        raise bad_request(NO_TOOLS, param="tools", code="unsupported_parameter")
    if request.n not in (None, 1):
        raise bad_request("only one answer is supported: leave `n` out.", param="n")
    if (request.response_format or {}).get("type", "text") != "text":
        raise bad_request(NO_FORMAT.format(param="response_format"), param="response_format")
    parsed = [
        _parse_message(message, f"messages[{n}]") for n, message in enumerate(request.messages)
    ]
    return request, _to_conversation(parsed, "messages")


def parse_responses_request(body: bytes) -> tuple[ResponsesRequest, ApiConversation]:
    request = _decode(body, _RESPONSES_REQUESTS)
    _check_supported(request)
    if isinstance(request.input, str):
        parsed: list[str | Message | MessageWithFiles] = [UserMessage(text=request.input)]
    else:
        parsed = [_parse_item(item, f"input[{n}]") for n, item in enumerate(request.input)]
    return request, _to_conversation([request.instructions or "", *parsed], "input")


_CHAT_REQUESTS = msgspec.json.Decoder(ChatRequest)
_RESPONSES_REQUESTS = msgspec.json.Decoder(ResponsesRequest)


def _decode(body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        found = _ERROR_PATH.search(str(error))
        param = found[1] if found else None
        raise bad_request(f"the request is invalid: {error}", param=param) from None
    except RecursionError:
        raise bad_request("the request is nested too deeply.", code="invalid_json") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(f"the request is not valid JSON: {error}", code="invalid_json") from None


def _check_supported(request: ResponsesRequest) -> None:
    if request.tools:
        raise bad_request(NO_TOOLS, param="tools", code="unsupported_parameter")
    text_format = (request.text or {}).get("format")
    if isinstance(text_format, dict) and text_format.get("type", "text") != "text":
        raise bad_request(NO_FORMAT.format(param="text.format"), param="text.format")
    if request.background:
        raise bad_request(NO_BACKGROUND, param="background", code="unsupported_parameter")
    if request.conversation is not None:
        raise bad_request(NO_CONVERSATION, param="conversation", code="unsupported_parameter")


def _to_conversation(
    parsed: Sequence[str | Message | MessageWithFiles], param: str
) -> ApiConversation:
    """Plain strings are instructions, at any position; the last message must be a user's."""
    messages = [one for one in parsed if not isinstance(one, str)]
    last = messages[-1] if messages else None
    message, files = (
        (last.message, last.files) if isinstance(last, MessageWithFiles) else (last, ())
    )
    if not isinstance(message, UserMessage):
        raise bad_request(f"the last of `{param}` must be a user's message.", param=param)
    if not message.images and not files and not message.text.strip():
        raise bad_request(f"the last of `{param}` is empty.", param=param)
    history = [
        one.as_history if isinstance(one, MessageWithFiles) else one for one in messages[:-1]
    ]
    return ApiConversation(
        message=message,
        files=files,
        history=(*history, *_missing_tool_results(history)),
        instructions="\n\n".join([one for one in parsed if isinstance(one, str) and one]),
    )


def _missing_tool_results(history: Sequence[Message]) -> Iterable[ToolMessage]:
    """An agent runs calls without results; those in the history of a request must not run."""
    return [
        ToolMessage(call_id=call.id, name=call.name, text=NO_RESULT, outcome=ToolOutcome.UNKNOWN)
        for call in open_calls(history)
    ]


def _parse_message(message: ChatMessage, path: str) -> str | Message | MessageWithFiles:
    text = extract_text(message.content, path, files=message.role == "user")
    match message.role:
        case "system" | "developer":
            return text
        case "user":
            return _parse_user_message(text, message.content, path)
        case "assistant":
            calls = (
                ToolCall(id=CallId(c.id), name=c.function.name, arguments=c.function.arguments)
                for c in message.tool_calls or ()
            )
            return AssistantMessage(text=text, calls=tuple(calls))
        case "tool":
            return ToolMessage(call_id=CallId(message.tool_call_id), name="", text=text)
    raise bad_request(
        f"{path}.role: unknown role {message.role!r}; known are system, developer, user, "
        "assistant and tool.",
        param=f"{path}.role",
    )


def _parse_user_message(text: str, content: Content, path: str) -> Message | MessageWithFiles:
    message = UserMessage(text=text, images=extract_images(content, path))
    files = extract_files(content, path)
    return (
        MessageWithFiles(message=message, files=files, file_names=describe_past_files(content))
        if files
        else message
    )


def _parse_item(item: ResponsesItem, path: str) -> str | Message | MessageWithFiles:
    match item.type:
        case "message":
            return _parse_message(ChatMessage(role=item.role, content=item.content), path)
        case "function_call":
            call = ToolCall(id=CallId(item.call_id), name=item.name, arguments=item.arguments)
            return AssistantMessage(calls=(call,))
        case "function_call_output":
            output = item.output
            text = output if isinstance(output, str) else msgspec.json.encode(output).decode()
            return ToolMessage(call_id=CallId(item.call_id), name="", text=text)
        case "reasoning":
            return ""  # the reasoning of another model cannot be read by ours
    raise bad_request(
        f"{path}.type: an item of type {item.type!r} is not supported.", param=f"{path}.type"
    )


def validate_header(value: str | None, name: str) -> str | None:
    """The value of a header, if it is present and valid as a name."""
    if value is None:
        return None
    if not value or len(value) > _MAX_HEADER_LENGTH or not value.isprintable():
        raise bad_request(
            f"{name} must be 1 to {_MAX_HEADER_LENGTH} printable characters.", param=name
        )
    return value


def to_inbound(
    conversation: ApiConversation,
    *,
    session: str | None,
    message_id: str,
    language: str = "",
    client: ApiClient | None = None,
) -> Inbound:
    """Convert the request. Without a session it is a conversation of its own, whose history is the
    one in the request. Equal names of two clients name two sessions."""
    prefix = "" if client is None else client.chat_prefix
    chat_id = prefix + (f"session/{session}" if session else f"request/{message_id}")
    # Quoted, because otherwise message c of session a/b would equal message b/c of session a.
    quoted = f"{prefix}session/{quote(session or '', safe='')}/{message_id}"
    event_id = quoted if session else chat_id
    return Inbound(
        source=Source(
            platform="api",
            chat_id=chat_id,
            user_id="owner" if client is None else client.user_id,
            language=language,
        ),
        event_id=event_id,
        message_id=message_id,
        text=conversation.message.text,
        images=conversation.message.images,
        # A program wants each of its requests answered, separately and in order.
        busy_mode=BusyMode.QUEUE,
        mergeable=False,
        commands=session is not None,
        lasting=session is not None,
        history=() if session else conversation.history,
        instructions=conversation.instructions,
    )


def is_same_message(one: Inbound, other: Inbound) -> bool:
    """Whether two requests with one message id ask the same.

    In a session only the message counts, because nothing else of the request is used. Files have
    become a line and pictures after the text.
    """
    if not _has_text(one, other.text) or one.images[: len(other.images)] != other.images:
        return False
    if one.commands:  # in a session
        return True
    return (one.history, one.instructions) == (other.history, other.instructions)


def _has_text(stored: Inbound, text: str) -> bool:
    files = f"{text}\n\n{ATTACHED_PREFIX}" if text.strip() else ATTACHED_PREFIX
    return stored.text == text or stored.text.startswith(files)


def response_id(inbox_id: InboxId) -> str:
    return f"resp_{inbox_id}"


def parse_response_id(response: str) -> InboxId:
    number = response.removeprefix("resp_")
    if not (number.isascii() and number.isdigit() and len(number) < 19):
        raise response_not_found(response)
    return InboxId(int(number))


def response_not_found(response: str) -> OpenAiError:
    return OpenAiError(404, f"response {response!r} does not exist.", code="not_found")
