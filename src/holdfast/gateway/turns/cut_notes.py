"""The notes that tell a model of a cut: by what the turn was cut, and what to do about it."""

from holdfast.core.messages.message import NoteMessage
from holdfast.core.turns.stop import TurnExitReason

_INTERRUPTED = (
    "[System note: {what} of the gateway cut the last turn. The history above is intact. Look at "
    "the latest tool results first, then finish what was asked.]"
)
# Nobody marked it: it may have been stopped by a person, who wants something else now.
UNANSWERED_RESULTS_NOTE = NoteMessage(
    text="[System note: the last turn ended behind the tool results above, before anything was "
    "said about them. Take them into account where they matter.]"
)


def interruption_note(reason: str | None) -> NoteMessage:
    """By the reason that a session was marked with; None stands for a restart."""
    match reason:
        case None | TurnExitReason.RESTART_TIMEOUT:
            what = "a restart"
        case TurnExitReason.SHUTDOWN_TIMEOUT:
            what = "a shutdown"
        case _:
            what = "an interruption"
    return NoteMessage(text=_INTERRUPTED.format(what=what))
