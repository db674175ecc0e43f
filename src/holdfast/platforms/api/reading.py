"""Reading requests: an OpenAI conversation as history, instructions and the message to answer."""

import re
from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from holdfast.core.ids import CallId
from holdfast.core.messages.message import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolMessage,
    ToolOutcome,
    UserMessage,
)
from holdfast.core.turns.projection import NO_RESULT, open_calls
from holdfast.platforms.api.content import Content, extract_images, extract_text
from holdfast.platforms.api.files import RequestFile, describe_past_files, extract_files
from holdfast.platforms.api.refusals import bad_request
from holdfast.platforms.api.shapes import ChatMessage, ChatRequest, ResponsesItem, ResponsesRequest

_ERROR_PATH = re.compile(r" - at `\$\.?(.*)`$")

NO_TOOLS = (
    "`tools` in a request are not supported: the agent behind this gateway brings its own tools "
    "and runs them itself. Leave `tools` out."
)
NO_FORMAT = "only plain text answers are supported: leave `{param}` out."
NO_CONVERSATION = (
    "`conversation` is not supported: name the session in the header X-Holdfast-Session, or go "
    "on from a response with `previous_response_id`."
)
NO_BACKGROUND = (
    "`background` is not needed: an answer is kept whether or not you wait for it. Leave it out "
    "and fetch /v1/responses/{id}."
)

T = TypeVar("T")


class ApiConversation(msgspec.Struct, frozen=True, kw_only=True):
    """What a request says: the message to answer and what stands before it."""

    message: UserMessage
    history: tuple[Message, ...] = ()
    instructions: str = ""
    files: tuple[RequestFile, ...] = ()  # that came with the message to answer


class MessageWithFiles(msgspec.Struct, frozen=True, kw_only=True):
    """What a person said, with files beside it."""

    message: UserMessage
    files: tuple[RequestFile, ...]
    file_names: str

    @property
    def as_history(self) -> UserMessage:
        """The same, as a thing of the past."""
        text = "\n\n".join(each for each in (self.message.text, self.file_names) if each.strip())
        return msgspec.structs.replace(self.message, text=text)


def parse_chat_request(body: bytes) -> tuple[ChatRequest, ApiConversation]:
    request = _decode(body, ChatRequest)
    if request.tools or request.functions:
        raise bad_request(NO_TOOLS, param="tools", code="unsupported_parameter")
    if request.n not in (None, 1):
        raise bad_request("only one answer is given: leave `n` out.", param="n")
    if (request.response_format or {}).get("type", "text") != "text":
        raise bad_request(NO_FORMAT.format(param="response_format"), param="response_format")
    said = [_parse_message(message, f"messages[{n}]") for n, message in enumerate(request.messages)]
    return request, _to_conversation(said, "messages")


def parse_responses_request(body: bytes) -> tuple[ResponsesRequest, ApiConversation]:
    request = _decode(body, ResponsesRequest)
    _check_supported(request)
    if isinstance(request.input, str):
        said: list[str | Message | MessageWithFiles] = [UserMessage(text=request.input)]
    else:
        said = [_parse_item(item, f"input[{n}]") for n, item in enumerate(request.input)]
    return request, _to_conversation([request.instructions or "", *said], "input")


def _decode(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        found = _ERROR_PATH.search(str(error))
        param = found[1] if found else None
        raise bad_request(f"the request does not fit: {error}", param=param) from None
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
    """Plain strings are instructions, wherever they stand; the last message must be a user's."""
    messages = [one for one in parsed if not isinstance(one, str)]
    last = messages[-1] if messages else None
    asked, files = (last.message, last.files) if isinstance(last, MessageWithFiles) else (last, ())
    if not isinstance(asked, UserMessage):
        raise bad_request(f"the last of `{param}` must be a user's message.", param=param)
    if not asked.images and not files and not asked.text.strip():
        raise bad_request(f"the last of `{param}` is empty.", param=param)
    history = [
        one.as_history if isinstance(one, MessageWithFiles) else one for one in messages[:-1]
    ]
    return ApiConversation(
        message=asked,
        files=files,
        history=(*history, *_missing_tool_results(history)),
        instructions="\n\n".join(one for one in parsed if isinstance(one, str) and one),
    )


def _missing_tool_results(history: Sequence[Message]) -> Iterable[ToolMessage]:
    """What an agent finds open it runs; calls of a past that is merely told are not ours to run."""
    for call in open_calls(history):
        yield ToolMessage(
            call_id=call.id, name=call.name, text=NO_RESULT, outcome=ToolOutcome.UNKNOWN
        )


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
        f"{path}.role: {message.role!r} is no role; there are system, developer, user, "
        "assistant and tool.",
        param=f"{path}.role",
    )


def _parse_user_message(text: str, content: Content, path: str) -> Message | MessageWithFiles:
    said = UserMessage(text=text, images=extract_images(content, path))
    files = extract_files(content, path)
    return (
        MessageWithFiles(message=said, files=files, file_names=describe_past_files(content))
        if files
        else said
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
            return ""  # another model's thoughts are sealed to ours
    raise bad_request(
        f"{path}.type: an item of type {item.type!r} is not supported.", param=f"{path}.type"
    )
