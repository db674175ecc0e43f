"""A plain yes or no: an answer where something was asked, and else a message like any other."""

from holdfast.core.ids import SessionId
from holdfast.core.messages.inbox import Inbound
from holdfast.core.people.commands import parse_command_word
from holdfast.gateway.approvals.service import ApprovalService


def approval_command(
    inbound: Inbound, session_id: SessionId | None, approvals: ApprovalService
) -> tuple[str, str] | None:
    """The command that the words stand for; None: they are for the agent.

    As long as the turn that asked is not over they are an answer, if only a late or a second
    one: to stop the work that was just allowed is not what anybody means by a second yes.
    """
    command = parse_command_word(inbound.text) if inbound.commands else None
    if command is None or session_id is None:
        return None
    asked = approvals.pending_in(session_id) or approvals.of_turn(session_id)
    return command if asked else None
