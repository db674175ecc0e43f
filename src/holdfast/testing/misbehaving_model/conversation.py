"""What a request comes to, whatever mode it is written in, and the rules all modes share."""

import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_CALL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_SYSTEM_NOTE = re.compile(r"\A\[System note:[^\]]*\]\s*")


class InvalidRequest(Exception):
    """A request no provider has to take; the text says which rule it breaks."""


class RequestSummary(msgspec.Struct, frozen=True, gc=False):
    """What the script needs to know of a request."""

    model: str
    stream: bool
    user_text: str  # the text of the last user message, or of its last part
    replies_since: int  # assistant messages since then
    result: str | None  # the last tool result, where none but a note follows it
    turn: int  # user messages in all: with `answered`, the place in the conversation


class ToolListChecker:
    """Owns the tool lists it has already found good: they are the same in most requests."""

    def __init__(self, name_of: Callable[[Any], str]) -> None:
        self._name_of = name_of
        self._seen: set[bytes] = set()

    def check(self, raw: bytes) -> None:
        if raw == b"null" or raw in self._seen:
            return
        tools = msgspec.json.decode(raw)
        require(isinstance(tools, list) and bool(tools), "tools is no list, or empty")
        names = [self._name_of(tool) for tool in tools]
        for name in names:
            require(TOOL_NAME.fullmatch(name) is not None, f"tool name {name!r} is not allowed")
        require(len(set(names)) == len(names), f"two tools have one name: {names}")
        if len(self._seen) < 1000:
            self._seen.add(raw)


class OpenToolCalls:
    """Owns the calls of a conversation while it is read: each is new, and has one result."""

    def __init__(self) -> None:
        self.waiting: list[str] = []
        self._seen: set[str] = set()

    def open(self, call_id: str, name: str, at: str) -> None:
        require(_CALL_ID.fullmatch(call_id) is not None, f"{at}: the call id {call_id!r}")
        require(call_id not in self._seen, f"{at}: the call id {call_id!r} was used before")
        require(TOOL_NAME.fullmatch(name) is not None, f"{at}: a call's name")
        self._seen.add(call_id)
        self.waiting.append(call_id)

    def answer(self, call_id: str, text: object, at: str) -> None:
        require(call_id in self.waiting, f"{at}: a result for {call_id!r}, no open call")
        require(isinstance(text, str) and bool(text.strip()), f"{at}: an empty result")
        self.waiting.remove(call_id)

    def require_none(self, at: str) -> None:
        waiting = self.waiting
        require(not waiting, f"{at}: tool calls {waiting} have no result directly after them")


def require(holds: bool, rule: str) -> None:
    if not holds:
        raise InvalidRequest(rule)


def check_arguments(arguments: str, at: str) -> None:
    try:
        msgspec.json.decode(arguments, type=dict[str, msgspec.Raw])
    except msgspec.DecodeError as error:
        raise InvalidRequest(f"{at}: arguments that are no JSON object: {error}") from error


def last_user_text(texts: Iterable[str | None]) -> str:
    """What a person said last in these. A gateway's own note is not a question: a turn that is
    gone on with after a cut must meet the script it had before."""
    spoken = [_SYSTEM_NOTE.sub("", text, count=1) for text in texts if text]
    found = [text for text in spoken if text]
    return found[-1] if found else ""
