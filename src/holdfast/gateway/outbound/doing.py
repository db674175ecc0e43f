"""What a turn does at the moment, as a few short lines beneath the words that it shows."""

from holdfast.core.ids import CallId
from holdfast.core.messages.call_line import summarise_arguments
from holdfast.core.messages.events import ToolEnded, ToolStarted, TurnEvent

_MAX_LINES = 3  # lines
_MAX_LINE_LENGTH = 60  # characters of what a call is about


class ToolProgress:
    """Owns the calls that run. Whoever looks on in a group sees which tools, and not with what: not
    all that is asked for there is everybody's."""

    def __init__(self, *, private: bool) -> None:
        self._private = private
        self._running: dict[CallId, str] = {}

    def update(self, event: TurnEvent) -> bool:
        """Whether something has begun, or is over."""
        if isinstance(event, ToolStarted):
            self._running[event.call_id] = self._line(event)
            return True
        return isinstance(event, ToolEnded) and self._running.pop(event.call_id, "") != ""

    def clear(self) -> None:
        self._running.clear()

    @property
    def lines(self) -> str:
        """ "": nothing runs."""
        lines = list(self._running.values())
        more = len(lines) - _MAX_LINES
        if more > 0:
            lines[_MAX_LINES:] = [f"▸ … and {more} more"]
        return "\n".join(lines)

    def _line(self, event: ToolStarted) -> str:
        told = summarise_arguments(event.arguments).replace("`", "'") if self._private else ""
        cut = told if len(told) <= _MAX_LINE_LENGTH else f"{told[:_MAX_LINE_LENGTH]}…"
        # As code: nothing of it is a mark, a mention or a link to the platform.
        return f"▸ {event.name} `{cut}`" if cut.strip() else f"▸ {event.name}"
