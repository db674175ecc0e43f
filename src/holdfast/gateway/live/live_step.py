"""The current step of a turn, as it is shown before it is stored; redacts the events of turns."""

from collections.abc import Callable, Iterator

import msgspec

from holdfast.core.ids import CallId
from holdfast.core.messages.events import (
    ReasoningStreamed,
    RetryScheduled,
    StepEnded,
    StreamVoided,
    TextStreamed,
    ToolEnded,
    ToolProgressed,
    ToolStarted,
    TurnEvent,
)
from holdfast.gateway.redaction import Redaction

_MAX_OUTPUT = 16 * 1024  # characters of a running call's output; its result has more


class RunningCall(msgspec.Struct, frozen=True, kw_only=True):
    """A running tool call, and the end of its output."""

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
        if self.length > 2 * _MAX_OUTPUT:  # twice the limit, so that it is rarely joined
            self.pieces = ["".join(self.pieces)[-_MAX_OUTPUT:]]
            self.length = len(self.pieces[0])


class LiveStep:
    """Owns what was streamed and is not in the transcript yet.

    Content that is being stored is removed here when its write begins, not when it has ended, so
    that reading the transcript and then this shows nothing twice.
    """

    __slots__ = ("_calls", "_now", "_reasoning", "_text", "retry")

    def __init__(self, *, now: Callable[[], float]) -> None:
        self._now = now
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[CallId, _CallBuffer] = {}
        # The announced retry of the model call, until the model sends something.
        self.retry: RetryScheduled | None = None

    def add(self, event: TurnEvent) -> bool:
        """Add an event; True if it is a piece of text that subscribers append."""
        if isinstance(event, TextStreamed):
            self._text.append(event.text)
            self.retry = None
        elif isinstance(event, ReasoningStreamed):
            self._reasoning.append(event.text)
            self.retry = None
        elif isinstance(event, ToolProgressed):
            return self._progress(event)
        elif isinstance(event, StreamVoided):
            self.clear_reply()
        elif isinstance(event, RetryScheduled):
            self.retry = event
        else:
            if isinstance(event, ToolStarted):
                self._calls[event.call_id] = _CallBuffer(event, since=self._now())
            return False
        return True

    def clear_reply(self) -> None:
        """Clear the model's text: it is being stored, or is discarded."""
        self._text.clear()
        self._reasoning.clear()
        self.retry = None

    def clear(self) -> None:
        self.clear_reply()
        self._calls.clear()

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
        """The names of the running tools."""
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
            return False  # its result is being stored
        call.write(event.text)
        return True


class StreamRedactor:
    """Redacts the events of a turn. Owns the held-back ends of its streams: a secret may arrive in
    several pieces, so what could be its start waits for the next piece."""

    def __init__(self, redact: Redaction) -> None:
        self._redact = redact
        self._text = ""
        self._reasoning = ""
        self._output: dict[CallId, str] = {}  # of the running calls

    def redact_event(self, event: TurnEvent) -> Iterator[TurnEvent]:
        match event:
            case TextStreamed() | ReasoningStreamed() | ToolProgressed():
                if shown := self._redact_piece(event):
                    same = shown == event.text
                    yield event if same else msgspec.structs.replace(event, text=shown)
            case ToolEnded():
                yield from self._flush_output(event)
            case StepEnded():
                if self._text:
                    yield TextStreamed(self._text)
                self._text = self._reasoning = ""
                yield StepEnded(self._redact(event.text))
            case _:
                yield self._redact_whole(event)

    def _redact_piece(self, event: TextStreamed | ReasoningStreamed | ToolProgressed) -> str:
        """What can be shown of this piece and of those held back. Subscribers concatenate the
        pieces of a command's output, like those of a text."""
        match event:
            case TextStreamed():
                shown, self._text = self._redact.split_stream(self._text + event.text)
            case ReasoningStreamed():
                shown, self._reasoning = self._redact.split_stream(self._reasoning + event.text)
            case ToolProgressed():
                buffered = self._output.get(event.call_id, "")
                shown, self._output[event.call_id] = self._redact.split_stream(
                    buffered + event.text
                )
        return shown

    def _flush_output(self, event: ToolEnded) -> Iterator[TurnEvent]:
        if buffered := self._output.pop(event.call_id, ""):
            yield ToolProgressed(event.call_id, buffered)
        yield event

    def _redact_whole(self, event: TurnEvent) -> TurnEvent:
        match event:
            case StreamVoided():
                self._text = self._reasoning = ""
            case ToolStarted():
                return msgspec.structs.replace(event, arguments=self._redact(event.arguments))
        return event
