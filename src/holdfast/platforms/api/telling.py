"""Telling an answer piece by piece to somebody to whom nothing said can be unsaid."""

from holdfast.core.messages.events import (
    MessageEnded,
    StepEnded,
    StreamVoided,
    TextStreamed,
    TurnEvent,
)


class AnswerText:
    """Owns what was told of the present step.

    A step that follows another begins a new paragraph, one that is made again says so, and
    whatever of the final text was not streamed comes with the end.
    """

    def __init__(self) -> None:
        self._sent: list[str] = []
        self._gap = ""  # what is to stand before the next piece

    def delta(self, event: TurnEvent) -> str:
        """What to say on this event; "": nothing."""
        match event:
            case TextStreamed():
                return self._emit(event.text)
            case StepEnded() if self._sent:
                self._start_over("\n\n")
            case StreamVoided() if self._sent:
                self._start_over(f"\n\n[{event.why}; once more]\n\n")
            case MessageEnded():
                return self._remainder(event.text)
        return ""

    def _emit(self, text: str) -> str:
        if not text:
            return ""
        gap, self._gap = self._gap, ""
        self._sent.append(text)
        return gap + text

    def _remainder(self, text: str) -> str:
        told = "".join(self._sent)
        if text.startswith(told):
            return self._emit(text[len(told) :])
        self._start_over("\n\n")  # the stream was joined late, or another answer came of it
        return self._emit(text)

    def _start_over(self, gap: str) -> None:
        self._gap = gap
        self._sent.clear()
