"""What a turn does at the moment, as a few short lines beneath the words that it shows."""

from holdfast.core.ids import CallId
from holdfast.core.messages.call_line import told_in_a_line
from holdfast.core.messages.events import Event, ToolBegan, ToolEnded

_MOST = 3  # lines
_LONGEST = 60  # characters of what a call is about


class Doing:
    """Owns the calls that run. Whoever looks on in a group sees which tools, and not with what: not
    all that is asked for there is everybody's."""

    def __init__(self, *, private: bool) -> None:
        self._private = private
        self._running: dict[CallId, str] = {}

    def take(self, event: Event) -> bool:
        """Whether something has begun, or is over."""
        if isinstance(event, ToolBegan):
            self._running[event.call_id] = self._line(event)
            return True
        return isinstance(event, ToolEnded) and self._running.pop(event.call_id, "") != ""

    def clear(self) -> None:
        self._running.clear()

    @property
    def lines(self) -> str:
        """ "": nothing runs."""
        lines = list(self._running.values())
        more = len(lines) - _MOST
        if more > 0:
            lines[_MOST:] = [f"▸ … and {more} more"]
        return "\n".join(lines)

    def _line(self, event: ToolBegan) -> str:
        told = told_in_a_line(event.arguments).replace("`", "'") if self._private else ""
        cut = told if len(told) <= _LONGEST else f"{told[:_LONGEST]}…"
        # As code: nothing of it is a mark, a mention or a link to the platform.
        return f"▸ {event.name} `{cut}`" if cut.strip() else f"▸ {event.name}"
