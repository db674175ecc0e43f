"""What a growing reply would show: the words of its step, and beneath them what is being done."""

from holdfast.core.messages.events import StepEnded, StreamVoided, TextStreamed, TurnEvent
from holdfast.core.ports.protocols import Platform
from holdfast.gateway.outbound.doing import ToolProgress
from holdfast.gateway.outbound.fitting import split_for_platform


class StreamText:
    """Owns the pieces of the present step, and the words of those before it, which stand until
    there is something better. `doing` None: it is not shown."""

    def __init__(self, *, tool_progress: ToolProgress | None, previous: str = "") -> None:
        self._tool_progress = tool_progress
        self._previous = previous
        self._pieces: list[str] = []

    def update(self, event: TurnEvent) -> bool:
        """Whether there may be something new to show."""
        if isinstance(event, TextStreamed):
            self._pieces.append(event.text)
            return True
        if isinstance(event, StepEnded):
            self._previous = self.reply_text
        if isinstance(event, StepEnded | StreamVoided):
            self._pieces.clear()
            return False
        return self._tool_progress is not None and self._tool_progress.update(event)

    def reset(self) -> None:
        """A turn begins: nothing runs, and the present step has not said anything."""
        self._pieces.clear()
        if self._tool_progress is not None:
            self._tool_progress.clear()

    @property
    def has_text(self) -> bool:
        return bool(self._pieces)

    @property
    def reply_text(self) -> str:
        words = "".join(self._pieces)
        return words if words.strip() else self._previous

    @property
    def text(self) -> str:
        """All of it; "": there is nothing to show."""
        words, doing = self.reply_text, self._tool_lines
        if not words.strip():
            return doing
        return f"{words}\n\n{doing}" if doing else words

    def first_message(self, platform: Platform) -> tuple[str, str, bool]:
        """The first message, what of it are words, and whether those need another one. For what is
        being done no word gives way: where both do not fit, it is left out."""
        words, *more = split_for_platform(self.reply_text, platform)
        if more or not self._tool_lines:
            return words, words, bool(more)
        whole = split_for_platform(self.text, platform)
        return whole[0] if len(whole) == 1 else words, words, False

    @property
    def _tool_lines(self) -> str:
        return "" if self._tool_progress is None else self._tool_progress.lines
