"""A plain yes or no: an answer where something was asked, and else a message like any other."""

from collections.abc import Mapping

from holdfast.core.ids import SessionId
from holdfast.core.inbox import Inbound
from holdfast.gateway.approvals import Approvals

_LONGEST = 12
_COMMANDS: Mapping[str, tuple[str, str]] = {
    "yes": ("approve", ""),
    "y": ("approve", ""),
    "no": ("deny", ""),
    "n": ("deny", ""),
    "session": ("approve", "session"),
    "always": ("approve", "always"),
}


def spoken(
    inbound: Inbound, session_id: SessionId | None, approvals: Approvals
) -> tuple[str, str] | None:
    """The command that the words stand for; None: they are for the agent.

    As long as the turn that asked is not over they are an answer, if only a late or a second
    one: to stop the work that was just allowed is not what anybody means by a second yes.
    """
    if len(inbound.text) > _LONGEST or not inbound.commands or session_id is None:
        return None
    command = _COMMANDS.get(inbound.text.strip().rstrip(".!").lower())
    if command is None:
        return None
    asked = approvals.asked_in(session_id) or approvals.of_turn(session_id)
    return command if asked else None
