"""Reading requests: an OpenAI conversation as history, instructions and the message to answer."""

import re
from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from holdfast.core.ids import CallId
from holdfast.core.messages.message import (
    AssistantMessage,
    Message,
    Outcome,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from holdfast.core.turns.projection import NO_RESULT, open_calls
from holdfast.platforms.api.content import Content, images_of, text_of
from holdfast.platforms.api.files import GivenFile, files_of, names_of
from holdfast.platforms.api.refusals import bad
from holdfast.platforms.api.shapes import ChatMessage, ChatRequest, Item, ResponsesRequest

_PLACE = re.compile(r" - at `\$\.?(.*)`$")

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


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """What a request says: the message to answer and what stands before it."""

    asked: UserMessage
    history: tuple[Message, ...] = ()
    instructions: str = ""
    files: tuple[GivenFile, ...] = ()  # that came with the message to answer


class WithFiles(msgspec.Struct, frozen=True, kw_only=True):
    """What a person said, with files beside it."""

    message: UserMessage
    files: tuple[GivenFile, ...]
    names: str

    @property
    def told(self) -> UserMessage:
        """The same, as a thing of the past."""
        text = "\n\n".join(each for each in (self.message.text, self.names) if each.strip())
        return msgspec.structs.replace(self.message, text=text)


def chat_request(body: bytes) -> tuple[ChatRequest, Conversation]:
    request = _decode(body, ChatRequest)
    if request.tools or request.functions:
        raise bad(NO_TOOLS, param="tools", code="unsupported_parameter")
    if request.n not in (None, 1):
        raise bad("only one answer is given: leave `n` out.", param="n")
    if (request.response_format or {}).get("type", "text") != "text":
        raise bad(NO_FORMAT.format(param="response_format"), param="response_format")
    said = [_said(message, f"messages[{n}]") for n, message in enumerate(request.messages)]
    return request, _conversation(said, "messages")


def responses_request(body: bytes) -> tuple[ResponsesRequest, Conversation]:
    request = _decode(body, ResponsesRequest)
    _check(request)
    if isinstance(request.input, str):
        said: list[str | Message | WithFiles] = [UserMessage(text=request.input)]
    else:
        said = [_item(item, f"input[{n}]") for n, item in enumerate(request.input)]
    return request, _conversation([request.instructions or "", *said], "input")


def _decode(body: bytes, shape: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=shape)
    except msgspec.ValidationError as error:
        found = _PLACE.search(str(error))
        param = found[1] if found else None
        raise bad(f"the request does not fit: {error}", param=param) from None
    except RecursionError:
        raise bad("the request is nested too deeply.", code="invalid_json") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad(f"the request is not valid JSON: {error}", code="invalid_json") from None


def _check(request: ResponsesRequest) -> None:
    if request.tools:
        raise bad(NO_TOOLS, param="tools", code="unsupported_parameter")
    text_format = (request.text or {}).get("format")
    if isinstance(text_format, dict) and text_format.get("type", "text") != "text":
        raise bad(NO_FORMAT.format(param="text.format"), param="text.format")
    if request.background:
        raise bad(NO_BACKGROUND, param="background", code="unsupported_parameter")
    if request.conversation is not None:
        raise bad(NO_CONVERSATION, param="conversation", code="unsupported_parameter")


def _conversation(said: Sequence[str | Message | WithFiles], param: str) -> Conversation:
    """Plain strings are instructions, wherever they stand; the last message must be a user's."""
    messages = [one for one in said if not isinstance(one, str)]
    last = messages[-1] if messages else None
    asked, files = (last.message, last.files) if isinstance(last, WithFiles) else (last, ())
    if not isinstance(asked, UserMessage):
        raise bad(f"the last of `{param}` must be a user's message.", param=param)
    if not asked.images and not files and not asked.text.strip():
        raise bad(f"the last of `{param}` is empty.", param=param)
    history = [one.told if isinstance(one, WithFiles) else one for one in messages[:-1]]
    return Conversation(
        asked=asked,
        files=files,
        history=(*history, *_results_owed(history)),
        instructions="\n\n".join(one for one in said if isinstance(one, str) and one),
    )


def _results_owed(history: Sequence[Message]) -> Iterable[ToolMessage]:
    """What an agent finds open it runs; calls of a past that is merely told are not ours to run."""
    for call in open_calls(history):
        yield ToolMessage(call_id=call.id, name=call.name, text=NO_RESULT, outcome=Outcome.UNKNOWN)


def _said(message: ChatMessage, place: str) -> str | Message | WithFiles:
    text = text_of(message.content, place, files=message.role == "user")
    match message.role:
        case "system" | "developer":
            return text
        case "user":
            return _asked(text, message.content, place)
        case "assistant":
            calls = (
                ToolCall(id=CallId(c.id), name=c.function.name, arguments=c.function.arguments)
                for c in message.tool_calls or ()
            )
            return AssistantMessage(text=text, calls=tuple(calls))
        case "tool":
            return ToolMessage(call_id=CallId(message.tool_call_id), name="", text=text)
    raise bad(
        f"{place}.role: {message.role!r} is no role; there are system, developer, user, "
        "assistant and tool.",
        param=f"{place}.role",
    )


def _asked(text: str, content: Content, place: str) -> Message | WithFiles:
    said = UserMessage(text=text, images=images_of(content, place))
    files = files_of(content, place)
    return WithFiles(message=said, files=files, names=names_of(content)) if files else said


def _item(item: Item, place: str) -> str | Message | WithFiles:
    match item.type:
        case "message":
            return _said(ChatMessage(role=item.role, content=item.content), place)
        case "function_call":
            call = ToolCall(id=CallId(item.call_id), name=item.name, arguments=item.arguments)
            return AssistantMessage(calls=(call,))
        case "function_call_output":
            output = item.output
            text = output if isinstance(output, str) else msgspec.json.encode(output).decode()
            return ToolMessage(call_id=CallId(item.call_id), name="", text=text)
        case "reasoning":
            return ""  # another model's thoughts are sealed to ours
    raise bad(
        f"{place}.type: an item of type {item.type!r} is not supported.", param=f"{place}.type"
    )
