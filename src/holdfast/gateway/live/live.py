"""What is live of a turn: the present step, as far as the log does not have it."""

from collections.abc import Callable, Iterator

import msgspec

from holdfast.core.ids import CallId
from holdfast.core.messages.events import (
    ReasoningStreamed,
    StreamVoided,
    TextStreamed,
    ToolProgressed,
    ToolStarted,
    TurnEvent,
)

_MAX_OUTPUT = 16 * 1024  # characters of a running call's output; its result has more


class RunningCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that runs, and the end of what it has written."""

    id: CallId
    name: str
    arguments: str
    output: str
    since: float


class _CallBuffer:
    __slots__ = ("began", "length", "pieces", "since")

    def __init__(self, began: ToolStarted, *, since: float) -> None:
        self.began = began
        self.since = since
        self.pieces: list[str] = []
        self.length = 0

    def write(self, text: str) -> None:
        self.pieces.append(text)
        self.length += len(text)
        if self.length > 2 * _MAX_OUTPUT:  # twice, so that it is seldom put together
            self.pieces = ["".join(self.pieces)[-_MAX_OUTPUT:]]
            self.length = len(self.pieces[0])


class LiveStep:
    """Owns what was streamed and is not in the log.

    What is on its way to the log is taken out here when it is handed over, not when it has
    arrived: whoever reads the log and then this sees nothing twice.
    """

    __slots__ = ("_calls", "_now", "_reasoning", "_text")

    def __init__(self, *, now: Callable[[], float]) -> None:
        self._now = now
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[CallId, _CallBuffer] = {}

    def add(self, event: TurnEvent) -> bool:
        """Keep an event; True: it is a piece, to be appended to what others show."""
        if isinstance(event, TextStreamed):
            self._text.append(event.text)
        elif isinstance(event, ReasoningStreamed):
            self._reasoning.append(event.text)
        elif isinstance(event, ToolProgressed):
            return self._progress(event)
        elif isinstance(event, StreamVoided):
            self.clear_reply()
        else:
            if isinstance(event, ToolStarted):
                self._calls[event.call_id] = _CallBuffer(event, since=self._now())
            return False
        return True

    def clear_reply(self) -> None:
        """The model's words belong to the log now, or are void."""
        self._text.clear()
        self._reasoning.clear()

    def remove_call(self, call_id: CallId) -> None:
        self._calls.pop(call_id, None)

    @property
    def text(self) -> str:
        return "".join(self._text)

    @property
    def reasoning(self) -> str:
        return "".join(self._reasoning)

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools that run now."""
        return tuple(call.began.name for call in self._calls.values())

    @property
    def calls(self) -> Iterator[RunningCall]:
        for call_id, call in self._calls.items():
            output = "".join(call.pieces)[-_MAX_OUTPUT:]
            yield RunningCall(
                id=call_id,
                name=call.began.name,
                arguments=call.began.arguments,
                output=output,
                since=call.since,
            )

    def _progress(self, event: ToolProgressed) -> bool:
        call = self._calls.get(event.call_id)
        if call is None:
            return False  # its result is on its way to the log
        call.write(event.text)
        return True
