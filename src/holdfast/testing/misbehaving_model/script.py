"""The script: what a request asks, which reply answers it, and that reply's text and ids."""

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from hashlib import sha256
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


class ScriptedFault(StrEnum):
    CUT = "cut"  # the connection is closed in the middle of the stream
    HALF_JSON = "half_json"  # an event ends in the middle of its JSON, and so does the stream
    SILENCE = "silence"  # the request is taken and never answered
    STALL = "stall"  # half of the answer, and then nothing
    COMMENTS = "comments"  # keep-alive comments forever, and never a token
    DROP = "drop"  # the connection is closed before any answer
    HTML = "html"  # 200 and a web page
    JSON_ERROR = "json_error"  # 200 and an error object
    ERROR_EVENT = "error_event"  # an error object in the middle of the stream
    NO_FINISH = "no_finish"  # no finish_reason, but the end mark
    NO_DONE = "no_done"  # a finish_reason, but no end mark
    UNSTREAMED = "unstreamed"  # the answer in one piece, though a stream was asked for
    MISNAMED = "misnamed"  # a stream that calls itself plain text


class ScriptedCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    arguments: dict[str, Any] | str = {}
    id: str | None = None

    @property
    def text(self) -> str:
        given = self.arguments
        return given if isinstance(given, str) else msgspec.json.encode(given).decode()


class ScriptedReply(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One answer; see the package's docstring for what each field does."""

    match: str | None = None
    times: int | None = None
    text: str | None = None
    reasoning: str | None = None
    calls: tuple[ScriptedCall, ...] = ()
    fragment: int = 0
    latency: float = 0
    first: float = 0
    delay: float = 0
    split: int = 0
    status: int = 200
    retry_after: str | None = None
    message: str = "scripted"
    fault: ScriptedFault | None = None
    finish: str | None = None
    cached: int = 0


class ReplyScript:
    """Owns the steps that were posted and the count of those that were used."""

    def __init__(self) -> None:
        self._posted: list[ScriptedReply] = []
        self._used: dict[tuple[str, int], int] = {}

    def post(self, steps: Iterable[ScriptedReply]) -> None:
        self._posted.extend(steps)

    def clear(self) -> None:
        self._posted.clear()
        self._used.clear()

    def choose(self, conversation: RequestSummary) -> ScriptedReply | None:
        """The next step; None: the script has none for this request."""
        asked = conversation.user_text
        if self._posted:
            step = self._take_posted(asked)
            if step is not None:
                return step
        if "[" not in asked:
            return None
        steps = parse_directives(asked)
        position = conversation.replies_since
        if position >= len(steps):
            return None
        return self._count_use(steps[position], (asked, position))

    def _take_posted(self, user_text: str) -> ScriptedReply | None:
        for position, step in enumerate(self._posted):
            if step.match is None or step.match in user_text:
                left = (step.times or 1) - 1
                if left > 0:
                    self._posted[position] = msgspec.structs.replace(step, times=left)
                else:
                    del self._posted[position]
                return step
        return None

    def _count_use(self, step: ScriptedReply, key: tuple[str, int]) -> ScriptedReply | None:
        if step.times is None:
            return step
        used = self._used[key] = self._used.get(key, 0) + 1
        return step if used <= step.times else None


_STRING = r"\"(?:[^\"\\]|\\.)*\""
_PLAIN = r"[^\[\]\"]"
_DIRECTIVE = re.compile(
    r"\[(then|tool|text|reasoning|latency|first|delay|split|fragment|status|cached|finish|fault"
    rf"|times)\b[ ]*((?:{_PLAIN}|{_STRING}|\[(?:{_PLAIN}|{_STRING})*\])*)\]",
    re.DOTALL,
)


def parse_directives(text: str) -> Sequence[ScriptedReply]:
    """The replies that a user message scripts; empty without a directive.

    Raises `InvalidRequest` for an invalid value: a misspelt script must not pass for a model that
    behaves.
    """
    found = _DIRECTIVE.findall(text)
    if not found:
        return ()
    steps: list[dict[str, Any]] = [{}]
    for name, value in found:
        if name == "then":
            steps.append({})
        else:
            _apply(steps[-1], name, value.strip())
    try:
        return [msgspec.convert(step, ScriptedReply, strict=False) for step in steps]
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"a directive that cannot be read: {error}") from error


def _apply(step: dict[str, Any], name: str, value: str) -> None:
    if name == "tool":
        tool, _, arguments = value.partition(" ")
        call = {"name": tool, "arguments": arguments.strip() or "{}"}
        step["calls"] = [*step.get("calls", ()), call]
    elif name == "status":
        status, _, retry_after = value.partition(" ")
        step |= {"status": status, "retry_after": retry_after or None}
    else:
        step[name] = value


PIECE_CHARS = 8  # characters of text an event


def default_text(conversation: RequestSummary) -> str:
    """What is said where no script says otherwise."""
    if conversation.result is not None:
        return f"Done: {conversation.result[:200]}"
    return f"You said: {conversation.user_text}"


def reply_text(conversation: RequestSummary, reply: ScriptedReply) -> str:
    if reply.text is not None:
        return reply.text
    return "" if reply.calls else default_text(conversation)


def reply_call_id(conversation: RequestSummary, reply: ScriptedReply, index: int) -> str:
    return reply.calls[index].id or f"call_{conversation.replies_since}_{index}_{conversation.turn}"


def split_text(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def argument_fragments(reply: ScriptedReply) -> list[tuple[int, str]]:
    """The arguments of parallel calls, each with its call's place: one call's piece after the
    other's in turn, as no sane and every real provider may send them."""
    rows = [split_text(call.text, reply.fragment or len(call.text) or 1) for call in reply.calls]
    longest = max(map(len, rows), default=0)
    return [
        (position, row[at])
        for at in range(longest)
        for position, row in enumerate(rows)
        if at < len(row)
    ]


def sign(text: str) -> str:
    """What only this server can make, and can tell from what was changed on its way."""
    return b64encode(sha256(b"misbehaving" + text.encode()).digest()).decode()
