"""Showing: the events of a turn as its watchers may see them, with every secret taken out."""

from collections.abc import Iterator

import msgspec

from holdfast.core.ids import CallId
from holdfast.core.messages.events import (
    ReasoningStreamed,
    StepEnded,
    StreamVoided,
    TextStreamed,
    ToolEnded,
    ToolProgressed,
    ToolStarted,
    TurnEvent,
)
from holdfast.gateway.redaction import Redaction


class StreamRedactor:
    """Owns what is held back of a turn's streams: a secret may come in several pieces, so what
    could be the beginning of one waits for the piece that decides it."""

    def __init__(self, redact: Redaction) -> None:
        self._redact = redact
        self._text = ""
        self._reasoning = ""
        self._output: dict[CallId, str] = {}  # of the calls that run

    def redact_event(self, event: TurnEvent) -> Iterator[TurnEvent]:
        match event:
            case TextStreamed() | ReasoningStreamed() | ToolProgressed():
                if shown := self._redact_piece(event):
                    yield msgspec.structs.replace(event, text=shown)
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
        """What can be shown of a piece and of those before it. The pieces of a command's output
        are put together by who looks on, like those of a text."""
        match event:
            case TextStreamed():
                shown, self._text = self._redact.split_stream(self._text + event.text)
            case ReasoningStreamed():
                shown, self._reasoning = self._redact.split_stream(self._reasoning + event.text)
            case ToolProgressed():
                held = self._output.get(event.call_id, "")
                shown, self._output[event.call_id] = self._redact.split_stream(held + event.text)
        return shown

    def _flush_output(self, event: ToolEnded) -> Iterator[TurnEvent]:
        if held := self._output.pop(event.call_id, ""):
            yield ToolProgressed(event.call_id, held)
        yield event

    def _redact_whole(self, event: TurnEvent) -> TurnEvent:
        match event:
            case StreamVoided():
                self._text = self._reasoning = ""
            case ToolStarted():
                return msgspec.structs.replace(event, arguments=self._redact(event.arguments))
        return event
