"""Routes an accepted message: to the command dispatcher, to a pending approval, or to the lane of its session."""

from holdfast.core.ids import SessionId
from holdfast.core.messages.admission import with_session_mode
from holdfast.core.messages.inbox import Accepted, Inbound
from holdfast.core.people.commands import parse_command_word
from holdfast.gateway.approvals.service import ApprovalService
from holdfast.gateway.commands.dispatcher import CommandDispatcher
from holdfast.gateway.live.subscriptions import MessageSubscriptions
from holdfast.gateway.sessions.resolver import SessionStore
from holdfast.gateway.subagents import Subagents


# MERGED holdfast.gateway.inbound.words: A plain yes or no: an answer where something was asked, and else a message like any other.
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


# MERGED holdfast.gateway.inbound.reception: Reception: where an accepted message goes: to the commands, to a question, or to its lane.
class Router:
    """Keeps nothing. Both ways in are plain functions: what they decide is decided at once."""

    def __init__(
        self,
        dispatcher: CommandDispatcher,
        sessions: SessionStore,
        *,
        approvals: ApprovalService,
        subagents: Subagents,
        subscriptions: MessageSubscriptions,
    ) -> None:
        self._dispatcher = dispatcher
        self._sessions = sessions
        self._approvals = approvals
        self._subagents = subagents
        self._subscriptions = subscriptions

    def route(self, accepted: Accepted) -> None:
        if not self._dispatcher.dispatch(accepted) and not self._take_approval_answer(accepted):
            row = with_session_mode(accepted.row, accepted.busy_mode)
            self._sessions.admit(
                row, known=accepted.route_session, route_target=accepted.route_target
            )
            self._subagents.on_admitted(row)

    def route_recovered(self, accepted: Accepted) -> None:
        """A row from before this start: in order like any other, but no stale command."""
        self._subscriptions.open(accepted.row.id)
        if not self._dispatcher.dispatch(accepted, late=True) and not self._take_approval_answer(
            accepted
        ):
            row = with_session_mode(accepted.row, accepted.busy_mode)
            self._sessions.admit(
                row, known=accepted.route_session, route_target=accepted.route_target
            )

    def _take_approval_answer(self, accepted: Accepted) -> bool:
        """A yes or no to what was asked in this conversation goes to the commands."""
        session_id = self._dispatcher.session_of(accepted)
        command = approval_command(accepted.row.inbound, session_id, self._approvals)
        if command is None:
            return False
        self._dispatcher.run(accepted, *command)
        return True
