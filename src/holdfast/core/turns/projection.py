"""The model request as a validated projection of the transcript.

Any history, however it was cut, becomes one that every provider accepts. The transcript itself is
never changed for it.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from holdfast.core.ids import CallId
from holdfast.core.messages.transcript import (
    AssistantMessage,
    Image,
    Message,
    NoteMessage,
    StopReason,
    ToolCall,
    ToolMessage,
    ToolOutcome,
    UserMessage,
)
from holdfast.core.turns.compaction import estimate_tokens, visible_messages

NO_RESULT = "No result of this call is recorded. It may or may not have had an effect: check."
RESULT_OMITTED = "[This result was left out to make room. Call the tool again if it is needed.]"
FILES_OMITTED = "[The contents of the files were left out to make room. They are in the workspace.]"
TRUNCATED_NOTE = NoteMessage(text="[System note: what came before this is not shown.]")
CONTINUE_NOTE = NoteMessage(text="[System note: continue from here.]")
REPLY_STOPPED = "[The user stopped this reply here.]"
EMPTY_MESSAGE = "(empty message)"
RESULT_IMAGES = "[The pictures of the results above.]"


def project(messages: Sequence[Message], *, skipped: int = 0) -> tuple[Message, ...]:
    """The transcript as a valid conversation: it neither begins nor ends with the model, and each
    call is followed, in order, by exactly one result. What a compaction covers is replaced by its
    summary, in the same bytes every time.

    `messages` is the transcript without its first `skipped` ones, which a compaction covers.
    """
    projected = list(messages)
    if not _needs_no_repair(messages):
        shown = list(visible_messages(messages, skipped=skipped))
        projected = list(_project_messages(shown, _first_results(shown)))
    if projected and not isinstance(projected[0], UserMessage | NoteMessage):
        projected.insert(0, TRUNCATED_NOTE)
    if not projected or isinstance(projected[-1], AssistantMessage):
        projected.append(CONTINUE_NOTE)
    return tuple(projected)


def trim_projection(messages: Sequence[Message], *, excess: int) -> tuple[Message, ...]:
    """A projection that takes about `excess` tokens less: the oldest tool results, and the contents
    of attached files, are each replaced as a whole by a line that says so. The last resort, if no
    summary could be made."""
    light = list(messages)
    for index, message in enumerate(light):
        if excess <= 0:
            break
        light[index] = _trim_message(message)
        excess -= estimate_tokens(message) - estimate_tokens(light[index])
    return tuple(light)


def _trim_message(message: Message) -> Message:
    if isinstance(message, ToolMessage) and len(message.text) > len(RESULT_OMITTED):
        return msgspec.structs.replace(message, text=RESULT_OMITTED)
    if isinstance(message, UserMessage) and len(message.documents or "") > len(FILES_OMITTED):
        return msgspec.structs.replace(message, documents=FILES_OMITTED)
    return message


def open_calls(messages: Sequence[Message]) -> tuple[ToolCall, ...]:
    """The calls of the last model reply that have no result yet, in order."""
    done: set[CallId] = set()
    for message in reversed(messages):
        match message:
            case ToolMessage():
                done.add(message.call_id)
            case AssistantMessage():
                return tuple(call for call in message.calls if call.id not in done)
            case _:
                continue
    return ()


def projection_problems(messages: Sequence[Message]) -> list[str]:
    """Why a provider would refuse this conversation; empty for every projection."""
    found: list[str] = []
    if not messages or not isinstance(messages[0], UserMessage | NoteMessage):
        found.append("does not begin with a user")
    if messages and isinstance(messages[-1], AssistantMessage):
        found.append("ends with the model")
    open_calls: list[CallId] = []
    for index, message in enumerate(messages):
        found.extend(f"message {index}: {why}" for why in _message_problems(message, open_calls))
        if isinstance(message, ToolMessage):
            open_calls = open_calls[1:]
        elif isinstance(message, AssistantMessage):
            open_calls = [call.id for call in message.calls]
    if open_calls:
        found.append("ends before every call has its result")
    return found


def _message_problems(message: Message, pending: Sequence[CallId]) -> Iterator[str]:
    if isinstance(message, ToolMessage):
        if not pending or pending[0] != message.call_id:
            yield "a result without a call"
        return
    if isinstance(message, AssistantMessage):
        yield from _reply_problems(message)
    if isinstance(message, UserMessage) and not message.text and not message.images:
        yield "an empty user message"
    if pending:
        yield "between a call and its result"


def _reply_problems(message: AssistantMessage) -> Iterator[str]:
    if not message.text and not message.calls:
        yield "an empty model reply"
    if len({call.id for call in message.calls}) != len(message.calls):
        yield "two calls with one id"
    if any(not _is_json_object(call.arguments) or not call.name for call in message.calls):
        yield "a call without a name or with arguments that are not a JSON object"


def _needs_no_repair(messages: Iterable[Message]) -> bool:
    """Whether every message is valid by itself, whatever surrounds it. Nearly all are, and every
    model call checks all of them again, so this is one loop without a call for each."""
    for message in messages:
        if not message.text:
            return False
        if isinstance(message, AssistantMessage):
            if message.calls or message.stop is StopReason.STOPPED:
                return False
        elif not isinstance(message, UserMessage):
            return False
    return True


def _project_messages(
    messages: Iterable[Message], results: dict[CallId, ToolMessage]
) -> Iterator[Message]:
    for message in messages:
        match message:
            case ToolMessage():
                continue  # it belongs after its call, wherever the transcript has it
            case AssistantMessage():
                yield from _project_reply(message, results)
            case UserMessage() if not message.text and not message.images:
                yield msgspec.structs.replace(message, text=EMPTY_MESSAGE)
            case _:
                yield message


def _project_reply(
    message: AssistantMessage, results: dict[CallId, ToolMessage]
) -> Iterator[Message]:
    if not message.calls:
        if message.stop is StopReason.STOPPED:
            text = f"{message.text}\n\n{REPLY_STOPPED}"
            message = msgspec.structs.replace(message, text=text, stop=StopReason.END)
        if message.text:
            yield message
        return
    calls = _repair_calls(message.calls)
    yield message if calls == message.calls else msgspec.structs.replace(message, calls=calls)
    images: list[Image] = []
    for call in calls:
        # Popped, not read: an id that a later reply reuses has no result yet.
        result = results.pop(call.id, None) or _no_result(call)
        images.extend(result.images)
        yield msgspec.structs.replace(result, images=()) if result.images else result
    if images:
        # Not in the results: some providers accept only text there.
        yield UserMessage(text=RESULT_IMAGES, images=tuple(images))


def _no_result(call: ToolCall) -> ToolMessage:
    return ToolMessage(call_id=call.id, name=call.name, text=NO_RESULT, outcome=ToolOutcome.UNKNOWN)


def _first_results(messages: Iterable[Message]) -> dict[CallId, ToolMessage]:
    results: dict[CallId, ToolMessage] = {}
    for message in messages:
        if isinstance(message, ToolMessage):
            results.setdefault(message.call_id, message)
    return results


def _repair_calls(calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
    """The same calls if they are valid; duplicates are dropped, invalid ones repaired."""
    unique = {call.id: call for call in reversed(calls)}
    unique_calls = calls if len(unique) == len(calls) else tuple(reversed(unique.values()))
    return tuple(_repair_call(call) for call in unique_calls)


def _repair_call(call: ToolCall) -> ToolCall:
    if call.name and _is_json_object(call.arguments):
        return call
    arguments = call.arguments
    if not _is_json_object(arguments):
        whole = arguments.encode("utf-8", "replace").decode()  # half characters are not JSON
        arguments = msgspec.json.encode({"malformed": whole}).decode()
    return msgspec.structs.replace(call, name=call.name or "unnamed", arguments=arguments)


def _is_json_object(arguments: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(arguments), dict)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return False
