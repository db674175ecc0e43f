"""Showing: the events of a turn as its watchers may see them, with every secret taken out."""

from collections.abc import Iterator

import msgspec

from holdfast.core.ids import CallId
from holdfast.core.messages.events import (
    Event,
    ReasoningStreamed,
    StepEnded,
    StreamVoided,
    TextStreamed,
    ToolBegan,
    ToolEnded,
    ToolProgressed,
)
from holdfast.gateway.redaction import Redaction


class Showing:
    """Owns what is held back of a turn's streams: a secret may come in several pieces, so what
    could be the beginning of one waits for the piece that decides it."""

    def __init__(self, redact: Redaction) -> None:
        self._redact = redact
        self._text = ""
        self._reasoning = ""
        self._output: dict[CallId, str] = {}  # of the calls that run

    def of(self, event: Event) -> Iterator[Event]:
        match event:
            case TextStreamed() | ReasoningStreamed() | ToolProgressed():
                if shown := self._decided(event):
                    yield msgspec.structs.replace(event, text=shown)
            case ToolEnded():
                yield from self._ended(event)
            case StepEnded():
                if self._text:
                    yield TextStreamed(self._text)
                self._text = self._reasoning = ""
                yield StepEnded(self._redact(event.text))
            case _:
                yield self._whole(event)

    def _decided(self, event: TextStreamed | ReasoningStreamed | ToolProgressed) -> str:
        """What can be shown of a piece and of those before it. The pieces of a command's output
        are put together by who looks on, like those of a text."""
        match event:
            case TextStreamed():
                shown, self._text = self._redact.stream(self._text + event.text)
            case ReasoningStreamed():
                shown, self._reasoning = self._redact.stream(self._reasoning + event.text)
            case ToolProgressed():
                held = self._output.get(event.call_id, "")
                shown, self._output[event.call_id] = self._redact.stream(held + event.text)
        return shown

    def _ended(self, event: ToolEnded) -> Iterator[Event]:
        if held := self._output.pop(event.call_id, ""):
            yield ToolProgressed(event.call_id, held)
        yield event

    def _whole(self, event: Event) -> Event:
        match event:
            case StreamVoided():
                self._text = self._reasoning = ""
            case ToolBegan():
                return msgspec.structs.replace(event, arguments=self._redact(event.arguments))
        return event
