"""What a growing reply would show: the words of its step, and beneath them what is being done."""

from holdfast.core.messages.events import Event, StepEnded, StreamVoided, TextStreamed
from holdfast.core.ports.protocols import Platform
from holdfast.gateway.outbound.doing import Doing
from holdfast.gateway.outbound.fitting import messages_of


class Wording:
    """Owns the pieces of the present step, and the words of those before it, which stand until
    there is something better. `doing` None: it is not shown."""

    def __init__(self, *, doing: Doing | None, before: str = "") -> None:
        self._doing = doing
        self._before = before
        self._pieces: list[str] = []

    def take(self, event: Event) -> bool:
        """Whether there may be something new to show."""
        if isinstance(event, TextStreamed):
            self._pieces.append(event.text)
            return True
        if isinstance(event, StepEnded):
            self._before = self.words
        if isinstance(event, StepEnded | StreamVoided):
            self._pieces.clear()
            return False
        return self._doing is not None and self._doing.take(event)

    def forget(self) -> None:
        """A turn begins: nothing runs, and the present step has not said anything."""
        self._pieces.clear()
        if self._doing is not None:
            self._doing.clear()

    @property
    def speaks(self) -> bool:
        return bool(self._pieces)

    @property
    def words(self) -> str:
        words = "".join(self._pieces)
        return words if words.strip() else self._before

    @property
    def text(self) -> str:
        """All of it; "": there is nothing to show."""
        words, doing = self.words, self._lines
        if not words.strip():
            return doing
        return f"{words}\n\n{doing}" if doing else words

    def in_messages(self, platform: Platform) -> tuple[str, str, bool]:
        """The first message, what of it are words, and whether those need another one. For what is
        being done no word gives way: where both do not fit, it is left out."""
        words, *more = messages_of(self.words, platform)
        if more or not self._lines:
            return words, words, bool(more)
        whole = messages_of(self.text, platform)
        return whole[0] if len(whole) == 1 else words, words, False

    @property
    def _lines(self) -> str:
        return "" if self._doing is None else self._doing.lines
