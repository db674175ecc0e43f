"""Telling an answer piece by piece to somebody to whom nothing said can be unsaid."""

from holdfast.core.messages.events import Event, MessageEnded, StepEnded, StreamVoided, TextStreamed


class Telling:
    """Owns what was told of the present step.

    A step that follows another begins a new paragraph, one that is made again says so, and
    whatever of the final text was not streamed comes with the end.
    """

    def __init__(self) -> None:
        self._told: list[str] = []
        self._gap = ""  # what is to stand before the next piece

    def piece(self, event: Event) -> str:
        """What to say on this event; "": nothing."""
        match event:
            case TextStreamed():
                return self._say(event.text)
            case StepEnded() if self._told:
                self._begin_again("\n\n")
            case StreamVoided() if self._told:
                self._begin_again(f"\n\n[{event.why}; once more]\n\n")
            case MessageEnded():
                return self._rest(event.text)
        return ""

    def _say(self, text: str) -> str:
        if not text:
            return ""
        gap, self._gap = self._gap, ""
        self._told.append(text)
        return gap + text

    def _rest(self, text: str) -> str:
        told = "".join(self._told)
        if text.startswith(told):
            return self._say(text[len(told) :])
        self._begin_again("\n\n")  # the stream was joined late, or another answer came of it
        return self._say(text)

    def _begin_again(self, gap: str) -> None:
        self._gap = gap
        self._told.clear()
