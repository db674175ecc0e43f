"""Showing: the events of a turn as its watchers may see them, with every secret taken out."""

from collections.abc import Iterator

import msgspec

from holdfast.core.events import (
    Event,
    ReasoningStreamed,
    StepEnded,
    StreamVoided,
    TextStreamed,
    ToolBegan,
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

    def of(self, event: Event) -> Iterator[Event]:
        match event:
            case TextStreamed():
                shown, self._text = self._redact.stream(self._text + event.text)
                if shown:
                    yield TextStreamed(shown)
            case ReasoningStreamed():
                shown, self._reasoning = self._redact.stream(self._reasoning + event.text)
                if shown:
                    yield ReasoningStreamed(shown)
            case StepEnded():
                if self._text:
                    yield TextStreamed(self._text)
                self._text = self._reasoning = ""
                yield StepEnded(self._redact(event.text))
            case _:
                yield self._whole(event)

    def _whole(self, event: Event) -> Event:
        match event:
            case StreamVoided():
                self._text = self._reasoning = ""
            case ToolProgressed():
                return msgspec.structs.replace(event, text=self._redact(event.text))
            case ToolBegan():
                return msgspec.structs.replace(event, arguments=self._redact(event.arguments))
        return event
