"""The provider request as a validated projection of the log: any history, however cut, is made
one that every provider accepts, and nothing is ever changed in the log for it."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from holdfast.core.ids import CallId
from holdfast.core.messages.message import (
    AssistantMessage,
    Image,
    Message,
    NoteMessage,
    Outcome,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from holdfast.core.turns.compaction import visible
from holdfast.core.turns.tokens import estimate

NO_RESULT = "No result of this call is recorded. It may or may not have had an effect: check."
LEFT_OUT = "[This result was left out to make room. Call the tool again if it is needed.]"
FILES_LEFT_OUT = "[What is in the files was left out to make room. They are in the workspace.]"
BEGINNING_CUT = NoteMessage(text="[System note: what came before this is not shown.]")
GO_ON = NoteMessage(text="[System note: go on from here.]")
EMPTY = "(empty message)"
PICTURES = "[The pictures of the results above.]"


def project(messages: Sequence[Message], *, skipped: int = 0) -> tuple[Message, ...]:
    """The log as a valid conversation: it begins and does not end with somebody other than the
    model, and each call is followed, in order, by exactly one result. What a compaction covers
    is given by its summary, in the same bytes every time.

    `messages` is the log without its first `skipped` ones, which a compaction covers.
    """
    projected = list(messages)
    if not _all_plain(messages):
        shown = list(visible(messages, skipped=skipped))
        projected = list(_conversation(shown, _first_results(shown)))
    if projected and not isinstance(projected[0], UserMessage | NoteMessage):
        projected.insert(0, BEGINNING_CUT)
    if not projected or isinstance(projected[-1], AssistantMessage):
        projected.append(GO_ON)
    return tuple(projected)


def lightened(messages: Sequence[Message], *, spare: int) -> tuple[Message, ...]:
    """A projection that takes about `spare` tokens less: the oldest tool results, and what attached
    files say, are replaced, each as a whole, by a line that says so. The last resort, where no
    summary could be made."""
    light = list(messages)
    for place, message in enumerate(light):
        if spare <= 0:
            break
        light[place] = _lighter(message)
        spare -= estimate(message) - estimate(light[place])
    return tuple(light)


def _lighter(message: Message) -> Message:
    if isinstance(message, ToolMessage) and len(message.text) > len(LEFT_OUT):
        return msgspec.structs.replace(message, text=LEFT_OUT)
    if isinstance(message, UserMessage) and len(message.documents or "") > len(FILES_LEFT_OUT):
        return msgspec.structs.replace(message, documents=FILES_LEFT_OUT)
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


def problems(messages: Sequence[Message]) -> list[str]:
    """Why a provider would refuse this conversation; empty for every projection."""
    found: list[str] = []
    if not messages or not isinstance(messages[0], UserMessage | NoteMessage):
        found.append("does not begin with a user")
    if messages and isinstance(messages[-1], AssistantMessage):
        found.append("ends with the model")
    owed: list[CallId] = []
    for place, message in enumerate(messages):
        found.extend(f"message {place}: {why}" for why in _problems_of(message, owed))
        if isinstance(message, ToolMessage):
            owed = owed[1:]
        elif isinstance(message, AssistantMessage):
            owed = [call.id for call in message.calls]
    if owed:
        found.append("ends before every call has its result")
    return found


def _problems_of(message: Message, owed: Sequence[CallId]) -> Iterator[str]:
    if isinstance(message, ToolMessage):
        if not owed or owed[0] != message.call_id:
            yield "a result that no call waits for"
        return
    if isinstance(message, AssistantMessage):
        yield from _problems_of_reply(message)
    if isinstance(message, UserMessage) and not message.text and not message.images:
        yield "a user message with nothing in it"
    if owed:
        yield "stands between a call and its result"


def _problems_of_reply(message: AssistantMessage) -> Iterator[str]:
    if not message.text and not message.calls:
        yield "a model reply with nothing in it"
    if len({call.id for call in message.calls}) != len(message.calls):
        yield "two calls with one id"
    if any(not _is_object(call.arguments) or not call.name for call in message.calls):
        yield "a call without a name or with arguments that are no JSON object"


def _all_plain(messages: Iterable[Message]) -> bool:
    """Whether each stands for itself, whatever is around it. Nearly all do, and every call of a
    model looks at each of them again: in one loop, without a call for each."""
    for message in messages:
        if not message.text:
            return False
        if isinstance(message, AssistantMessage):
            if message.calls:
                return False
        elif not isinstance(message, UserMessage):
            return False
    return True


def _conversation(
    messages: Iterable[Message], results: dict[CallId, ToolMessage]
) -> Iterator[Message]:
    for message in messages:
        match message:
            case ToolMessage():
                continue  # its place is behind its call, wherever the log has it
            case AssistantMessage():
                yield from _reply(message, results)
            case UserMessage() if not message.text and not message.images:
                yield msgspec.structs.replace(message, text=EMPTY)
            case _:
                yield message


def _reply(message: AssistantMessage, results: dict[CallId, ToolMessage]) -> Iterator[Message]:
    if not message.calls:
        if message.text:
            yield message
        return
    calls = _sound_calls(message.calls)
    yield message if calls == message.calls else msgspec.structs.replace(message, calls=calls)
    images: list[Image] = []
    for call in calls:
        # Popped, not read: an id that a later reply uses again has no result of its own.
        result = results.pop(call.id, None) or _no_result(call)
        images.extend(result.images)
        yield msgspec.structs.replace(result, images=()) if result.images else result
    if images:
        # Not in the results: some providers take words only there.
        yield UserMessage(text=PICTURES, images=tuple(images))


def _no_result(call: ToolCall) -> ToolMessage:
    return ToolMessage(call_id=call.id, name=call.name, text=NO_RESULT, outcome=Outcome.UNKNOWN)


def _first_results(messages: Iterable[Message]) -> dict[CallId, ToolMessage]:
    results: dict[CallId, ToolMessage] = {}
    for message in messages:
        if isinstance(message, ToolMessage):
            results.setdefault(message.call_id, message)
    return results


def _sound_calls(calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
    """The same calls where they are sound; doubles dropped, broken ones made readable."""
    unique = {call.id: call for call in reversed(calls)}
    kept = calls if len(unique) == len(calls) else tuple(reversed(unique.values()))
    return tuple(_sound(call) for call in kept)


def _sound(call: ToolCall) -> ToolCall:
    if call.name and _is_object(call.arguments):
        return call
    arguments = call.arguments
    if not _is_object(arguments):
        whole = arguments.encode("utf-8", "replace").decode()  # half characters are not JSON
        arguments = msgspec.json.encode({"malformed": whole}).decode()
    return msgspec.structs.replace(call, name=call.name or "unnamed", arguments=arguments)


def _is_object(arguments: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(arguments), dict)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return False
