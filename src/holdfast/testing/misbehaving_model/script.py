"""The script: which step of which script answers a request."""

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from holdfast.testing.misbehaving_model.conversation import InvalidRequest, RequestSummary


class ScriptedFault(StrEnum):
    CUT = "cut"  # the connection is closed in the middle of the stream
    HALF_JSON = "half_json"  # an event ends in the middle of its JSON, and so does the stream
    SILENCE = "silence"  # the request is taken and never answered
    STALL = "stall"  # half of the answer, and then nothing
    COMMENTS = "comments"  # keep-alive comments for ever, and never a token
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
        """The step that is due; None: nobody scripted this request."""
        asked = conversation.user_text
        if self._posted:
            step = self._take_posted(asked)
            if step is not None:
                return step
        if "[" not in asked:
            return None
        steps = parse_directives(asked)
        place = conversation.replies_since
        if place >= len(steps):
            return None
        return self._count_use(steps[place], (asked, place))

    def _take_posted(self, user_text: str) -> ScriptedReply | None:
        for place, step in enumerate(self._posted):
            if step.match is None or step.match in user_text:
                left = (step.times or 1) - 1
                if left > 0:
                    self._posted[place] = msgspec.structs.replace(step, times=left)
                else:
                    del self._posted[place]
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
    """The steps that a user message spells out; none if it holds no directive.

    Raises `InvalidRequest` for a directive whose value is none: a misspelt script must not pass for a
    model that behaves.
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
